/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Texts that strangers send to the exporter: the first line as an Accept header, the rest as a name that a user gave
 *
 * The answer is always one of the formats. A label has no unescaped quote or newline, and no incomplete character.
 */

#include <stdio.h>

#include "common/parse-util.h"
#include "tests/fuzz/fuzz-settings.h"
#include "tools/exporter/accept.h"
#include "tools/exporter/label.h"
#include "tools/exporter/render.h"

static void check_text(const char *text, const char *value) {
        for (const char *p = text; *p; p++) {
                require(*p != '"' && *p != '\n');
                if (*p == '\\') {
                        p++;
                        require(*p == '"' || *p == 'n' || *p == '\\');
                }
        }
        /* Each byte of the value is at most three of the text. */
        require(strlen(text) <= (size_t) 3 * LABEL_MAX + 17);
        require(!string_is_printable(value) || string_is_printable(text));
}

static void check_label(const char *value) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        require(f);
        label_print(f, value);
        require(fclose(f) == 0);
        check_text(text, value);
        require(label_looks_same(value, value));
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = malloc(size + 1);

        require(text);
        memcpy(text, data, size);
        text[size] = '\0';
        char *rest = strchr(text, '\n');
        if (rest)
                *rest++ = '\0';
        require(format_from_accept(text) < _FORMAT_MAX);
        check_label(rest ?: text);
        return 0;
}
