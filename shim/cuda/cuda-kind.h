/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Kinds of launches, and what each takes on the device
 *
 * Programs mix kernels of 5 us and of 5 ms on one stream: a bound in time goes by what the next launch is, not by the
 * mean of those before. A kind is a function (or a graph) and the order of magnitude of its grid. A table has room
 * for some hundred kinds; two that want one place push each other out, and are learned again.
 */

#include "common/macro.h"

#define CUDA_KINDS 256U /* a power of two */

typedef struct CudaKind {
        _Atomic uint64_t kind; /* 0: none */
        _Atomic uint64_t mean_ns;
        uint32_t n, n_above;
} CudaKind;

typedef struct CudaKinds {
        CudaKind kinds[CUDA_KINDS];
} CudaKinds;

/* Never 0. */
uint64_t cuda_kind(const void *what, uint64_t blocks);

/* The mean of its kind, nanoseconds; 0: unknown. Without a lock: while a place changes hands, one kind may be taken for
 * another, for one launch. */
uint64_t cuda_kind_expected(const CudaKinds *k, uint64_t kind);

/* One at a time. */
void cuda_kind_learn(CudaKinds *k, uint64_t kind, uint64_t ns);
