/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Kinds of launches, and what each takes on the device
 *
 * Programs mix kernels of 5 us and of 5 ms on one queue: a bound in time goes by what the next launch is, not by the
 * mean of those before. A kind is a function (or a graph) and the order of magnitude of its work. A table has room
 * for some hundred kinds; two that want one place push each other out, and are learned again. The layers of all
 * runtimes learn so.
 */

#include "common/macro.h"

#define LAUNCH_KINDS 256U /* a power of two */

typedef struct LaunchKind {
        _Atomic uint64_t kind; /* 0: none */
        _Atomic uint64_t mean_ns;
        uint32_t n;
        uint32_t n_above; /* samples one after the other that were far above the mean */
} LaunchKind;

typedef struct LaunchKinds {
        LaunchKind kinds[LAUNCH_KINDS];
} LaunchKinds;

/* `size`: of its work, in whatever the runtime counts it. Never 0. */
uint64_t launch_kind(const void *what, uint64_t size);

/* The mean of its kind, nanoseconds; 0: unknown. Without a lock: while a place changes hands, one kind may be taken for
 * another, for one launch. */
uint64_t launch_kind_expected(const LaunchKinds *k, uint64_t kind);

/* One at a time: under the caller's lock. */
void launch_kind_learn(LaunchKinds *k, uint64_t kind, uint64_t ns);

/* A running mean of up to eight samples, of which there were *n. The first is replaced by the second: it has what
 * happens once in it. */
uint64_t launch_mean_next(uint64_t mean, uint32_t *n, uint64_t sample);
