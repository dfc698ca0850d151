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
} CudaLaunch;

/* A launch on a ride: cuda-ride.h. */
typedef struct CudaRider {
        CudaQueue *queue; /* NULL: it does not ride */
        XschedQueue *xq;
        CudaStream stream;
        uint64_t kind, expected;
        uint64_t ticket;
} CudaRider;

static inline CudaStream cuda_launch_stream(CudaStream stream, bool per_thread) {
        return !stream && per_thread ? (CudaStream) (uintptr_t) CUDA_STREAM_PER_THREAD : stream;
}

/* Returns the queue of a launch on a stream that has a handle, if nothing special is going on; NULL: look more
 * closely. */
static inline __attribute__((always_inline)) CudaQueue *cuda_launch_queue(CudaStream stream) {
        uint64_t key = (uintptr_t) stream;

        if (unlikely(key <= CUDA_STREAM_PER_THREAD) ||
                        unlikely(atomic_load_explicit(&cuda_n_captures, memory_order_relaxed) > 0) ||
                        unlikely(cuda_has_ended()) || unlikely(!cuda_begun_is_idle()))
                return NULL;
        return cuda_table_find(key);
}

/* The same for any stream: of a default one the driver is asked for the context. */
static inline __attribute__((always_inline)) CudaQueue *cuda_launch_queue_any(CudaStream stream, bool per_thread) {
        if (unlikely(atomic_load_explicit(&cuda_n_captures, memory_order_relaxed) > 0) || unlikely(cuda_has_ended()) ||
                        unlikely(!cuda_begun_is_idle()))
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

/* A launch gets on a ride, which it nearly always does while its queue is watched. Returns false when it needs
 * cuda_launch_begin(). */
static inline __attribute__((always_inline)) bool cuda_rider_begin(CudaEntry entry, CudaQueue *q, CudaStream stream,
                const void *what, uint64_t blocks, const void *frame, CudaRider *ret) {
        uint64_t kind = launch_kind(what, blocks), expected = launch_kind_expected(&q->kinds, kind), ticket;

        if (unlikely(!cuda_ride_begin(&q->ride, expected, &ticket)))
                return false;
        XschedQueue *xq = q->xq;
        if (unlikely(!xq) || unlikely(open_gate_may_be_held(&q->open)) ||
                        unlikely(!cuda_begun_note_ride(q, xq, frame, ticket))) {
                cuda_ride_end(&q->ride, ticket, expected, false);
                return false;
        }
        *ret = (CudaRider){
                        .queue = q, .xq = xq, .stream = stream, .kind = kind, .expected = expected, .ticket = ticket};
        cuda_count(entry);
        return true;
}

/* The native call has returned. */
void cuda_rider_renew(CudaQueue *q, XschedQueue *xq, CudaStream stream, uint64_t kind, uint64_t expected);
static inline __attribute__((always_inline)) void cuda_rider_end(CudaRider *r, CudaResult result) {
        CudaQueue *q = TAKE_PTR(r->queue);

        if (unlikely(!cuda_begun_end_ride(r->xq)))
                return;
        cuda_ride_end(&q->ride, r->ticket, r->expected, result == CUDA_RESULT_SUCCESS);
        if (unlikely(cuda_ride_was_last(r->ticket)))
                cuda_rider_renew(q, r->xq, r->stream, r->kind, r->expected);
}

/* Passes the gate. The caller then makes the native call, and calls cuda_launch_end() with its result. */
void cuda_launch_begin(const CudaWork *w, CudaLaunch *ret);

/* The same without waiting, for a launch that another one waits for. */
void cuda_launch_begin_nowait(const CudaWork *w, CudaLaunch *ret);

void cuda_launch_end(CudaLaunch *l, CudaResult result);

/* The clean-ups of a thread that ends within the native call: whether the launch was made is not known. */
static inline void cuda_launch_leave(CudaLaunch *l) {
        if (l->queue)
                cuda_launch_end(l, CUDA_RESULT_NOT_READY);
}

static inline __attribute__((always_inline)) void cuda_rider_leave(CudaRider *r) {
        if (unlikely(r->queue != NULL))
                cuda_rider_end(r, CUDA_RESULT_NOT_READY);
}
