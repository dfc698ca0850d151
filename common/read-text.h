/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Reading text, whatever number of reads it takes
 */

#include <stddef.h>

/* Reads up to `max` bytes, or what there is until the end, as a new string. Its length, without the 0 behind it, is in
 * *ret_size, because the text may contain 0. Returns 0 or a negative errno. */
int read_text(int fd, size_t max, char **ret, size_t *ret_size);
