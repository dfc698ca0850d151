/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * UTF-8
 */

#include <stdint.h>

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
