/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Copies of the device files that another process has open
 *
 * A copy of any other file could cost us our thread: where its file system is a server that does not answer (NFS,
 * FUSE), fstat() of the copy waits for it, and so does closing it. So what /proc tells without asking a file system
 * decides whether a file is copied at all: one is that has the number of our own device file's inode, as where /dev is
 * the host's, and one on a mount of the process whose file system asks nobody. A device file with another inode on a
 * mount that the process does not see is not found. Linux before 5.14 does not tell; there every file is copied.
 *
 * A process may put another file in the place of one between our look and the copy. Then it can delay whoever holds it,
 * and nobody else.
 */

#include <sys/types.h>

typedef struct DeviceFile {
        const char *path;            /* our own */
        unsigned major_of, minor_of; /* the maker of a mount namespace chooses names, the kernel these */
} DeviceFile;

/* Returns a copy of the fd of the process, or -ENODEV: it is no file of the device. Needs what pidfd_getfd(2) needs. */
int device_file_take(pid_t pid, int pidfd, const DeviceFile *device, int fd);

/* The same for the first such fd from *at on, whose number *at becomes. -ENODEV: there is none. */
int device_file_take_next(pid_t pid, int pidfd, const DeviceFile *device, int *at);
