/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A file that outlives the host's reboot
 *
 * Written as a whole: beside the former one, down to the disk, then put into its place, and the directory down to the
 * disk, too. Whoever reads it, after whatever crash, finds the former or the new one. When writing fails the former one
 * is still there.
 *
 * Blocks for as long as the disk takes. It is for what people do by hand: nobody waits for the service longer than a
 * lease holds.
 */

#include "common/macro.h"

#define STATE_FILE_SIZE_MAX ((size_t) 4 * 1024 * 1024)

/* *ret is newly allocated, with a zero byte behind. -ENOENT when there is none; -EBADF when it is no regular file,
 * -EFBIG when it is larger than such a file can be. */
int state_file_read(const char *directory, const char *name, char **ret, size_t *ret_size);
int state_file_write(const char *directory, const char *name, const char *data, size_t size);

/* Renames it to NAME.bad, over a former one of that name. */
int state_file_set_aside(const char *directory, const char *name);
