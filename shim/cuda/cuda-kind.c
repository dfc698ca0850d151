/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Kinds of launches
 */

#include <stdatomic.h>

#include "shim/cuda/cuda-kind.h"

/* A mean follows the last samples. The first is replaced by the second: it has what happens once in it. */
#define MEAN_SAMPLES 8U

/* One that took far longer waited for something: it counts as a little longer, and in full when it is so time and
 * again. */
#define ABOVE_MAX 2U

static uint64_t mix(uint64_t x) {
        x *= UINT64_C(0x9E3779B97F4A7C15);
        return x ^ x >> 29;
}

uint64_t cuda_kind(const void *what, uint64_t blocks) {
        uint64_t magnitude = blocks > 0 ? 64 - (uint64_t) __builtin_clzll(blocks) : 0;

        return mix(mix((uint64_t) (uintptr_t) what) + magnitude) ?: 1;
}

static size_t place(uint64_t kind) {
        return kind >> 32 & (CUDA_KINDS - 1);
}

uint64_t cuda_kind_expected(const CudaKinds *k, uint64_t kind) {
        const CudaKind *e = &k->kinds[place(kind)];

        return atomic_load_explicit(&e->kind, memory_order_relaxed) == kind
                        ? atomic_load_explicit(&e->mean_ns, memory_order_relaxed)
                        : 0;
}

void cuda_kind_learn(CudaKinds *k, uint64_t kind, uint64_t ns) {
        CudaKind *e = &k->kinds[place(kind)];

        if (atomic_load_explicit(&e->kind, memory_order_relaxed) != kind) {
                atomic_store_explicit(&e->mean_ns, 0, memory_order_relaxed);
                atomic_store_explicit(&e->kind, kind, memory_order_relaxed);
                e->n = e->n_above = 0;
        }
        uint64_t mean = atomic_load_explicit(&e->mean_ns, memory_order_relaxed), most = mean + mean / 2;
        e->n_above = e->n > 1 && ns > most ? e->n_above + 1 : 0;
        if (e->n_above > 0 && e->n_above <= ABOVE_MAX)
                ns = most;
        uint32_t weight = CLAMP(e->n, 1U, MEAN_SAMPLES);
        e->n = MIN(e->n + 1, MEAN_SAMPLES);
        mean = weight == 1 ? ns : (mean * (weight - 1) + ns) / weight;
        atomic_store_explicit(&e->mean_ns, MAX(mean, UINT64_C(1)), memory_order_relaxed);
}
