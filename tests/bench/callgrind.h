/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Instructions of a run of a program, as callgrind counts them
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `command` runs something under valgrind --tool=callgrind and lets us read what that says: 2>&1. 0 when it said
 * nothing, or, unless `may_fail`, when it failed. */
static inline uint64_t callgrind_count(const char *command, bool may_fail) {
        uint64_t count = 0;
        char line[256];
        FILE *f = popen(command, "re");

        if (!f)
                return 0;
        while (fgets(line, sizeof(line), f)) {
                const char *p = strstr(line, "Collected : ");
                if (p)
                        count = strtoull(p + strlen("Collected : "), NULL, 10);
        }
        return pclose(f) == 0 || may_fail ? count : 0;
}
