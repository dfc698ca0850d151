/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tracked launches: what has completed
 */

#include <stdatomic.h>

#include "common/signal-mask.h"
#include "common/time-util.h"
#include "shim/cuda/cuda-ask.h"
#include "shim/cuda/cuda-begun.h"
#include "shim/cuda/cuda-bound.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-mark.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-rm.h"
#include "shim/cuda/cuda-stop.h"
#include "shim/cuda/cuda-table.h"
#include "shim/cuda/cuda-track.h"

/* Who launched so long ago may have stopped. Together with LOOK_NS less than a millisecond. */
#define LAUNCHES_NS (200 * NSEC_PER_USEC)
#define LATELY_NS   (2 * LAUNCHES_NS) /* since a look: who has launched since launches just now */

/* --- completion, under the lock of the queue --- */

static void queue_complete(CudaQueue *q, uint32_t n, uint64_t sampled_ns, uint32_t n_sampled) {
        if (n_sampled > 0)
                xsched_queue_complete(q->xq, n_sampled, sampled_ns);
        if (n > n_sampled)
                xsched_queue_complete(q->xq, n - n_sampled, 0);
}

/* It is written under the lock alone, and is an estimate: no order with other members counts. */
void cuda_track_set_flying(CudaQueue *q, uint64_t ns) {
        atomic_store_explicit(&q->flying_ns, ns, memory_order_relaxed);
}

/* Launches of a kind that was never timed have no known length: then nothing is told. */
void cuda_track_tell(CudaQueue *q) {
        uint64_t ns = q->unknown_seq > q->done_seq ? 0 : atomic_load(&q->flying_ns);

        if (q->xq)
                xsched_queue_set_flying(q->xq, ns, atomic_load(&q->since_ns));
}

/* The newest `n` launches, which were made just now, have got their numbers. */
void cuda_track_numbered(CudaQueue *q, uint32_t n, uint64_t expected) {
        if (q->seq == q->done_seq + n)
                atomic_store_explicit(&q->since_ns, now_ns(), memory_order_relaxed);
        cuda_track_set_flying(q, atomic_load_explicit(&q->flying_ns, memory_order_relaxed) + expected);
        atomic_fetch_add(&q->in_flight, n);
        q->unmarked_ns += expected;
}

/* The same for launches whose ride has ended. */
static void queue_number_rides(CudaQueue *q) {
        uint64_t ns;
        uint32_t n = q->xq ? cuda_ride_take(&q->ride, &ns) : 0;

        if (n == 0)
                return;
        q->n_moving = n;
        atomic_signal_fence(memory_order_seq_cst);
        bool tracked = xsched_queue_join(q->xq, n) == XSCHED_TRACKED;
        q->seq += tracked ? n : 0;
        atomic_signal_fence(memory_order_seq_cst);
        q->n_moving = 0;
        if (!tracked)
                return;
        cuda_track_numbered(q, n, ns);
        (void) cuda_sample_skip(q, n);
        cuda_track_tell(q);
}

/* Launches up to `seq` are complete. Returns up to which they may be reported: not the last one, if a launch is on a
 * ride. */
static uint64_t queue_close_ride(CudaQueue *q, uint64_t seq) {
        if (seq < q->seq || cuda_ride_close(&q->ride))
                return seq;
        queue_number_rides(q);
        return seq < q->seq || cuda_ride_give_up(&q->ride, now_ns()) ? seq : seq - 1;
}

/* All launches up to `complete` are complete. */
static void queue_done(CudaQueue *q, uint64_t complete) {
        uint64_t sampled_ns = 0, flown_ns = 0, seq = queue_close_ride(q, complete);
        uint32_t n = (uint32_t) (seq - q->done_seq), n_sampled = 0;

        for (; q->n_marks > 0 && cuda_mark_at(q, 0)->seq <= complete; q->head++, q->n_marks--) {
                CudaMark *m = cuda_mark_at(q, 0);
                q->n_ended += TAKE_GENERIC(m->drains, 0U);
                uint64_t ns = m->kind != 0 && !q->lost ? cuda_sample_take(q, m) : 0;
                bool told = m->seq <= seq && ns > 0;
                sampled_ns += told ? ns : 0;
                n_sampled += told;
                flown_ns += m->expected;
                cuda_mark_release(q, m);
        }
        for (; q->n_ended > 0; q->n_ended--)
                xsched_queue_drained(q->xq);
        if (n == 0)
                return;
        q->n_moving = n;
        atomic_signal_fence(memory_order_seq_cst);
        q->done_seq = seq;
        if (seq == q->seq) {
                q->unmarked_ns = 0;
                q->marked_seq = seq;
        }
        cuda_track_set_flying(q, seq == q->seq ? 0 : ns_sub(atomic_load(&q->flying_ns), flown_ns));
        if (seq < q->seq) /* otherwise the next launch sets it */
                atomic_store_explicit(&q->since_ns, now_ns(), memory_order_relaxed);
        atomic_fetch_sub(&q->in_flight, n);
        atomic_store_explicit(&q->grace, 0, memory_order_relaxed);
        cuda_track_tell(q);
        queue_complete(q, n, sampled_ns, n_sampled);
        atomic_signal_fence(memory_order_seq_cst);
        q->n_moving = 0;
}

