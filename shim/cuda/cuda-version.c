/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the version of the driver: see cuda-version.h
 */

#include "shim/cuda/cuda-version.h"
#include "shim/cuda/cuda-next-ioctl.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/client-environment.h"
#include "common/macro.h"
#include "shim/cuda/cuda-rm.h"

typedef enum State {
        STATE_UNASKED,
        STATE_ON,
        STATE_DISABLED,
        STATE_UNKNOWN, /* this version of the driver */
} State;

static _Atomic State state;
static bool is_disabled, is_unwanted, any_is_wanted;

/* Runs when the library is loaded: later, another thread may be changing the environment. */
__attribute__((constructor)) static void read_environment(void) {
        const char *wanted = strempty(secure_getenv("XSCHED_CUDA_STOP"));

        is_disabled = environment_is_true(secure_getenv("XSCHED_DISABLE"));
        is_unwanted = streq(wanted, "0");
        any_is_wanted = streq(wanted, "any");
}

bool cuda_is_disabled(void) {
        return is_disabled;
}

static State ask(int fd) {
        NvrmVersion v = {.command = NVRM_VERSION_QUERY};
        PROTECT_ERRNO;

        if (is_unwanted || is_disabled)
                return STATE_DISABLED;
        if (cuda_next_ioctl(fd, NVRM_IOC(NVRM_NR_VERSION, NvrmVersion), &v) < 0)
                return STATE_UNKNOWN;
        v.text[sizeof(v.text) - 1] = '\0';
        switch (nvrm_version_known(v.text)) {
        case NVRM_SEEN:
                return STATE_ON;
        case NVRM_READ:
                return any_is_wanted ? STATE_ON : STATE_UNKNOWN;
        default:
                return STATE_UNKNOWN;
        }
}

void cuda_version_ask(int fd) {
        atomic_store(&state, ask(fd));
}

bool cuda_version_is_asked(void) {
        return atomic_load(&state) != STATE_UNASKED;
}

bool cuda_version_is_on(void) {
        return atomic_load(&state) == STATE_ON;
}

bool cuda_version_is_off(void) {
        State s = atomic_load_explicit(&state, memory_order_relaxed);

        return s == STATE_DISABLED || s == STATE_UNKNOWN;
}

bool cuda_version_any_is_wanted(void) {
        return any_is_wanted;
}
