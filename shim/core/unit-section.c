/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * [X-XSched] in a unit file
 */

#include "shim/core/unit-section.h"
#include "common/macro.h"

#define HEADER "[X-XSched]"
#define BLANKS " \t\r"

void unit_section_init(UnitSection *s, char *text) {
        *s = (UnitSection){.lines = conf_lines(text, strlen(text))};
}

static char *trim(char *s) {
        s += strspn(s, BLANKS);
        size_t n = strlen(s);
        while (n > 0 && strchr(BLANKS, s[n - 1]))
                n--;
        s[n] = '\0';
        return s;
}

static bool is_plain(const char *s) {
        for (; *s; s++)
                if (*s < ' ' || *s > '~')
                        return false;
        return true;
}

/* Removes the blanks around "=" in place. */
static const char *assignment(char *line) {
        char *equals = strchr(line, '=');

        if (!equals || equals == line || !is_plain(line))
                return NULL;
        *equals = '\0';
        char *value = trim(equals + 1), *end = trim(line) + strlen(line);
        *end++ = '=';
        memmove(end, value, strlen(value) + 1);
        return line;
}

const char *unit_section_next(UnitSection *s) {
        unsigned number;
        char *line;
        size_t n;

        while ((line = conf_lines_next(&s->lines, &n, &number))) {
                if (line[0] == '[')
                        s->inside = streq(line, HEADER);
                else if (s->inside) {
                        const char *found = assignment(line);

                        if (found)
                                return found;
                }
        }
        return NULL;
}
