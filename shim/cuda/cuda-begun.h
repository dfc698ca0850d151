/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches that are being made
 *
 * A launch is counted before the driver is called, and the same thread tells how it ended. But a handler of a signal
 * may jump out of the driver (siglongjmp(), an exception), and then nobody tells: the queue would count as busy for
 * ever, and hold others back. So each thread has records of its launches, by the frames of their hooks. A record whose
 * frame is gone is taken back when the thread launches or waits for the next time. Stacks grow down, so the frame of a
 * launch that is still being made, which a handler has interrupted, is at a higher address.
 *
 * A launch on a ride (cuda-ride.h) has a record of its own kind, of which a thread has one: what a handler launches
 * meanwhile does not ride. It is claimed by one store, before anything else of it is written, so a handler that comes
 * in between leaves it alone, or has given it back.
 *
 * A jump out of the call that counts, or right behind it, leaves open whether the launch is counted; so does one out of
 * the end of a launch. Once nothing else of the queue is in flight, one too many can only be such a one, and is ended.
 */

#include "shim/cuda/cuda-queue.h"

#define CUDA_BEGUN 4U /* launches of a thread that are made at a time: handlers nest */

/* A launch that is being counted at the gate, or not. */
typedef struct CudaCounting {
        XschedQueue *xq; /* NULL: none is */
        CudaQueue *queue;
        const void *frame;
} CudaCounting;

typedef struct CudaBegun {
        XschedQueue *xq; /* NULL: the record is free */
        CudaQueue *queue;
        const void *frame;
        uint64_t generation;
        uint32_t timed;
        bool ends; /* it may have been uncounted, or not */
} CudaBegun;

/* A launch on a ride. */
typedef struct CudaBegunRide {
        const void *frame; /* NULL: the record is free */
        CudaQueue *queue;
        uint64_t ticket; /* cuda_ride_begin() */
        XschedQueue *xq; /* NULL: the rest is not written yet, or the launch ends */
} CudaBegunRide;

/* Of a thread. What a launch looks at comes first, in one line. */
typedef struct CudaBegunThread {
        uint32_t n; /* of `records`, that are not free; a jump may leave it too high, never too low */
        CudaCounting counting;
        CudaBegunRide ride;
        CudaBegun records[CUDA_BEGUN];
} _aligned_(64) CudaBegunThread;

/* Initial-exec TLS, because dynamic TLS is allocated on first use, which may be in a signal handler. */
extern _hidden_ _Thread_local CudaBegunThread cuda_begun __attribute__((tls_model("initial-exec")));

/* Returns whether no launch of this thread is being made, and none was left by a jump. */
static inline bool cuda_begun_is_idle(void) {
        return (cuda_begun.n | (uintptr_t) cuda_begun.counting.xq | (uintptr_t) cuda_begun.ride.frame) == 0;
}

/* Ends a launch that was left while it was being counted. */
void cuda_begun_counting_slow(const void *frame);
static inline void cuda_begun_look_counting(const void *frame) {
        if (unlikely(cuda_begun.counting.xq != NULL))
                cuda_begun_counting_slow(frame);
}

/* A launch is about to be counted. One that a handler makes meanwhile goes without. */
static inline void cuda_begun_counts(CudaQueue *q, XschedQueue *xq, const void *frame) {
        cuda_begun_look_counting(frame);
        if (unlikely(cuda_begun.counting.xq != NULL))
                return;
        cuda_begun.counting.queue = q;
        cuda_begun.counting.frame = frame;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        cuda_begun.counting.xq = xq;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* It was not counted. */
static inline void cuda_begun_passed(const void *frame) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (likely(cuda_begun.counting.frame == frame))
                cuda_begun.counting.xq = NULL;
}

static inline void cuda_begun_free(CudaBegun *b) {
        if (!b->xq)
                return;
        b->xq = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        cuda_begun.n--;
}

/* Notes a launch that was counted. Returns the record's index; CUDA_BEGUN: there is none free. */
uint32_t cuda_begun_note(CudaQueue *q, XschedQueue *xq, const void *frame);

/* The same for a launch on a ride. Returns false if another one of this thread is on one. */
static inline bool cuda_begun_note_ride(CudaQueue *q, XschedQueue *xq, const void *frame, uint64_t ticket) {
        CudaBegunRide *r = &cuda_begun.ride;

        if (unlikely(r->frame != NULL))
                return false;
        r->frame = frame;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        r->queue = q;
        r->ticket = ticket;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        r->xq = xq;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        return true;
}

/* The launch was made, or not. Returns false if it has been taken back: cuda_begun_is_there(). */
static inline bool cuda_begun_end_ride(const XschedQueue *xq) {
        CudaBegunRide *r = &cuda_begun.ride;

        if (unlikely(r->xq != xq))
                return false;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        r->xq = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        r->frame = NULL;
        return true;
}

/* Notes its sample: CudaLaunch.timed. */
void cuda_begun_set_timed(uint32_t index, uint32_t timed);

/* Returns whether the launch has not been taken back: a handler on another stack may have taken it for one that was
 * left. */
static inline bool cuda_begun_is_there(uint32_t index, const XschedQueue *xq) {
        return index >= CUDA_BEGUN || cuda_begun.records[index].xq == xq;
}

/* Around the step in which the launch is taken over from its record, or is reported complete. */
void cuda_begun_ends(uint32_t index);
static inline void cuda_begun_end(uint32_t index) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (index < CUDA_BEGUN)
                cuda_begun_free(&cuda_begun.records[index]);
}

/* Ends what is counted too many, when nothing else is in flight, and was not a moment ago; cuda_begun_settle_now():
 * when nothing else is. The former returns whether nothing of the kind is left. Under the queue's lock. */
bool cuda_begun_settle(CudaQueue *q);
void cuda_begun_settle_now(CudaQueue *q);

/* Takes back launches that were left. `frame`: of the caller. */
void cuda_begun_look_slow(const void *frame);
static inline void cuda_begun_look(const void *frame) {
        if (unlikely(cuda_begun.n > 0) || unlikely(cuda_begun.ride.frame != NULL))
                cuda_begun_look_slow(frame);
}
