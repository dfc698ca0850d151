/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The lines of a configuration file, as systemd.syntax(7) has them
 *
 * Comments are left out. A line that ends in a backslash goes on with the next line that is no comment, and the
 * backslash becomes a space. Pure; used by the service and by libxsched.
 */

#include <stdbool.h>
#include <stddef.h>

/* Of a line from `line` to `stop`, where its newline is. */
bool conf_line_is_comment(const char *line, const char *stop);
bool conf_line_is_continued(const char *line, const char *stop);

typedef struct ConfLines {
        char *next, *end;
        unsigned n_read; /* lines of the file, continuations and comments included */
} ConfLines;

/* The text is cut up in place and stays the caller's. *end is written to: it has to be there. */
static inline ConfLines conf_lines(char *text, size_t size) {
        return (ConfLines){.next = text, .end = text + size};
}

/* The next line, without white space around it, terminated; NULL at the end. It may hold NUL bytes of the file's own,
 * so it comes with its size. *ret_number is where it begins. */
char *conf_lines_next(ConfLines *l, size_t *ret_size, unsigned *ret_number);
