/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: the gate in front of a launch, and its number, its mark and its ride behind it
 *
 * cuda-track.h finds out when they are complete.
 */

#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-queue.h"

/* A launch, before it is made. */
typedef struct CudaWork {
        CudaEntry entry;
        bool per_thread; /* stream 0 is the per-thread default stream */
        CudaStream stream;
        const void *what; /* the function or graph */
        uint64_t blocks;
} CudaWork;

typedef struct CudaLaunch {
        CudaQueue *queue; /* NULL: not tracked */
        XschedQueue *xq;
        CudaStream stream;
        uint64_t kind;
        uint32_t limit; /* cuda_bound_limit() */
        uint32_t timed; /* index of the events around it; CUDA_TIMED: none */
        uint32_t begun; /* index of its record: cuda-begun.h */
        bool rides;     /* cuda_ride_begin(); the following are of such a launch */
        bool last;
        uint32_t ride;
        uint64_t expected;
} CudaLaunch;

/* Passes the gate. The caller then makes the native call, and calls cuda_launch_end() with its result. */
void cuda_launch_begin(const CudaWork *w, CudaLaunch *ret);

/* The same without waiting, for a launch that another one waits for. */
void cuda_launch_begin_nowait(const CudaWork *w, CudaLaunch *ret);

void cuda_launch_end_slow(CudaLaunch *l, CudaResult result);
static inline void cuda_launch_end(CudaLaunch *l, CudaResult result) {
        if (unlikely(l->queue))
                cuda_launch_end_slow(l, result);
}

/* The clean-up of a thread that ends within the native call: whether the launch was made is not known. */
static inline void cuda_launch_leave(CudaLaunch *l) {
        cuda_launch_end(l, CUDA_RESULT_NOT_READY);
}
