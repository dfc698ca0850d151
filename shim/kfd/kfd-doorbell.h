/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which signals are doorbells of queues of ours, and which hsa_queue_t are theirs
 *
 * One table by address: looking takes no lock, and is fit for signal handlers. Changes are under kfd_lock(). An
 * hsa_queue_t that is known to be none of ours is there with no queue.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "common/macro.h"

#define KFD_DOORBELLS_MAX 4096U /* half of it is used at most */

typedef struct KfdQueue KfdQueue;

extern struct KfdDoorbellTable {
        _Atomic uint64_t handle; /* 0: never used */
        _Atomic(KfdQueue *) queue;
} kfd_doorbell_table[KFD_DOORBELLS_MAX];
extern _Atomic unsigned kfd_n_doorbells;

static inline unsigned kfd_doorbell_hash(uint64_t handle) {
        return (unsigned) (handle * UINT64_C(0x9e3779b97f4a7c15) >> 52) % KFD_DOORBELLS_MAX;
}

static inline bool kfd_has_doorbells(void) {
        return atomic_load_explicit(&kfd_n_doorbells, memory_order_relaxed) > 0;
}

/* False: never heard of. */
static inline bool kfd_doorbell_look(uint64_t handle, KfdQueue **ret) {
        *ret = NULL;
        if (!kfd_has_doorbells())
                return false;
        for (unsigned i = kfd_doorbell_hash(handle), n = 0; n < KFD_DOORBELLS_MAX;
                        i = (i + 1) % KFD_DOORBELLS_MAX, n++) {
                uint64_t h = atomic_load_explicit(&kfd_doorbell_table[i].handle, memory_order_acquire);
                if (h == handle) {
                        *ret = atomic_load_explicit(&kfd_doorbell_table[i].queue, memory_order_relaxed);
                        return true;
                }
                if (h == 0)
                        break;
        }
        return false;
}

static inline KfdQueue *kfd_doorbell_find(uint64_t handle) {
        KfdQueue *q;

        return kfd_doorbell_look(handle, &q) ? q : NULL;
}

void kfd_doorbell_add(uint64_t handle, KfdQueue *q);
void kfd_doorbells_forget(const KfdQueue *q); /* NULL: what is none of ours */
void kfd_doorbells_after_fork(void);
