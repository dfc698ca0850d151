/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * State file: a file that outlives a reboot
 *
 * It is written as a whole to a new file, synced, renamed over the former one, and the directory is synced. After any
 * crash a reader finds either the former or the new file. When writing fails the former one stays.
 *
 * Blocks for as long as the disk takes. So use it only for changes that people make by hand. Leases expire meanwhile,
 * so no process is held for longer than a lease.
 */

#include <limits.h>

#include "common/macro.h"

#define STATE_FILE_SIZE_MAX ((size_t) 4 * 1024 * 1024)

/* The first directory that the service manager gave in this environment variable, in `buf`. NULL: none, or its path is
 * too long. */
const char *state_directory(const char *variable, char buf[static PATH_MAX]);

/* Reads the file. The caller frees *ret, which has a zero byte appended. -ENOENT: no file; -EBADF: not a regular file;
 * -EFBIG: larger than the limit. */
int state_file_read(const char *directory, const char *name, char **ret, size_t *ret_size);
int state_file_write(const char *directory, const char *name, const char *data, size_t size);
int state_file_write_at(int dir, const char *name, const char *data, size_t size); /* in an open directory */

/* Renames it to NAME.bad, over a former one of that name. */
int state_file_set_aside(const char *directory, const char *name);
int state_file_set_aside_at(int dir, const char *name);
