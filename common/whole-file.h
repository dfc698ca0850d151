/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whole file: replaces a file at once, so that a reader finds all of the former text or all of the new one
 *
 * For files that several programs may write at the same time: each has a temporary file of its own, beside the file.
 * (service/base/state-file.h is for files with a single writer.)
 */

#include <stdbool.h>
#include <stddef.h>

/* Replaces `path` by a file of mode 0644; a device or a pipe is written to. `sync`: the text is on the disk before the
 * file has its name. Returns 0 or a negative errno, after which the former file is unchanged. */
int whole_file_write(const char *path, const char *text, size_t size, bool sync);
