/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Functions that all parts of xsched-demo use
 */

#include <stdarg.h>
#include <stdio.h>

#include "tools/demo/demo.h"

static const char *const role_table[_ROLE_MAX] = {
                [ROLE_LATENCY] = "latency",
                [ROLE_BATCH] = "batch",
};
DEFINE_STRING_TABLE_LOOKUP(role, Role);

void demo_complain(const char *format, ...) {
        char text[1536];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        /* Erases an open line of progress before the error. */
        (void) fprintf(stderr, "%sxsched-demo: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
}

const char *demo_self(void) {
        static char path[4096];

        if (!*path) {
                ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
                path[MAX(n, (ssize_t) 0)] = '\0';
        }
        return path;
}
