/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The table of doorbell signals and of hsa_queue_t, with our queues
 *
 * One table by address. Lookups take no lock and may be done in signal handlers. Changes are under kfd_lock(). An
 * hsa_queue_t that is known not to be ours is in the table without a queue.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "common/macro.h"

#define KFD_DOORBELLS_MAX 4096U /* at most half of it is used */

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

/* Returns false when the handle is not in the table. */
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
void kfd_doorbells_forget(const KfdQueue *q); /* NULL: the entries without a queue */
void kfd_doorbells_after_fork(void);
