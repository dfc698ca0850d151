/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The lines of a configuration file
 */

#include <string.h>

#include "common/conf-lines.h"
#include "common/macro.h"

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_in_return(const char *line, const char *stop) {
        return stop > line && stop[-1] == '\r';
}

/* Of the file: without the newline, and the carriage return before it. */
static char *next_of_file(ConfLines *l, char **ret_stop) {
        char *line = l->next;

        if (line >= l->end)
                return NULL;
        char *newline = memchr(line, '\n', (size_t) (l->end - line)), *stop = newline ?: l->end;

        l->next = newline ? newline + 1 : l->end;
        l->n_read++;
        *ret_stop = stop - ends_in_return(line, stop);
        return line;
}

bool conf_line_is_comment(const char *line, const char *stop) {
        while (line < stop && is_blank(*line))
                line++;
        return line < stop && (*line == '#' || *line == ';');
}

/* An escaped backslash does not continue the line. */
static bool ends_in_backslash(const char *line, const char *stop) {
        const char *p = stop;

        while (p > line && p[-1] == '\\')
                p--;
        return (stop - p) % 2 != 0;
}

bool conf_line_is_continued(const char *line, const char *stop) {
        return ends_in_backslash(line, stop - ends_in_return(line, stop));
}

static char *trim(char *line, char *stop, size_t *ret_size) {
        while (stop > line && is_blank(stop[-1]))
                stop--;
        while (line < stop && is_blank(*line))
                line++;
        *stop = '\0';
        *ret_size = (size_t) (stop - line);
        return line;
}

char *conf_lines_next(ConfLines *l, size_t *ret_size, unsigned *ret_number) {
        char *line, *stop, *whole = NULL, *whole_stop = NULL;

        while ((line = next_of_file(l, &stop))) {
                size_t n = (size_t) (stop - line);

                if (conf_line_is_comment(line, stop))
                        continue;
                if (!whole) {
                        whole = whole_stop = line;
                        *ret_number = l->n_read;
                }
                memmove(whole_stop, line, n);
                whole_stop += n;
                if (!ends_in_backslash(whole, whole_stop))
                        break;
                whole_stop[-1] = ' ';
        }
        return whole ? trim(whole, whole_stop, ret_size) : NULL;
}
