/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads the environment; libxsched reports values that are out of range.
 */

#include "shim/compat/environment.h"
#include "common/macro.h"

static AutoXQueue read_at_start;

__attribute__((constructor)) static void read_environment(void) {
        const EnvironmentSource own = {.get = environment_get_own};

        auto_xqueue_read(&own, &read_at_start);
}

const AutoXQueue *environment(void) {
        return &read_at_start;
}
