/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Labels
 */

#include "common/macro.h"

#include <inttypes.h>

#include "common/utf8.h"
#include "tools/exporter/label.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* FNV-1a. */
static uint64_t hash(const char *s) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (; *s; s++)
                h = (h ^ (uint8_t) *s) * UINT64_C(0x100000001b3);
        return h;
}

static void print_character(FILE *f, const char *s, size_t n) {
        if (n == 0)
                (void) fputs(REPLACEMENT, f);
        else if (*s == '\n')
                (void) fputs("\\n", f);
        else if (*s == '"' || *s == '\\')
                fprintf(f, "\\%c", *s);
        else
                (void) fwrite(s, 1, n, f);
}

/* Returns the length of the whole characters within LABEL_MAX bytes. */
static size_t cut_at(const char *value) {
        size_t length = strnlen(value, (size_t) LABEL_MAX + 1), i = 0;

        if (length <= LABEL_MAX)
                return length;
        for (size_t n; (n = MAX(utf8_length(value + i), (size_t) 1)) + i <= LABEL_MAX;)
                i += n;
        return i;
}

void label_print(FILE *f, const char *value) {
        size_t end = cut_at(value);

        for (size_t i = 0, n; i < end; i += MAX(n, (size_t) 1)) {
                n = utf8_length(value + i);
                print_character(f, value + i, n);
        }
        if (value[end] != '\0')
                fprintf(f, "~%016" PRIx64, hash(value));
}

bool label_looks_same(const char *a, const char *b) {
        size_t n = cut_at(a);

        if (a[n] == '\0' || n != cut_at(b) || b[n] == '\0')
                return streq(a, b);
        return strncmp(a, b, n) == 0 && hash(a) == hash(b);
}
