/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Kinds of launches, and the device time of each
 *
 * Programs mix kernels of 5 us and of 5 ms on one queue, so a bound in time uses the time of the next launch's kind,
 * not the mean of earlier launches. A kind is a function (or a graph) and the order of magnitude of its work. The table
 * has room for some hundred kinds; two kinds with the same place replace each other, and are learned again. The layers
 * of all runtimes use this.
 */

#include <stdatomic.h>

#include "common/macro.h"

#define LAUNCH_KINDS 256U /* a power of two */

typedef struct LaunchKind {
        _Atomic uint64_t kind; /* 0: none */
        _Atomic uint64_t mean_ns;
        uint32_t n;
        uint32_t n_above; /* consecutive samples far above the mean */
} LaunchKind;

typedef struct LaunchKinds {
        LaunchKind kinds[LAUNCH_KINDS];
} LaunchKinds;

static inline uint64_t launch_kind_mix(uint64_t x) {
        x *= UINT64_C(0x9E3779B97F4A7C15);
        return x ^ x >> 29;
}

/* Returns the kind of a launch, never 0. `size`: the amount of its work, in the runtime's own unit. */
static inline uint64_t launch_kind(const void *what, uint64_t size) {
        uint64_t magnitude = 64 - (uint64_t) __builtin_clzll(size | 1);

        return launch_kind_mix(launch_kind_mix((uint64_t) (uintptr_t) what) + magnitude) | 1;
}

static inline size_t launch_kind_place(uint64_t kind) {
        return kind >> 32 & (LAUNCH_KINDS - 1);
}

/* Returns the mean time of a kind in nanoseconds; 0: unknown. Takes no lock: while a place changes its kind, one launch
 * may get the time of the other kind. */
static inline uint64_t launch_kind_expected(const LaunchKinds *k, uint64_t kind) {
        const LaunchKind *e = &k->kinds[launch_kind_place(kind)];

        return likely(atomic_load_explicit(&e->kind, memory_order_relaxed) == kind)
                        ? atomic_load_explicit(&e->mean_ns, memory_order_relaxed)
                        : 0;
}

/* Returns whether the mean is of as many samples as it can be of. Needs the caller's lock. */
bool launch_kind_is_settled(const LaunchKinds *k, uint64_t kind);

/* Learns the time of one launch. Needs the caller's lock. */
void launch_kind_learn(LaunchKinds *k, uint64_t kind, uint64_t ns);

/* Returns the running mean of up to eight samples; *n counts them. The second sample replaces the first, which includes
 * one-time costs. */
uint64_t launch_mean_next(uint64_t mean, uint32_t *n, uint64_t sample);
