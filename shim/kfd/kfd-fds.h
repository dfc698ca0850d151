/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The KFD layer: the table of fds of /dev/kfd
 *
 * One byte per fd: its context (kfd-libc.c), or 0. The fds that most processes use are in one table. Higher ones, up to
 * INT_MAX, are in tables of the same size, which are made with the first KFD fd in their range and stay. So a lookup
 * costs one or two loads, whatever the limit of fds is; it takes no lock and may be done in signal handlers. Changes
 * are under kfd_lock().
 */

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/macro.h"

#ifndef KFD_FDS_CHUNK /* tests make it small, because their fds are limited */
#        define KFD_FDS_CHUNK 65536U
#endif
#define KFD_FDS_CHUNKS (INT_MAX / KFD_FDS_CHUNK + 1)

extern _Atomic uint8_t kfd_fds_first[KFD_FDS_CHUNK];
extern _Atomic(_Atomic uint8_t *) kfd_fds_more[KFD_FDS_CHUNKS]; /* NULL: no KFD fd yet; [0] is not used */

/* Returns the byte of an fd; NULL: no fd of its range is KFD's. */
static inline _Atomic uint8_t *kfd_fd_cell(int fd) {
        if (likely((unsigned) fd < KFD_FDS_CHUNK))
                return kfd_fds_first + fd;
        if (fd < 0)
                return NULL;
        _Atomic uint8_t *chunk =
                        atomic_load_explicit(kfd_fds_more + (unsigned) fd / KFD_FDS_CHUNK, memory_order_acquire);
        return chunk ? chunk + (unsigned) fd % KFD_FDS_CHUNK : NULL;
}

static inline uint8_t kfd_fd_context(int fd) {
        const _Atomic uint8_t *cell = kfd_fd_cell(fd);
        return cell ? atomic_load_explicit(cell, memory_order_relaxed) : 0;
}

/* Returns false when there is no memory for the table. */
bool kfd_fd_set(int fd, uint8_t context);

/* Returns the first KFD fd from `from` on; -1: none. */
int kfd_fd_next(unsigned from);
