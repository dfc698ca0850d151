/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Errors, in one line for people
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "value.h"

int ctl_fail(const char *format, ...) {
        _cleanup_free_ char *text = NULL, *escaped = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        /* Texts from outside are escaped, so that they do nothing to the terminal. */
        escaped = text ? value_format(&(Value){.type = VALUE_STRING, .s = text}) : NULL;
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, escaped ?: "out of memory");
        return EXIT_FAILURE;
}