/* Ends drains that have no mark. */
static void queue_drained(CudaQueue *q) {
        for (; q->n_drains > 0; q->n_drains--)
                xsched_queue_drained(q->xq);
}

static void queue_lose(CudaQueue *q) {
        q->lost = true;
        cuda_ride_reset(&q->ride);
        queue_done(q, q->seq);
        (void) cuda_drains_take(q);
        queue_drained(q);
}

/* The thread with the lock jumped away in the middle of a change, or the stream was destroyed while the lock could not
 * be had. Of what the lock guards, only the numbers are still certain. */
static void queue_mend(CudaQueue *q) {
        q->left = false;
        q->gone |= atomic_load(&q->dropped);
        atomic_store(&q->in_flight, (uint32_t) (q->seq - q->done_seq));
        atomic_fetch_add(&q->n_unsure, TAKE_GENERIC(q->n_moving, 0U));
        if (q->xq)
                queue_lose(q);
}

bool cuda_track_is_locked(CudaQueue *q) {
        if (unlikely(q->left || atomic_load_explicit(&q->dropped, memory_order_relaxed)))
                queue_mend(q);
        queue_number_rides(q);
        return true;
}

/* Whether nothing is in flight, and no caller waits for that. */
static bool queue_is_quiet(CudaQueue *q) {
        return q->seq == q->done_seq && q->n_marks == 0 && cuda_drains_take(q) == 0;
}

/* `newest`: asks the newest mark first. It alone tells that all launches are complete. Then the oldest. */
static bool marks_ask(CudaQueue *q, bool newest) {
        bool done;

        if (newest && q->n_marks > 1 && !q->own_default) {
                if (!cuda_ask_event(cuda_mark_at(q, q->n_marks - 1)->event, &done))
                        return false;
                if (done) {
                        queue_done(q, cuda_mark_at(q, q->n_marks - 1)->seq);
                        return true;
                }
        }
        while (q->n_marks > 0) {
                if (!cuda_ask_event(cuda_mark_at(q, 0)->event, &done))
                        return false;
                if (!done)
                        return true;
                queue_done(q, cuda_mark_at(q, 0)->seq);
        }
        return true;
}

/* `newest`: as above; `stream`: ask the stream, too, for launches without a mark. */
static void queue_harvest(CudaQueue *q, bool newest, bool stream) {
        if (cuda_has_ended() || atomic_load(&q->leaves) > 0 || queue_is_quiet(q))
                return;

        CUDA_WITH_RELAXED_CAPTURE;
        if (!marks_ask(q, newest)) {
                queue_lose(q);
                return;
        }
        if (q->n_marks > 0 || !stream || queue_is_quiet(q))
                return;
        uint32_t drains = q->n_drains;
        CudaResult r = cuda_ask_stream(q);
        if (cuda_is_pending(r))
                return;
        if (r != CUDA_RESULT_SUCCESS)
                q->lost = true;
        queue_done(q, q->seq);
        if (drains == q->n_drains)
                queue_drained(q);
}

/* Unlocks the queue, and frees a libxsched queue that needed it last. */
void cuda_track_unlock(CudaQueue *q) {
        XschedQueue *last = NULL;
        uint32_t n_drains = 0;

        /* A drain that was asked for since the stream has gone: nothing is recorded behind what it waits for. */
        if (unlikely(q->gone) && q->xq && q->n_marks == 0 && q->seq == q->done_seq && cuda_drains_take(q) > 0)
                queue_drained(q);
        if (q->gone && q->xq && queue_is_quiet(q)) {
                cuda_begun_settle_now(q);
                open_gate_clear(&q->open);
                last = cuda_queue_part(q, &n_drains);
                if (!q->lost && !cuda_has_ended())
                        cuda_mark_free_all(q);
        }
        cuda_queue_unlock(q);
        if (!last)
                return;
        for (; n_drains > 0; n_drains--)
                xsched_queue_drained(last);
        cuda_stop_leave(last);
        xsched_queue_unref(last);
        cuda_queue_free(q);
}

