/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: marks, and finding completions
 *
 * No launch is reported complete before it is. A launch gets its number when its native call has returned, under the
 * lock of its queue, and a mark is recorded under the same lock; so all launches up to the mark's number were submitted
 * before it. A thread of the application that has waited reports the launches that had a number when it began to wait.
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
        bool rides;     /* cuda_ride_begin(); the following two are of such a launch */
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

/* Makes the queue of a stream that may have had no launch. */
void cuda_track_make_queue(CudaStream stream);

/* Finds and reports completed launches of the queue that have a mark. */
void cuda_track_harvest(CudaQueue *q);

/* Records a mark behind launches in flight that have none. On a thread that may launch. */
void cuda_track_close_tail(CudaQueue *q);

/* Records marks behind launches in flight of all queues. Before a capture begins: no stream is asked until it ends. */
void cuda_track_mark_tails(void);

/* A stream is about to be destroyed. If the driver refuses, its next launch makes a queue anew. */
void cuda_track_drop_stream(CudaStream stream);

/* A context is about to be destroyed with all of its streams, and whether it was: between these two calls no thread of
 * the layer asks the driver about it. NULL: nothing is done. */
void cuda_track_leave_context(CudaContext context);
void cuda_track_left_context(CudaContext context, bool destroyed);

/* The application waits until all that it has launched on a stream is complete. */
typedef struct CudaWait {
        CudaQueue *queue;
        uint64_t generation;
        uint64_t seq;
        uint32_t n_drains;
} CudaWait;

void cuda_wait_begin(CudaStream stream, bool per_thread, CudaWait *ret);
void cuda_wait_end(CudaWait *w, CudaResult result);

/* The application has waited for work that may be on any stream. */
void cuda_track_waited_all(void);
