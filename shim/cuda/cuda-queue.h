/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues: one for each stream with launches
 *
 * A stream is known by its handle, a default stream by its context. Streams are not registered when they are made
 * (frameworks make pools of them), but at their first launch. Lookups read an open-addressing table without a lock;
 * changes are made under one mutex. Records are never freed, only reused, so a launch on a destroyed stream, which is
 * the application's bug, does no more harm than without us.
 *
 * Completions are found by polling: CUDA's callbacks cost 31 us, an event with time stamps costs half a launch, and an
 * event without 0.1 to 1 us, and to poll one 1.4 us. So one tracked launch in thirty, or in 0.1 ms of device time, is
 * followed by an event (a mark); in up to 256, or 0.8 ms, while the device keeps up. Marks are polled by the launching
 * thread at its bound, or when there are some more, by a thread of the application that has waited for the device, and
 * by the control thread within a millisecond after the last launch (xsched_queue_look()), which polls the stream itself
 * for launches without a mark.
 *
 * A stream that is being captured is never polled: that would invalidate the capture. A thread in relaxed capture mode
 * may poll events at any time, and our threads are in that mode while they poll.
 */

#include <pthread.h>

#include "common/launch-kind.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "include/xsched/xsched.h"
#include "shim/cuda/cuda-abi.h"
#include "shim/cuda/cuda-ride.h"
#include "shim/late/open-gate.h"

#define CUDA_MARKS 256U /* per queue, a power of two; with more in flight marks are further apart */
#define CUDA_SPARE 16U
#define CUDA_TIMED 8U

typedef struct CudaMark {
        CudaEvent event;
        uint64_t seq;      /* all launches up to here are complete when the event is */
        uint64_t expected; /* device time of the launches since the previous mark, nanoseconds */
        uint32_t drains;   /* drains that its event ends */
        uint64_t kind;     /* of a sample: one launch, between two timed events */
        uint32_t timed;    /* which */
} CudaMark;

typedef struct CudaTimed {
        CudaEvent begin, end;
        bool used;
} CudaTimed;

typedef struct CudaQueue {
        /* All of the record that a launch reads at an open gate: one line. */
        XschedQueue *xq _aligned_(64);
        OpenGate open;
        _Atomic uint32_t in_flight; /* written under the lock */
        CudaRide ride;

        uint64_t key;
        CudaStream stream;
        _Atomic(CudaContext) context; /* NULL: of no queue; read without the lock, to find the queues of one */
        CudaDevice device;
        bool own_default; /* per-thread default streams of a context: not in one order, never polled */

        pthread_mutex_t lock; /* of all below: cuda_queue_lock() */
        bool left;            /* a jump left the lock: the members below may be inconsistent */
        _Atomic bool stuck;   /* the lock was not available: no thread waits for it */
        _Atomic bool dropped; /* the stream was destroyed while the lock was not available */
        _Atomic bool in_use;  /* a thread calls the driver about the stream: cuda_stream_use() */
        bool gone;            /* the stream is destroyed, or about to be: never polled */
        bool lost;            /* the driver only returns errors: everything counts as complete */
        uint32_t n_drains;    /* drains that were asked for and have no mark */
        uint32_t n_ended;     /* drains whose mark was reached, to be reported */
        uint64_t generation;  /* of the record */
        uint64_t seq, done_seq, marked_seq;
        uint32_t n_moving;               /* launches whose count and number are being changed together */
        uint64_t unknown_seq;            /* the newest launch of unknown time */
        uint32_t head, n_marks, n_spare; /* of `marks` and `spare` */
        uint32_t n_rides;                /* that were opened */
        uint64_t unmarked_ns;            /* device time of the launches since the newest mark */

        _Atomic uint32_t drain_requests; /* to be added to n_drains */
        _Atomic uint32_t n_unsure;       /* launches that may be counted, and are not made: cuda-begun.h */
        uint64_t unsure_seq;             /* `seq` when nothing else was in flight; UINT64_MAX: not seen */
        _Atomic uint32_t leaves;         /* calls that are about to destroy its context, as bits: nothing is asked */
        _Atomic bool hidden;             /* it is not in the table until its context stays: cuda_queue_hide_all() */

        /* Written under the lock, and read without. */
        _Atomic uint64_t flying_ns; /* device time of the launches in flight, as far as it is known */
        _Atomic uint64_t since_ns;  /* when the oldest launch in flight became the oldest */
        _Atomic uint32_t grace;
        _Atomic bool keeps_up;        /* the device does launches about as fast as the program makes them */
        _Atomic uint64_t launched_ns; /* about when a launch was last made, if others were in flight */

        _Atomic uint32_t to_sample; /* launches until one is a sample; also written without the lock, one may be lost */

        /* Of the control thread's last look. */
        _Atomic uint64_t ride_seen; /* the word of the ride */
        _Atomic uint64_t seen_ns;   /* when */

        struct CudaQueue *next_free;
        struct CudaQueue *all_next; /* never removed */

        LaunchKinds kinds; /* written under the lock, and read without */
        CudaTimed timed[CUDA_TIMED];
        CudaEvent spare[CUDA_SPARE];
        CudaMark marks[CUDA_MARKS];
} CudaQueue;