/* --- for others --- */

void cuda_track_harvest(CudaQueue *q) {
        PROTECT_ERRNO;
        if (atomic_load(&q->in_flight) == 0)
                return;
        if (!CUDA_TRACK_LOCK(q))
                return;
        if (q->xq)
                queue_harvest(q, atomic_load(&q->keeps_up), q->n_marks == 0);
        cuda_track_unlock(q);
}

/* Returns whether it was done. A thread inside of the driver may have the lock for long. */
static bool try_harvest(CudaQueue *q, const XschedQueue *xq, bool *ret_more) {
        *ret_more = false;
        if (!CUDA_TRACK_TRY_LOCK(q))
                return false;
        /* A record that was freed meanwhile may be another queue's by now. */
        if (q->xq && (!xq || q->xq == xq)) {
                queue_harvest(q, true, true);
                *ret_more = !queue_is_quiet(q) || !cuda_begun_settle(q);
        }
        cuda_track_unlock(q);
        return true;
}

/* When the driver can no longer be asked, the end of the process reports the rest. */
static void track_last_look(CudaQueue *q) {
        if (cuda_has_ended())
                queue_number_rides(q);
        else
                (void) cuda_track_is_locked(q); /* the driver can be asked, so what a jump has left is mended */
        cuda_ride_reset(&q->ride);
        if (q->xq && !cuda_has_ended()) {
                queue_harvest(q, true, true);
                cuda_begun_settle_now(q);
        } else if (q->xq) {
                for (uint32_t i = 0; i < q->n_marks; i++)
                        q->n_drains += TAKE_GENERIC(cuda_mark_at(q, i)->drains, 0U);
                (void) cuda_drains_take(q);
                queue_drained(q);
        }
        cuda_track_unlock(q);
}

/* Returns whether the program launches just now, and if so, asks for the next look. Launches on a ride leave no time
 * behind: where the ride has moved since a look that was long ago, a second look soon after this one tells whether it
 * still does. How long ago it was counts, and not who asked for it, so that looks at several queues fall together. */
static bool look_at_launches(CudaQueue *q, XschedQueue *xq) {
        uint64_t ride = cuda_ride_load(&q->ride), now = now_ns();
        bool moved = atomic_exchange_explicit(&q->ride_seen, ride, memory_order_relaxed) != ride;
        bool lately = ns_sub(now, atomic_exchange_explicit(&q->seen_ns, now, memory_order_relaxed)) <= LATELY_NS;

        if (atomic_load(&q->in_flight) == 0 || xsched_queue_get_state(xq) & XSCHED_QUEUE_HELD)
                return false;
        if (ns_sub(now, atomic_load(&q->launched_ns)) < LAUNCHES_NS || (moved && lately)) {
                xsched_queue_look(xq);
                return true;
        }
        if (moved)
                xsched_queue_look_in(xq, LAUNCHES_NS);
        return moved;
}

static void track_look(XschedQueue *xq, void *userdata) {
        CudaQueue *q = userdata;
        bool more;

        /* The program finds completions itself while it launches. Its calls of the driver would wait for ours. */
        if (look_at_launches(q, xq))
                return;
        /* A thread of the application may hold a lock of the driver while it waits for stopped channels. If the control
         * thread asked the driver now, it would wait for that thread, and could not release the channels. */
        if (cuda_rm_any_stopped()) {
                xsched_queue_look(xq);
                return;
        }
        if (!cuda_has_ended() && (!try_harvest(q, xq, &more) || more))
                xsched_queue_look(xq);
}

/* The control thread must not wait for a thread that the driver keeps. The next launch records the mark. */
static void ask_for_drain(CudaQueue *q, XschedQueue *xq) {
        bool ours;

        if (CUDA_TRACK_TRY_LOCK(q)) {
                ours = q->xq == xq && !q->gone && !q->lost;
                q->n_drains += ours;
                cuda_queue_unlock(q);
        } else
                ours = cuda_queue_request_drain(q, xq);
        if (ours) {
                cuda_ride_stop(&q->ride);
                xsched_queue_look(xq);
        } else
                xsched_queue_drained(xq);
}

static void track_drain(XschedQueue *xq, void *userdata) {
        CudaQueue *q = userdata;

        /* The process is ending, and its driver cannot be asked any more: the end of the process reports the
         * launches. */
        if (cuda_has_ended()) {
                xsched_queue_drained(xq);
                return;
        }
        ask_for_drain(q, xq);
        /* The process began to end just now, perhaps before this request: then nothing looks any more. */
        if (cuda_has_ended() && CUDA_TRACK_LOCK(q))
                track_last_look(q);
}

