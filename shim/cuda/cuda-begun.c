/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records of launches that are being made: see cuda-begun.h
 */

#include "shim/cuda/cuda-begun.h"

#include <stdatomic.h>

typedef struct Begun {
        XschedQueue *xq; /* NULL: the record is free */
        CudaQueue *queue;
        uint64_t generation;
        uint32_t timed;
        bool rides;
        uint32_t ride;
        const void *frame;
} Begun;

/* Initial-exec TLS, because dynamic TLS is allocated on first use, which may be in a signal handler. */
static _Thread_local Begun records[CUDA_BEGUN] __attribute__((tls_model("initial-exec")));
_Thread_local uint32_t cuda_n_begun __attribute__((tls_model("initial-exec")));

static XschedQueue *record_free(Begun *b) {
        XschedQueue *xq = TAKE_PTR(b->xq);

        if (xq)
                cuda_n_begun--;
        atomic_signal_fence(memory_order_seq_cst);
        return xq;
}

/* The queue may have another stream by now; what was counted for the former one ended with that. Without the lock it is
 * left for the next time: the jump may have come out of the lock. */
static void take_back(Begun *b) {
        CudaQueue *q = b->queue;

        if (b->rides) {
                uint32_t ride = b->ride;
                if (record_free(b))
                        cuda_ride_end(&q->ride, ride, 0, false);
                return;
        }
        if (!CUDA_QUEUE_LOCK(q))
                return;
        bool same = q->generation == b->generation && q->xq == b->xq;
        if (same && b->timed < CUDA_TIMED)
                q->timed[b->timed].used = false;
        XschedQueue *xq = record_free(b);
        cuda_queue_unlock(q);
        if (same && xq)
                xsched_queue_complete(xq, 1, 0);
}

void cuda_begun_look_slow(const void *frame) {
        PROTECT_ERRNO;

        if (cuda_on_other_stack())
                return;
        for (size_t i = 0; i < CUDA_BEGUN; i++)
                if (records[i].xq && (uintptr_t) records[i].frame <= (uintptr_t) frame)
                        take_back(&records[i]);
}

static uint32_t note(CudaQueue *q, XschedQueue *xq, const void *frame, bool rides, uint32_t ride) {
        for (uint32_t i = 0; i < CUDA_BEGUN; i++) {
                Begun *b = &records[i];
                if (b->xq)
                        continue;
                b->queue = q;
                b->generation = q->generation;
                b->timed = CUDA_TIMED;
                b->rides = rides;
                b->ride = ride;
                b->frame = frame;
                atomic_signal_fence(memory_order_seq_cst);
                b->xq = xq;
                cuda_n_begun++;
                return i;
        }
        return CUDA_BEGUN;
}

uint32_t cuda_begun_note(CudaQueue *q, XschedQueue *xq, const void *frame) {
        return note(q, xq, frame, false, 0);
}

uint32_t cuda_begun_note_ride(CudaQueue *q, XschedQueue *xq, const void *frame, uint32_t ride) {
        return note(q, xq, frame, true, ride);
}

void cuda_begun_set_timed(uint32_t index, uint32_t timed) {
        if (index < CUDA_BEGUN)
                records[index].timed = timed;
}

bool cuda_begun_is_there(uint32_t index, const XschedQueue *xq) {
        return index >= CUDA_BEGUN || records[index].xq == xq;
}

void cuda_begun_end(uint32_t index) {
        if (index < CUDA_BEGUN)
                (void) record_free(&records[index]);
}
