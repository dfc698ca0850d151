/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What is said of a value that is ignored
 */

#include "common/environment-source.h"

#include <stdio.h>

#include "common/macro.h"

const char *environment_get_own(const char *variable, void *unused) {
        return secure_getenv(variable);
}

const char *environment_get(const EnvironmentSource *s, const char *variable) {
        return s->get(variable, s->userdata);
}

void environment_complain(const EnvironmentSource *s, const char *variable, const char *value, const char *wanted) {
        char line[256];

        if (!s->complain)
                return;
        (void) snprintf(line, sizeof(line), "%s=%.64s is ignored: expected %s", variable, value, wanted);
        for (char *p = line; *p; p++) /* one line, whatever the value is */
                if ((unsigned char) *p < ' ' || *p == 0x7f)
                        *p = '?';
        s->complain(line, s->userdata);
}
