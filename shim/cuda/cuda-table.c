/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table of queues
 */

#include "shim/cuda/cuda-table.h"

#include <stdlib.h>

#define TABLE_MIN 64U

static union {
        CudaTable table;
        char room[sizeof(CudaTable) + sizeof(CudaTableEntry)];
} empty;

_Atomic(CudaTable *) cuda_table = &empty.table;

void cuda_table_forget(void) {
        atomic_store(&cuda_table, &empty.table);
}

/* Returns the place of a key, or a free one. */
static CudaTableEntry *place_of(CudaTable *t, uint64_t key) {
        for (size_t i = cuda_table_hash(t, key);; i = (i + 1) & t->mask) {
                uint64_t k = atomic_load_explicit(&t->entries[i].key, memory_order_acquire);
                if (k == 0 || k == key)
                        return t->entries + i;
        }
}

/* A reader that finds the key finds the queue. */
static void put(CudaTable *t, uint64_t key, CudaQueue *q) {
        CudaTableEntry *e = place_of(t, key);
        bool fresh = atomic_load(&e->key) == 0;

        atomic_store_explicit(&e->queue, q, memory_order_release);
        atomic_store_explicit(&e->key, key, memory_order_release);
        t->n_keys += fresh;
}

/* Room for one more key, with at least half of the table free. */
static CudaTable *with_room(void) {
        CudaTable *old = atomic_load(&cuda_table);
        if (old->mask > 0 && (old->n_keys + 1) * 2 <= old->mask + 1)
                return old;

        size_t live = 0, size = TABLE_MIN;
        for (size_t i = 0; i <= old->mask; i++)
                live += atomic_load(&old->entries[i].queue) != NULL;
        while (size < (live + 1) * 4)
                size *= 2;
        CudaTable *t = calloc(1, sizeof(CudaTable) + size * sizeof(CudaTableEntry));
        if (!t)
                return NULL;
        t->mask = size - 1;
        for (size_t i = 0; i <= old->mask; i++) {
                CudaQueue *q = atomic_load(&old->entries[i].queue);
                if (q)
                        put(t, atomic_load(&old->entries[i].key), q);
        }
        atomic_store_explicit(&cuda_table, t, memory_order_release);
        return t;
}

CudaQueue *cuda_table_put(uint64_t key, CudaQueue *q) {
        CudaTable *t = with_room();
        CudaQueue *other = t ? cuda_table_find(key) : NULL;

        if (!t || other)
                return other;
        put(t, key, q);
        return q;
}

CudaQueue *cuda_table_take(uint64_t key) {
        return atomic_exchange(&place_of(atomic_load(&cuda_table), key)->queue, NULL);
}

void cuda_table_take_all(CudaContext context, bool (*f)(CudaQueue *q)) {
        CudaTable *t = atomic_load(&cuda_table);

        for (size_t i = 0; i <= t->mask; i++) {
                CudaQueue *q = atomic_load(&t->entries[i].queue);
                if (q && q->context == context && f(q))
                        atomic_store(&t->entries[i].queue, NULL);
        }
}

void cuda_table_each(void (*f)(CudaQueue *q)) {
        CudaTable *t = atomic_load_explicit(&cuda_table, memory_order_acquire);

        for (size_t i = 0; i <= t->mask; i++) {
                CudaQueue *q = atomic_load_explicit(&t->entries[i].queue, memory_order_acquire);
                if (q)
                        f(q);
        }
}
