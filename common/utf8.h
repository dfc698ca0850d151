/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * UTF-8
 */

#include <stddef.h>

/* Returns the number of bytes of the character that begins at `text`, a terminated string; 0: none does. */
size_t utf8_length(const char *text);
