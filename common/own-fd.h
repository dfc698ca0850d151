/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Descriptors of a library in a process that is somebody else's
 *
 * Programs close numbers that they have not opened, as daemons do with closefrom(3), and get these numbers for files of
 * their own. A number is then not ours any more: nothing may be written there, read from there, or closed.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "common/file-status.h"
#include "common/macro.h"

/* Below the usual limit of 1024. Files that a program opens get the lowest free numbers, so those of another thousand
 * would be needed before one of ours is used again. */
#define OWN_FD_MIN 1000

/* Returns a copy with a number that is unlikely to be used again; in any case above stderr, because an application that
 * has closed a standard descriptor opens it again there. */
static inline int own_fd_copy(int fd) {
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, OWN_FD_MIN);

        if (copy < 0) /* the limit is lower */
                copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        return copy < 0 ? negative_errno() : copy;
}

/* What the file is that has this number: the same for as long as it is ours. Eventfds are all the same to this. Returns
 * 0 and errno when that cannot be known. */
static inline uint64_t own_fd_mark(int fd) {
        struct stat st;

        return fd_status(fd, &st) < 0 ? 0 : ((uint64_t) st.st_dev << 32 ^ (uint64_t) st.st_ino) ?: 1;
}

/* Where a sandbox lets nobody know, it is believed to be ours. */
static inline bool own_fd_is(int fd, uint64_t mark) {
        PROTECT_ERRNO;
        uint64_t now = own_fd_mark(fd);

        return fd >= 0 && (now == 0 ? errno != EBADF : mark == 0 || now == mark);
}