/* Called under the queue's lock. */
static bool tail_may_be_marked(CudaQueue *q) {
        return !q->own_default && !q->gone && !q->lost && atomic_load(&cuda_n_captures) == 0 &&
                        atomic_load(&q->leaves) == 0;
}

void cuda_track_close_tail(CudaQueue *q) {
        if (!CUDA_TRACK_LOCK(q))
                return;
        if (q->seq != q->marked_seq && tail_may_be_marked(q))
                (void) cuda_mark_record(q, q->stream);
        cuda_queue_unlock(q);
}

static bool has_tail(CudaQueue *q) {
        return q->seq != q->marked_seq || cuda_drains_take(q) > 0;
}

/* Called under the queue's lock. The event belongs to the context in which it is made. */
static void tail_mark(CudaQueue *q) {
        CudaContext popped;

        if (!q->xq || !has_tail(q) || !tail_may_be_marked(q) || !cuda_ask_begin())
                return;
        SIGNALS_BLOCKED;
        if (cuda_stream_use(q)) {
                if (CUDA_CALL(cuCtxPushCurrent_v2, CudaResult(*)(CudaContext), q->context) == CUDA_RESULT_SUCCESS) {
                        (void) cuda_mark_record(q, q->stream);
                        (void) CUDA_CALL(cuCtxPopCurrent_v2, CudaResult(*)(CudaContext *), &popped);
                }
                cuda_stream_unuse(q);
        }
        cuda_ask_end();
}

static void mark_tail(CudaQueue *q) {
        if (atomic_load(&q->in_flight) + cuda_ride_count(&q->ride) == 0 || !CUDA_TRACK_LOCK(q))
                return;
        tail_mark(q);
        cuda_queue_unlock(q);
}

void cuda_track_mark_tails(void) {
        PROTECT_ERRNO;
        SIGNALS_BLOCKED;
        cuda_table_each(mark_tail);
}

typedef enum Close {
        CLOSE_MARKING, /* the stream is about to be destroyed */
        CLOSE_MARKED,  /* its context has ended, and not the events */
        CLOSE_LOST,    /* all has ended, so the driver reports nothing any more */
} Close;

static void track_close(CudaQueue *q, Close how, uint32_t by) {
        if (!CUDA_QUEUE_LOCK(q)) {
                atomic_store(&q->dropped, true); /* the next thread with the lock finds this */
                cuda_stream_await_unused(q);
                xsched_queue_look(q->xq);
                return;
        }
        /* The record may be another queue's by now, of a context that does not end. */
        if ((how != CLOSE_MARKING && !(atomic_load(&q->leaves) & by)) || !cuda_track_is_locked(q) || !q->xq) {
                cuda_queue_unlock(q);
                return;
        }
        if (how == CLOSE_MARKING && has_tail(q) && tail_may_be_marked(q))
                (void) cuda_mark_record(q, q->stream);
        q->gone = true;
        cuda_ride_reset(&q->ride);
        bool is_marked = q->seq == q->marked_seq && q->n_drains == 0;
        /* Another call may be about to end the events just now, so that only marks may be kept. */
        if (how == CLOSE_LOST ||
                        (how == CLOSE_MARKED && atomic_load(&q->leaves) != by && !(is_marked && q->n_marks > 0)))
                queue_lose(q);
        else if (!is_marked) {
                /* There is no mark: count all as complete. */
                queue_done(q, q->seq);
                queue_drained(q);
        }
        cuda_track_unlock(q);
}

static void close_lost(CudaQueue *q, uint32_t by) {
        track_close(q, CLOSE_LOST, by);
}

static void close_marked(CudaQueue *q, uint32_t by) {
        track_close(q, CLOSE_MARKED, by);
}

void cuda_track_drop_stream(CudaStream stream) {
        PROTECT_ERRNO;
        CudaQueue *q = cuda_queue_take(stream);

        if (q)
                track_close(q, CLOSE_MARKING, 0);
}

void cuda_track_leave_shared_context(CudaContext context, uint32_t by) {
        PROTECT_ERRNO;
        cuda_capture_leave_context(context);
        if (context)
                cuda_queue_leave_all(context, by, NULL);
}

void cuda_track_leave_context(CudaContext context, uint32_t by) {
        PROTECT_ERRNO;
        if (context)
                cuda_queue_hide_all(context);
        cuda_track_leave_shared_context(context, by);
}

/* Under the lock. A mark's event must not be one that was made in another context. */
static void part_leaves(CudaQueue *q) {
        (void) cuda_track_is_locked(q);
        if (!q->xq || q->lost || cuda_has_ended() || atomic_load(&q->leaves) > 0)
                return;
        queue_harvest(q, true, false);
        cuda_mark_free_idle(q);
        tail_mark(q);
}

