/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * UTF-8
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of bytes of the character that begins at `text`, a terminated string; 0: none does. */
size_t utf8_length(const char *text);

/* Returns the character that begins at `text`, a terminated string, and its number of bytes. -1: none does, and
 * *ret_n is 1, the bytes to skip. */
int32_t utf8_next(const char *text, size_t *ret_n);

/* Returns whether a character in the name of somebody else's process or cgroup could deceive the reader, or do
 * something to a terminal or to XML: a control character, an invisible one, one that turns the direction of writing, or
 * no character (also -1). */
bool utf8_is_harmful(int32_t c);
