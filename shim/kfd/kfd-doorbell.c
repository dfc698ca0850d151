/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table of doorbell signals and of hsa_queue_t, with our queues
 */

#include "shim/kfd/kfd-doorbell.h"

#define GONE 1U /* no handle: those are pointers */

struct KfdDoorbellTable kfd_doorbell_table[KFD_DOORBELLS_MAX];
_Atomic unsigned kfd_n_doorbells;

/* Removes the entry at this place. The place stays marked as used while chains of other entries lead over it. */
static void doorbell_remove(unsigned i) {
        atomic_store(&kfd_doorbell_table[i].handle, GONE);
        atomic_fetch_sub(&kfd_n_doorbells, 1);
        if (atomic_load(&kfd_doorbell_table[(i + 1) % KFD_DOORBELLS_MAX].handle) != 0)
                return;
        for (; atomic_load(&kfd_doorbell_table[i].handle) == GONE; i = (i + KFD_DOORBELLS_MAX - 1) % KFD_DOORBELLS_MAX)
                atomic_store(&kfd_doorbell_table[i].handle, 0);
}

void kfd_doorbell_add(uint64_t handle, KfdQueue *q) {
        if (handle <= GONE || atomic_load(&kfd_n_doorbells) >= KFD_DOORBELLS_MAX / 2)
                return;

        unsigned i = kfd_doorbell_hash(handle), n = 0;
        while (n++ < KFD_DOORBELLS_MAX && atomic_load(&kfd_doorbell_table[i].handle) > GONE)
                i = (i + 1) % KFD_DOORBELLS_MAX;
        if (atomic_load(&kfd_doorbell_table[i].handle) > GONE)
                return;
        atomic_store(&kfd_doorbell_table[i].queue, q);
        atomic_store(&kfd_doorbell_table[i].handle, handle);
        atomic_fetch_add(&kfd_n_doorbells, 1);
}

void kfd_doorbells_forget(const KfdQueue *q) {
        for (unsigned i = 0; atomic_load(&kfd_n_doorbells) > 0 && i < KFD_DOORBELLS_MAX; i++)
                if (atomic_load(&kfd_doorbell_table[i].handle) > GONE && atomic_load(&kfd_doorbell_table[i].queue) == q)
                        doorbell_remove(i);
}

void kfd_doorbells_after_fork(void) {
        for (unsigned i = 0; i < KFD_DOORBELLS_MAX; i++)
                if (atomic_load(&kfd_doorbell_table[i].handle) != 0)
                        atomic_store(&kfd_doorbell_table[i].handle, 0);
        atomic_store(&kfd_n_doorbells, 0);
}
