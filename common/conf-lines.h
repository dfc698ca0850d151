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

/* Returns whether the line from `line` to its newline at `stop` is a comment. */
bool conf_line_is_comment(const char *line, const char *stop);
bool conf_line_is_continued(const char *line, const char *stop);

typedef struct ConfLines {
        char *next, *end;
        unsigned n_read; /* lines of the file, continuations and comments included */
} ConfLines;

/* The caller owns the text, which is cut up in place. The byte behind it is written to, so it has to exist. */
static inline ConfLines conf_lines(char *text, size_t size) {
        return (ConfLines){.next = text, .end = text + size};
}

/* Returns the next line, terminated and without white space around it; NULL at the end. It may contain NUL bytes of the
 * file, so its size is returned, too. *ret_number is the number of its first line. */
char *conf_lines_next(ConfLines *l, size_t *ret_size, unsigned *ret_number);