/*
 * A queue's lock is held during calls of the driver, so a signal handler can jump out of such a call (siglongjmp(), an
 * exception) without releasing it. The same thread takes the lock over when it comes back and that frame is gone; other
 * threads wait for it no longer than CUDA_LOCK_NS, and after that only try. Returns false when the lock is not
 * available; the launch is then not tracked. `frame`: __builtin_frame_address(0) of the function that will hold the
 * lock.
 */
#define CUDA_LOCK_NS (100 * NSEC_PER_MSEC)

bool cuda_queue_lock_at(CudaQueue *q, const void *frame);
bool cuda_queue_try_lock_at(CudaQueue *q, const void *frame);
void cuda_queue_unlock(CudaQueue *q);

/* Returns whether this thread has the lock: a jump has left it, or this is a handler that has interrupted its holder.
 */
bool cuda_queue_is_mine(const CudaQueue *q);

/* Returns a queue whose lock this thread has left by a jump; NULL: there is none. `frame`: of the caller. */
CudaQueue *cuda_queue_left(const void *frame);

#define CUDA_QUEUE_LOCK(q)     cuda_queue_lock_at(q, __builtin_frame_address(0))
#define CUDA_QUEUE_TRY_LOCK(q) cuda_queue_try_lock_at(q, __builtin_frame_address(0))

/* Functions that a queue is called back by. */
typedef struct CudaQueueOps {
        void (*drain)(XschedQueue *xq, void *userdata); /* XschedQueueInfo.drain and .look */
        void (*look)(XschedQueue *xq, void *userdata);
        void (*last_look)(CudaQueue *q); /* the process is about to end; releases the lock, which the caller took */
} CudaQueueOps;

/* Returns the queue of a launch, making it if needed; NULL: the launch passes as without the layer. `per_thread`:
 * stream 0 is the per-thread default stream. */
CudaQueue *cuda_queue_get(CudaStream stream, bool per_thread, const CudaQueueOps *ops);

/* As cuda_queue_get(), but returns NULL for a stream without launches. */
CudaQueue *cuda_queue_find(CudaStream stream, bool per_thread);

/* Removes a stream's queue from the table, so that the next launch makes a new one. Returns the old queue, or NULL. */
CudaQueue *cuda_queue_take(CudaStream stream);

/* A bit that stands for a call that may destroy contexts, until it is given back. */
uint32_t cuda_queue_leaver(void);
void cuda_queue_leaver_free(uint32_t by);

/* After the first of these calls no thread asks about the context's streams (CudaQueue.leaves): it may be about to end.
 * It calls f() for each queue before, unless it is NULL, with the lock. The second one is for where it has not. Where
 * it has, cuda_queue_take_all() takes the queues that it had then from the table and calls f() for each, and for those
 * that were taken before; NULL: of all contexts. */
void cuda_queue_leave_all(CudaContext context, uint32_t by, void (*f)(CudaQueue *q));
void cuda_queue_stay_all(CudaContext context, uint32_t by);
void cuda_queue_take_all(CudaContext context, uint32_t by, void (*f)(CudaQueue *q, uint32_t by));

/* Before cuda_queue_leave_all(), for a context whose handle, and its streams', may be others' as soon as it has ended:
 * these get queues of their own. cuda_queue_stay_all() undoes that. */
void cuda_queue_hide_all(CudaContext context);

/* Queues that cuda_queue_take_all() has taken of a context, and that have launches in flight, become another one's.
 * `leaves`: the calls that are about to destroy that. */
void cuda_queue_pass_all(CudaContext context, uint32_t by, CudaContext to, uint32_t leaves);

/* Asks for a drain of the queue, without its lock. Returns false when the record is the queue's no more. */
bool cuda_queue_request_drain(CudaQueue *q, const XschedQueue *xq);

/* Parts the record from its queue, which is returned with the number of drains that were asked for just now. */
XschedQueue *cuda_queue_part(CudaQueue *q, uint32_t *ret_drains);

/* Frees the queue of a destroyed stream that has nothing in flight; the caller owns the reference to its
 * XschedQueue. */
void cuda_queue_free(CudaQueue *q);

/* Returns whether the process is about to end: the driver is not called any more. */
extern _hidden_ _Atomic bool cuda_ended;
static inline bool cuda_has_ended(void) {
        return __atomic_load_n((const bool *) &cuda_ended, __ATOMIC_SEQ_CST);
}
