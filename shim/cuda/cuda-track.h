/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Launches that are tracked: marks, and what has completed
 *
 * What is said to be complete is complete: a launch gets its number when its native call has returned, under the lock
 * of its queue, and a mark is recorded under the same lock; so all up to the mark's number was submitted before it. A
 * thread of the application that has waited tells of what had a number when it began to wait.
 */

#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-queue.h"

/* What is to be launched. */
typedef struct CudaWork {
        CudaEntry entry;
        bool per_thread; /* what stream 0 is */
        CudaStream stream;
        const void *what; /* its function, or graph */
        uint64_t blocks;
} CudaWork;

typedef struct CudaLaunch {
        CudaQueue *queue; /* NULL: not tracked */
        XschedQueue *xq;
        CudaStream stream;
        uint64_t kind;
        uint32_t timed; /* the events around it; CUDA_TIMED: none */
} CudaLaunch;

/* The gate: returns when the launch may go. Then the native call, and cuda_launch_end() with its result. */
void cuda_launch_begin(const CudaWork *w, CudaLaunch *ret);

/* The same where another launch waits for this one. */
void cuda_launch_begin_nowait(const CudaWork *w, CudaLaunch *ret);

void cuda_launch_end_slow(CudaLaunch *l, CudaResult result);
static inline void cuda_launch_end(CudaLaunch *l, CudaResult result) {
        if (unlikely(l->queue))
                cuda_launch_end_slow(l, result);
}

/* What of the queue has completed is reported. */
void cuda_track_harvest(CudaQueue *q);

/* What is in flight, and has no mark, gets one. On a thread that may launch. */
void cuda_track_close_tail(CudaQueue *q);

/* The stream is about to be destroyed; with it all of its context, which may have gone by now. */
void cuda_track_drop_stream(CudaStream stream);
void cuda_track_drop_context(CudaContext context);

/* In between, the driver is asked nothing. */
void cuda_track_freeze(void);
void cuda_track_thaw(void);

/* The application waits until all that it has launched on a stream is complete. */
typedef struct CudaWait {
        CudaQueue *queue;
        uint64_t generation;
        uint64_t seq;
        uint32_t n_drains;
} CudaWait;

void cuda_wait_begin(CudaStream stream, bool per_thread, CudaWait *ret);
void cuda_wait_end(CudaWait *w, CudaResult result);

/* It has waited for something that may be on any stream. */
void cuda_track_waited_all(void);
