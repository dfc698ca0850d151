/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The KFD layer: which fds are KFD's
 *
 * One byte per fd: its context (kfd-libc.c), or 0. The fds that most processes have are in one table; those above, up
 * to what an int holds, in tables of the same size that come with the first fd of KFD's in their range, and stay. So to
 * look at an fd costs one load, or two, whatever the limit is; looking takes no lock, and is fit for signal handlers.
 * Changes are under kfd_lock().
 */

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/macro.h"

#ifndef KFD_FDS_CHUNK /* small, for a test that may not have as many fds */
#        define KFD_FDS_CHUNK 65536U
#endif
#define KFD_FDS_CHUNKS (INT_MAX / KFD_FDS_CHUNK + 1)

extern _Atomic uint8_t kfd_fds_first[KFD_FDS_CHUNK];
extern _Atomic(_Atomic uint8_t *)
                kfd_fds_more[KFD_FDS_CHUNKS]; /* NULL: none of KFD's yet; [0] is not used */

/* NULL: not one of KFD's, nor is another one near. */
static inline _Atomic uint8_t *kfd_fd_cell(int fd) {
        if (likely((unsigned) fd < KFD_FDS_CHUNK))
                return kfd_fds_first + fd;
        if (fd < 0)
                return NULL;
        _Atomic uint8_t *chunk = atomic_load_explicit(
                        kfd_fds_more + (unsigned) fd / KFD_FDS_CHUNK, memory_order_acquire);
        return chunk ? chunk + (unsigned) fd % KFD_FDS_CHUNK : NULL;
}

static inline uint8_t kfd_fd_context(int fd) {
        const _Atomic uint8_t *cell = kfd_fd_cell(fd);
        return cell ? atomic_load_explicit(cell, memory_order_relaxed) : 0;
}

/* False: no memory to note it in. */
bool kfd_fd_set(int fd, uint8_t context);

/* The first one of KFD's from here on; -1: there is none. */
int kfd_fd_next(unsigned from);
