/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chooses the format by the Accept header: TYPE/SUBTYPE;PARAMETER=VALUE;q=WEIGHT, ...
 */

#include <ctype.h>

#include "accept.h"
#include "tools/exporter/render.h"

#define TYPE_MAX 64U

typedef struct Range {
        char type[TYPE_MAX];
        unsigned weight; /* thousandths */
        bool known_version;
} Range;

static const char *skip_space(const char *s) {
        while (*s == ' ' || *s == '\t')
                s++;
        return s;
}

/* Parses "0.75"; at most three decimals count. Returns 0, which means not wanted, for anything else. */
static unsigned parse_weight(const char *s) {
        unsigned weight, place = 100;

        if ((*s != '0' && *s != '1') || (s[1] != '.' && isdigit((unsigned char) s[1])))
                return 0;
        weight = (unsigned) (*s - '0') * 1000;
        if (s[1] == '.')
                for (s += 2; isdigit((unsigned char) *s) && place > 0; s++, place /= 10)
                        weight += (unsigned) (*s - '0') * place;
        return MIN(weight, 1000U);
}

static bool has_word(const char *s, const char *word) {
        size_t n = strlen(word);

        return strncasecmp(s, word, n) == 0 && !isalnum((unsigned char) s[n]) && s[n] != '.' && s[n] != '-' &&
                        s[n] != '/';
}

/* Parses the parameters of a range. Returns its comma, or the end. */
static const char *parse_parameters(const char *s, Range *ret) {
        for (;;) {
                s += strcspn(s, ";,");
                if (*s != ';')
                        return s;
                s = skip_space(s + 1);
                if ((*s == 'q' || *s == 'Q') && s[1] == '=')
                        ret->weight = parse_weight(s + 2);
                else if (strncasecmp(s, "version=", 8) == 0)
                        ret->known_version = has_word(s + 8, "1.0.0");
        }
}

static const char *parse_range(const char *s, Range *ret) {
        size_t n;

        s = skip_space(s);
        n = strcspn(s, " \t;,");
        *ret = (Range){.weight = 1000, .known_version = true};
        if (n < sizeof(ret->type))
                memcpy(ret->type, s, n);
        return parse_parameters(s + n, ret);
}

Format format_from_accept(const char *accept) {
        unsigned open = 0, text = 0, any = 0;

        for (const char *s = strempty(accept); *s;) {
                Range r;

                s = parse_range(s, &r);
                if (*s == ',')
                        s++;
                if (strcasecmp(r.type, "application/openmetrics-text") == 0 && r.known_version)
                        open = MAX(open, r.weight);
                else if (strcasecmp(r.type, "text/plain") == 0)
                        text = MAX(text, r.weight);
                else if (streq(r.type, "*/*") || strcasecmp(r.type, "text/*") == 0)
                        any = MAX(any, r.weight);
        }
        return open > 0 && open >= MAX(text, any) ? FORMAT_OPENMETRICS : FORMAT_TEXT;
}

const char *format_content_type(Format format) {
        return format == FORMAT_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                            : "text/plain; version=0.0.4; charset=utf-8";
}
