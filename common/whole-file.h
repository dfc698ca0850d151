/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whole file: replaces a file at once, so that a reader finds all of the former text or all of the new one
 *
 * For files that several programs may write at the same time: each has a temporary file of its own, beside the file.
 * (service/base/state-file.h is for files with a single writer.)
 */

#include <stddef.h>

typedef enum WholeFileFlags {
        WHOLE_FILE_SYNC = 1 << 0, /* the text is on the disk before the file has its name */
        WHOLE_FILE_KEEP = 1 << 1, /* for a file that a user names: see below */
} WholeFileFlags;

/* Replaces `path`, also if it is a link, by a file of mode 0644. A device or a pipe is written to.
 *
 * With WHOLE_FILE_KEEP the former file's mode is kept, a new file has the mode that the umask leaves, and the target of
 * a link is replaced instead of the link. A file that may not be written is not replaced. A file is written in place
 * where no other can be made beside it. Without the flag no link is followed: a directory's owner could else have a
 * privileged writer replace any file.
 *
 * Returns 0 or a negative errno, after which a file that was to be replaced is unchanged. */
int whole_file_write(const char *path, const char *text, size_t size, WholeFileFlags flags);