void cuda_track_leave_part(CudaContext context, uint32_t by) {
        PROTECT_ERRNO;
        cuda_queue_hide_all(context);
        cuda_capture_leave_context(context);
        cuda_queue_leave_all(context, by, part_leaves);
}

void cuda_track_left_context(CudaContext context, uint32_t by, bool ended) {
        PROTECT_ERRNO;
        cuda_capture_left_context(context, ended);
        if (context && ended)
                cuda_queue_take_all(context, by, close_lost);
        else if (context)
                cuda_queue_stay_all(context, by);
}

void cuda_track_left_all(uint32_t by) {
        PROTECT_ERRNO;
        cuda_queue_take_all(NULL, by, close_lost);
}

void cuda_track_left_part(CudaContext context, uint32_t by) {
        PROTECT_ERRNO;
        cuda_capture_left_context(context, true);
        cuda_queue_take_all(context, by, close_marked);
}

/* --- waits of the application --- */

/* A queue that is in the table no more, as the jump came out of the end of its stream, is found only by this. */
static void mend_left(const void *frame) {
        PROTECT_ERRNO;

        for (CudaQueue *q; (q = cuda_queue_left(frame)) && cuda_queue_lock_at(q, frame);) {
                (void) cuda_track_is_locked(q);
                cuda_track_unlock(q);
        }
}

/* Does nothing when a thread inside of the driver has the lock: a later look finds the completions. */
void cuda_wait_begin(CudaStream stream, bool per_thread, const void *frame, CudaWait *ret) {
        CudaQueue *q = cuda_queue_find(stream, per_thread);

        *ret = (CudaWait){};
        cuda_track_look_for_left(frame);
        mend_left(frame);
        if (!q || q->own_default || !CUDA_TRACK_TRY_LOCK(q))
                return;
        if (q->xq && !queue_is_quiet(q))
                *ret = (CudaWait){.queue = q, .generation = q->generation, .seq = q->seq, .n_drains = q->n_drains};
        cuda_queue_unlock(q);
}

/* A mark of a sample is read, and a mark's event may be freed. */
static _noinline_ void queue_done_with_marks(CudaQueue *q, uint64_t complete) {
        CUDA_WITH_RELAXED_CAPTURE;
        queue_done(q, complete);
}

void cuda_wait_end(CudaWait *w, CudaResult result) {
        CudaQueue *q = w->queue;
        if (!q || result != CUDA_RESULT_SUCCESS || cuda_has_ended())
                return;

        PROTECT_ERRNO;
        if (!CUDA_TRACK_TRY_LOCK(q))
                return;
        if (q->xq && q->generation == w->generation) {
                if (w->seq > q->done_seq && q->n_marks > 0)
                        queue_done_with_marks(q, w->seq);
                else if (w->seq > q->done_seq)
                        queue_done(q, w->seq);
                if (w->n_drains > 0 && w->n_drains == q->n_drains)
                        queue_drained(q);
        }
        cuda_track_unlock(q);
}

static void harvest_in_flight(CudaQueue *q) {
        bool more;

        if (atomic_load(&q->in_flight) > 0)
                (void) try_harvest(q, NULL, &more);
}

void cuda_track_waited_all(const void *frame) {
        PROTECT_ERRNO;
        cuda_track_look_for_left(frame);
        mend_left(frame);
        cuda_table_each(harvest_in_flight);
}

/* --- for launches --- */

static void ask_last_but_one(CudaQueue *q) {
        const CudaMark *m = cuda_mark_at(q, q->n_marks - 2);
        bool done;

        CUDA_WITH_RELAXED_CAPTURE;
        if (!cuda_ask_event(m->event, &done)) {
                queue_lose(q);
                return;
        }
        atomic_store(&q->keeps_up, done);
        if (done)
                queue_done(q, m->seq);
        else if (!marks_ask(q, false))
                queue_lose(q);
}

void cuda_track_ask(CudaQueue *q, bool bounded) {
        if (q->n_marks < CUDA_MARKS_BOUND || (bounded && !atomic_load(&q->keeps_up)) || q->own_default ||
                        atomic_load(&q->leaves) > 0 || cuda_has_ended())
                return;
        ask_last_but_one(q);
}

const CudaQueueOps cuda_track_ops = {.drain = track_drain, .look = track_look, .last_look = track_last_look};

void cuda_track_make_queue(CudaStream stream) {
        if (!cuda_has_ended())
                (void) cuda_queue_get(stream, false, &cuda_track_ops);
}
