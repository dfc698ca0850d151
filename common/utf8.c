/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * UTF-8
 */

#include "utf8.h"

size_t utf8_length(const char *text) {
        const uint8_t *s = (const uint8_t *) text;
        size_t n = s[0] < 0x80                        ? 1
                        : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                        : (s[0] & 0xf0) == 0xe0       ? 3
                        : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                      : 0;

        for (size_t i = 1; i < n; i++)
                if ((s[i] & 0xc0) != 0x80)
                        return 0;
        /* An overlong form, a surrogate, or beyond the last character. */
        if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
                        (s[0] == 0xf4 && s[1] > 0x8f))
                return 0;
        return n;
}

int32_t utf8_next(const char *text, size_t *ret_n) {
        const uint8_t *s = (const uint8_t *) text;
        size_t n = utf8_length(text);

        *ret_n = n > 0 ? n : 1;
        if (n <= 1)
                return n == 0 ? -1 : s[0];
        int32_t c = s[0] & (0x7f >> n);
        for (size_t i = 1; i < n; i++)
                c = c << 6 | (s[i] & 0x3f);
        return c;
}

bool utf8_is_harmful(int32_t c) {
        /* Controls; the Arabic letter mark and the Mongolian vowel separator; invisible ones and marks of direction;
         * separators, embeddings and overrides; joiners, isolates and invisible operators; the byte order mark;
         * annotations; tags; and what is no character. */
        static const struct {
                int32_t first, last;
        } ranges[] = {
                        {INT32_MIN, 0x1f},
                        {0x7f, 0x9f},
                        {0x61c, 0x61c},
                        {0x180e, 0x180e},
                        {0x200b, 0x200f},
                        {0x2028, 0x202e},
                        {0x2060, 0x206f},
                        {0xfeff, 0xfeff},
                        {0xfff9, 0xfffb},
                        {0xe0000, 0xe007f},
        };

        for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
                if (c >= ranges[i].first && c <= ranges[i].last)
                        return true;
        return (c & 0xfffe) == 0xfffe;
}
