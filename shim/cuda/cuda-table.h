/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The table of queues, by the keys of their streams: see cuda-queue.h
 *
 * Thread safety: cuda_table_find() and _each() from any thread without a lock, and from signal handlers; all others
 * under a lock of the caller's.
 */

#include <stdatomic.h>

#include "shim/cuda/cuda-queue.h"

typedef struct CudaTableEntry {
        _Atomic uint64_t key; /* 0: never used */
        _Atomic(CudaQueue *) queue;
} CudaTableEntry;

/* Replaced by a larger one when it is full, and never freed: a reader may still be in it. */
typedef struct CudaTable {
        size_t mask, n_keys;
        CudaTableEntry entries[];
} CudaTable;

extern _hidden_ _Atomic(CudaTable *) cuda_table;

static inline size_t cuda_table_hash(const CudaTable *t, uint64_t key) {
        return (size_t) (key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & t->mask;
}

/* Reads each key once: a free place may be taken at this moment. */
static inline __attribute__((always_inline)) CudaQueue *cuda_table_find(uint64_t key) {
        CudaTable *t = atomic_load_explicit(&cuda_table, memory_order_acquire);

        for (size_t i = cuda_table_hash(t, key);; i = (i + 1) & t->mask) {
                uint64_t k = atomic_load_explicit(&t->entries[i].key, memory_order_acquire);
                if (likely(k == key))
                        return atomic_load_explicit(&t->entries[i].queue, memory_order_acquire);
                if (k == 0)
                        return NULL;
        }
}

/* Returns the queue that the key has then: `q`, or the one that was there before; NULL: there is no memory. */
CudaQueue *cuda_table_put(uint64_t key, CudaQueue *q);

/* Removes the queue of a key, and returns it; or those queues of a context for which f() returns true. */
CudaQueue *cuda_table_take(uint64_t key);
void cuda_table_take_all(CudaContext context, bool (*f)(CudaQueue *q));

void cuda_table_each(void (*f)(CudaQueue *q));

/* In a child after fork. */
void cuda_table_forget(void);
