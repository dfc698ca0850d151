/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Writes without short writes
 */

#include <stddef.h>
#include <stdint.h>

/* Returns 0, or a negative errno after which a part may have been written. write_all() waits where another program made
 * the file nonblocking. */
int write_all(int fd, const void *data, size_t size);
int write_all_at(int fd, const void *data, size_t size, uint64_t offset);
