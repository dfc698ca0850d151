/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table of KFD's fds: see kfd-fds.h
 */

#include "shim/kfd/kfd-fds.h"

#include <sys/mman.h>

_Atomic uint8_t kfd_fds_first[KFD_FDS_CHUNK];
_Atomic(_Atomic uint8_t *) kfd_fds_more[KFD_FDS_CHUNKS];

static _Atomic unsigned n_chunks = 1; /* higher ones were never made */

/* Not from the heap, whose lock the caller may hold: dup() may be called anywhere. */
static _Atomic uint8_t *chunk_make(unsigned i) {
        PROTECT_ERRNO;

        void *p = mmap(NULL, KFD_FDS_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
                return NULL;
        atomic_store_explicit(kfd_fds_more + i, p, memory_order_release);
        n_chunks = MAX(n_chunks, i + 1);
        return p;
}

bool kfd_fd_set(int fd, uint8_t context) {
        _Atomic uint8_t *cell = kfd_fd_cell(fd);

        if (!cell && context != 0 && fd >= 0) {
                cell = chunk_make((unsigned) fd / KFD_FDS_CHUNK);
                cell = cell ? cell + (unsigned) fd % KFD_FDS_CHUNK : NULL;
        }
        if (!cell)
                return context == 0;
        atomic_store(cell, context);
        return true;
}

int kfd_fd_next(unsigned from) {
        for (unsigned i = from / KFD_FDS_CHUNK; i < n_chunks; i++) {
                const _Atomic uint8_t *chunk = i == 0 ? kfd_fds_first : kfd_fds_more[i];
                for (unsigned k = from % KFD_FDS_CHUNK; chunk && k < KFD_FDS_CHUNK; k++)
                        if (atomic_load_explicit(chunk + k, memory_order_relaxed) != 0)
                                return (int) (i * KFD_FDS_CHUNK + k);
                from = 0;
        }
        return -1;
}
