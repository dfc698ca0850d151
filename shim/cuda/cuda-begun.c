/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records of launches that are being made: see cuda-begun.h
 */

#include "shim/cuda/cuda-begun.h"

#include <stdatomic.h>

#include "shim/cuda/cuda-stack.h"

_Thread_local CudaBegunThread cuda_begun __attribute__((tls_model("initial-exec")));

/* --- launches of which it is not known whether they are counted --- */

static void unsure(CudaQueue *q, XschedQueue *xq) {
        if (q->xq != xq)
                return;
        atomic_fetch_add(&q->n_unsure, 1);
        xsched_queue_look(xq);
}

static bool nothing_else_flies(const CudaQueue *q) {
        return q->xq && q->seq == q->done_seq && q->n_marks == 0 && cuda_ride_count(&q->ride) == 0 && q->n_drains == 0;
}

void cuda_begun_settle_now(CudaQueue *q) {
        if (!nothing_else_flies(q))
                return;
        for (uint32_t n = atomic_exchange(&q->n_unsure, 0); n > 0; n--)
                xsched_queue_drained(q->xq); /* does nothing where nothing is counted */
}

/* A launch that is counted and has no number yet looks the same, but not twice. */
bool cuda_begun_settle(CudaQueue *q) {
        if (likely(atomic_load_explicit(&q->n_unsure, memory_order_relaxed) == 0))
                return true;
        if (nothing_else_flies(q) && q->unsure_seq == q->seq) {
                cuda_begun_settle_now(q);
                q->unsure_seq = UINT64_MAX;
                return true;
        }
        q->unsure_seq = nothing_else_flies(q) ? q->seq : UINT64_MAX;
        return false;
}

void cuda_begun_counting_slow(const void *frame) {
        CudaCounting *c = &cuda_begun.counting;
        XschedQueue *xq = c->xq;

        if (!xq || (uintptr_t) c->frame > (uintptr_t) frame || cuda_on_other_stack())
                return;
        c->xq = NULL;
        for (size_t i = 0; i < CUDA_BEGUN; i++)
                if (cuda_begun.records[i].xq == xq && cuda_begun.records[i].frame == c->frame)
                        return; /* it has been noted */
        unsure(c->queue, xq);
}

/* --- records --- */

/* The queue may have another stream by now; what was counted for the former one ended with that. Without the lock it is
 * left for the next time: the jump may have come out of the lock. */
static void take_back(CudaBegun *b) {
        CudaQueue *q = b->queue;

        if (!CUDA_QUEUE_LOCK(q))
                return;
        XschedQueue *xq = b->xq;
        bool same = q->generation == b->generation && q->xq == xq;
        if (same && b->timed < CUDA_TIMED)
                q->timed[b->timed].used = false;
        cuda_queue_unlock(q);
        bool ended = b->ends;
        if (ended)
                unsure(q, xq);
        b->ends = true;
        atomic_signal_fence(memory_order_seq_cst);
        if (same && !ended)
                xsched_queue_complete(xq, 1, 0);
        cuda_begun_free(b);
}

/* A handler that comes in between may do the same. */
static void take_back_ride(CudaBegunRide *r) {
        CudaQueue *q = r->queue;
        uint64_t ticket = r->ticket;

        atomic_signal_fence(memory_order_seq_cst);
        const XschedQueue *xq = __atomic_exchange_n(&r->xq, NULL, __ATOMIC_RELAXED);
        atomic_signal_fence(memory_order_seq_cst);
        r->frame = NULL;
        if (xq)
                cuda_ride_end(&q->ride, ticket, 0, false);
}

void cuda_begun_look_slow(const void *frame) {
        PROTECT_ERRNO;
        uint32_t n = 0;

        if (cuda_on_other_stack())
                return;
        if (cuda_begun.ride.frame && (uintptr_t) cuda_begun.ride.frame <= (uintptr_t) frame)
                take_back_ride(&cuda_begun.ride);
        for (size_t i = 0; i < CUDA_BEGUN; i++) {
                if (cuda_begun.records[i].xq && (uintptr_t) cuda_begun.records[i].frame <= (uintptr_t) frame)
                        take_back(&cuda_begun.records[i]);
                n += cuda_begun.records[i].xq != NULL;
        }
        cuda_begun.n = n;
}

static uint32_t note(CudaQueue *q, XschedQueue *xq, const void *frame) {
        for (uint32_t i = 0; i < CUDA_BEGUN; i++) {
                CudaBegun *b = &cuda_begun.records[i];
                if (b->xq)
                        continue;
                b->queue = q;
                b->generation = q->generation;
                b->timed = CUDA_TIMED;
                b->ends = false;
                b->frame = frame;
                cuda_begun.n++;
                atomic_signal_fence(memory_order_seq_cst);
                b->xq = xq;
                return i;
        }
        return CUDA_BEGUN;
}

uint32_t cuda_begun_note(CudaQueue *q, XschedQueue *xq, const void *frame) {
        uint32_t i = note(q, xq, frame);

        atomic_signal_fence(memory_order_seq_cst);
        cuda_begun_passed(frame);
        return i;
}

void cuda_begun_set_timed(uint32_t index, uint32_t timed) {
        if (index < CUDA_BEGUN)
                cuda_begun.records[index].timed = timed;
}

void cuda_begun_ends(uint32_t index) {
        if (index < CUDA_BEGUN)
                cuda_begun.records[index].ends = true;
        atomic_signal_fence(memory_order_seq_cst);
}
