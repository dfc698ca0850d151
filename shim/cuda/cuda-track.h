/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: marks, and finding completions
 *
 * No launch is reported complete before it is. A launch gets its number when its native call has returned, under the
 * lock of its queue, and a mark is recorded under the same lock; so all launches up to the mark's number were submitted
 * before it. A thread of the application that has waited reports the launches that had a number when it began to wait.
 */

#include "shim/cuda/cuda-begun.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-queue.h"

/* The lock of a queue, with which launches that have ended on a ride get their numbers, and what a jump has left is
 * mended. */
#define CUDA_TRACK_LOCK(q)     (CUDA_QUEUE_LOCK(q) && cuda_track_is_locked(q))
#define CUDA_TRACK_TRY_LOCK(q) (CUDA_QUEUE_TRY_LOCK(q) && cuda_track_is_locked(q))
bool cuda_track_is_locked(CudaQueue *q);

/* Unlocks the queue, and frees a libxsched queue that needed it last. */
void cuda_track_unlock(CudaQueue *q);

/* The newest `n` launches, which were made just now, have got their numbers. Under the lock. */
void cuda_track_numbered(CudaQueue *q, uint32_t n, uint64_t expected);

/* The device time of the launches in flight. Under the lock. */
void cuda_track_set_flying(CudaQueue *q, uint64_t ns);

/* Tells libxsched this time. Under the lock. */
void cuda_track_tell(CudaQueue *q);

/* A mark was recorded just now. Asks for an earlier one, unless a launch at the bound will, and learns whether the
 * device keeps up with the program. Under the lock. */
void cuda_track_ask(CudaQueue *q, bool bounded);

/* What a jump out of the handler of a signal has left. `frame`: of the caller. */
static inline void cuda_track_look_for_left(const void *frame) {
        cuda_capture_look_back(frame);
        cuda_begun_look_counting(frame);
        cuda_begun_look(frame);
}

/* How libxsched calls back the queue of a launch. */
extern const CudaQueueOps cuda_track_ops;

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

/* A context is about to be destroyed with all of its streams; or (shared) one of several users leaves it, so that it
 * will hardly end; and whether it has ended. Between these calls no thread of the layer asks the driver about it. NULL:
 * nothing is done. `by`: cuda_queue_leaver(). */
void cuda_track_leave_context(CudaContext context, uint32_t by);
void cuda_track_leave_shared_context(CudaContext context, uint32_t by);
void cuda_track_left_context(CudaContext context, uint32_t by, bool ended);

/* Nobody will say what has ended by that call: all that may have has. */
void cuda_track_left_all(uint32_t by);

/* The same where the driver does not wait for the work of the context, and its events do not end with it: marks are
 * recorded behind launches in flight, and events that the layer can do without are freed. If it has ended, and events
 * have not, cuda_queue_pass_all() gives its queues to the context with which these end; they count until the marks are
 * reached. Then cuda_track_left_context(). */
void cuda_track_leave_part(CudaContext context, uint32_t by);
void cuda_track_left_part(CudaContext context, uint32_t by);

/* The application waits until all that it has launched on a stream is complete. */
typedef struct CudaWait {
        CudaQueue *queue;
        uint64_t generation;
        uint64_t seq;
        uint32_t n_drains;
} CudaWait;

void cuda_wait_begin(CudaStream stream, bool per_thread, const void *frame, CudaWait *ret);
void cuda_wait_end(CudaWait *w, CudaResult result);

/* The application has waited for work that may be on any stream. */
void cuda_track_waited_all(const void *frame);
