/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: the gate in front of a launch, and its number, its mark and its ride behind it
 *
 * cuda-track.h finds out when they are complete.
 */

#include "shim/cuda/cuda-begun.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-table.h"

/* A launch, before it is made. */
typedef struct CudaWork {
        CudaEntry entry;
        bool per_thread; /* stream 0 is the per-thread default stream */
        CudaStream stream;
        const void *what; /* the function or graph */
        uint64_t blocks;
        const void *frame; /* of the hook */
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

static inline CudaStream cuda_launch_stream(CudaStream stream, bool per_thread) {
        return !stream && per_thread ? (CudaStream) (uintptr_t) CUDA_STREAM_PER_THREAD : stream;
}

/* Returns the queue of a launch on a stream that has a handle, if nothing special is going on; NULL: look more
 * closely. */
static inline __attribute__((always_inline)) CudaQueue *cuda_launch_queue(CudaStream stream) {
        uint64_t key = (uintptr_t) stream;

        if (unlikely(key <= CUDA_STREAM_PER_THREAD) ||
                        unlikely(atomic_load_explicit(&cuda_n_captures, memory_order_relaxed) > 0) ||
                        unlikely(cuda_has_ended()) || unlikely(cuda_begun.n > 0) ||
                        unlikely(cuda_begun.counting.xq != NULL))
                return NULL;
        return cuda_table_find(key);
}

/* The same for any stream: of a default one the driver is asked for the context. */
static inline __attribute__((always_inline)) CudaQueue *cuda_launch_queue_any(CudaStream stream, bool per_thread) {
        if (unlikely(atomic_load_explicit(&cuda_n_captures, memory_order_relaxed) > 0) || unlikely(cuda_has_ended()) ||
                        unlikely(cuda_begun.n > 0) || unlikely(cuda_begun.counting.xq != NULL))
                return NULL;
        return likely((uintptr_t) stream > CUDA_STREAM_PER_THREAD) ? cuda_table_find((uintptr_t) stream)
                                                                   : cuda_queue_find(stream, per_thread);
}

/* A launch at an open gate, with nothing of its queue tracked in flight, has nothing to wait for, and nobody waits for
 * its end. Returns true: it has passed; false: it needs cuda_launch_begin(), or has to be looked at more closely. */
static inline __attribute__((always_inline)) bool cuda_launch_passes(CudaEntry entry, const CudaQueue *q) {
        if (unlikely(!q) || unlikely(cuda_ride_is_open(&q->ride)) ||
                        unlikely(atomic_load_explicit(&q->in_flight, memory_order_relaxed) > 0) ||
                        unlikely(!open_gate_passes(&q->open)))
                return false;
        cuda_count(entry);
        return true;
}

/* A launch on a ride (cuda-ride.h), which it nearly always is while its queue is watched. Returns false when it needs
 * cuda_launch_begin(). */
static inline __attribute__((always_inline)) bool cuda_launch_gets_on(CudaEntry entry, CudaQueue *q, CudaStream stream,
                const void *what, uint64_t blocks, const void *frame, CudaLaunch *ret) {
        if (unlikely(!q) || unlikely(!cuda_ride_is_open(&q->ride)) || unlikely(cuda_capture_relaxed != NULL))
                return false;
        uint64_t kind = launch_kind(what, blocks), expected = launch_kind_expected(&q->kinds, kind);
        if (unlikely(!cuda_ride_begin(&q->ride, expected, &ret->ride, &ret->last)))
                return false;
        XschedQueue *xq = q->xq;
        if (unlikely(open_gate_may_be_held(&q->open)) || unlikely(!xq)) {
                cuda_ride_end(&q->ride, ret->ride, expected, false);
                return false;
        }
        ret->xq = xq;
        ret->stream = stream;
        ret->kind = kind;
        ret->rides = true;
        ret->expected = expected;
        ret->begun = cuda_begun_note_ride(q, xq, frame, ret->ride);
        ret->queue = q;
        cuda_count(entry);
        return true;
}

/* Passes the gate. The caller then makes the native call, and calls cuda_launch_end() with its result. */
void cuda_launch_begin(const CudaWork *w, CudaLaunch *ret);

/* The same without waiting, for a launch that another one waits for. */
void cuda_launch_begin_nowait(const CudaWork *w, CudaLaunch *ret);

void cuda_launch_end_slow(CudaLaunch *l, CudaResult result);
void cuda_launch_renew_ride(CudaQueue *q, CudaLaunch *l);
static inline void cuda_launch_end(CudaLaunch *l, CudaResult result) {
        CudaQueue *q = l->queue;

        if (unlikely(!q))
                return;
        if (unlikely(!l->rides)) {
                cuda_launch_end_slow(l, result);
                return;
        }
        l->queue = NULL;
        if (unlikely(!cuda_begun_is_there(l->begun, l->xq)))
                return;
        cuda_begun_end(l->begun);
        cuda_ride_end(&q->ride, l->ride, l->expected, result == CUDA_RESULT_SUCCESS);
        if (unlikely(l->last))
                cuda_launch_renew_ride(q, l);
}

/* The clean-up of a thread that ends within the native call: whether the launch was made is not known. */
static inline void cuda_launch_leave(CudaLaunch *l) {
        cuda_launch_end(l, CUDA_RESULT_NOT_READY);
}
