/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues: one for each stream that something was launched on
 *
 * A stream is known by its handle, and a default stream by its context. Streams are not registered when they are made
 * (frameworks make pools of them), but at their first launch. Lookups read an open-addressing table without a lock;
 * changes are made under one mutex. Records are never freed, only used again, so a launch on a stream that the
 * application has destroyed, which is its fault, does no more harm than without us.
 *
 * The tail of a stream is asked for, and not told: CUDA's callbacks cost 31 us and an event with time stamps half a
 * launch, an event without 0.1 to 0.3 us. So one tracked launch in eight is followed by an event (a mark), and what
 * has completed is found by asking: by the thread that launches when it meets its bound, by a thread of the
 * application that has waited for the device, and by the control thread within a millisecond (xsched_queue_look()),
 * which asks the stream itself for what has no mark.
 *
 * Nothing is asked of a stream that is being captured: that would invalidate the capture. Events may be asked at any
 * time by a thread whose capture mode is relaxed, and ours is while it asks.
 */

#include <pthread.h>

#include "common/launch-kind.h"
#include "common/macro.h"
#include "include/xsched/xsched.h"
#include "shim/cuda/cuda-abi.h"

#define CUDA_MARKS 256U /* of one queue: a power of two; who has more in flight has marks further apart */
#define CUDA_SPARE 16U
#define CUDA_TIMED 8U

typedef struct CudaMark {
        CudaEvent event;
        uint64_t seq;      /* all launches up to here are complete when the event is */
        uint64_t expected; /* what those since the mark before take, nanoseconds */
        uint32_t drains;   /* drains that its event ends */
        uint64_t kind;     /* of a sample: one launch, between two timed events */
        uint32_t timed;    /* which */
} CudaMark;

typedef struct CudaTimed {
        CudaEvent begin, end;
        bool used;
} CudaTimed;

typedef struct CudaQueue {
        XschedQueue *xq;
        uint64_t key;
        CudaStream stream;
        CudaContext context;
        CudaDevice device;
        bool own_default; /* the per-thread default streams of a context: not in one order, and not ours to ask */

        pthread_mutex_t lock; /* of all below */
        bool gone;            /* the stream is destroyed, or will be at once: nothing is asked of it */
        bool lost;            /* the driver says nothing but errors: everything counts as complete */
        uint32_t n_drains;    /* asked for, and no mark ends them yet */
        uint64_t generation;  /* of the record */
        uint64_t seq, done_seq, marked_seq;
        uint64_t unknown_seq; /* the newest of which nobody knows what it takes */
        CudaMark marks[CUDA_MARKS];
        uint32_t head, n_marks;
        CudaEvent spare[CUDA_SPARE];
        uint32_t n_spare;
        CudaTimed timed[CUDA_TIMED];
        uint32_t to_sample;
        uint64_t unmarked_ns; /* what those since the newest mark take */

        _Atomic uint32_t drain_requests; /* to be added to n_drains */

        /* Written under the lock, and read without. */
        _Atomic uint32_t in_flight;
        _Atomic uint64_t flying_ns; /* what those take, as far as is known */
        _Atomic uint64_t since_ns;  /* since when the oldest in flight is the oldest */
        _Atomic uint32_t grace;
        LaunchKinds kinds;

        struct CudaQueue *next_free;
        struct CudaQueue *all_next; /* for ever */
} CudaQueue;

/* What a queue wants to be called for. */
typedef struct CudaQueueOps {
        void (*drain)(XschedQueue *xq, void *userdata); /* XschedQueueInfo.drain and .look */
        void (*look)(XschedQueue *xq, void *userdata);
        void (*last_look)(
                        CudaQueue *q); /* the process is about to end; ends with the lock, which the caller has taken */
} CudaQueueOps;

/* The queue of a launch. NULL: it passes as if we were not there. `per_thread`: what stream 0 is. */
CudaQueue *cuda_queue_get(CudaStream stream, bool per_thread, const CudaQueueOps *ops);

/* The same, and NULL when there was no launch so far. */
CudaQueue *cuda_queue_find(CudaStream stream, bool per_thread);

void cuda_queue_each(void (*f)(CudaQueue *q));

/* The stream's next launch makes a new queue. Returns the old one, or NULL. */
CudaQueue *cuda_queue_take(CudaStream stream);

/* The same of all streams of a context; f() is called for each, and for those that were taken before. */
void cuda_queue_take_all(CudaContext context, void (*f)(CudaQueue *q));

/* Once a stream that is gone has nothing in flight; the reference to its XschedQueue is the caller's. */
void cuda_queue_free(CudaQueue *q);

/* The process is about to end: nothing is asked of the driver any more. */
bool cuda_has_ended(void);
