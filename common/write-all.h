/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Writing all of it
 */

#include <stddef.h>
#include <stdint.h>

/* 0 or a negative errno; then some of it may have been written. write_all() waits where another program made the file
 * nonblocking. */
int write_all(int fd, const void *data, size_t size);
int write_all_at(int fd, const void *data, size_t size, uint64_t offset);
