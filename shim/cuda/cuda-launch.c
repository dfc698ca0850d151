/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tracked launches: see cuda-launch.h
 */

#include "shim/cuda/cuda-launch.h"

#include <stdatomic.h>

#include "common/time-util.h"
#include "shim/cuda/cuda-begun.h"
#include "shim/cuda/cuda-bound.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-mark.h"
#include "shim/cuda/cuda-track.h"

#define SAME_LONGEST 8U /* rides for which a longest kind counts */

/* `wait`: no launch of this thread was being made before. */
static _noinline_ void launch_track(const CudaWork *w, CudaQueue *q, XschedQueue *xq, uint64_t kind, const void *frame,
                bool wait, CudaLaunch *ret) {
        PROTECT_ERRNO;

        ret->xq = xq;
        ret->begun = cuda_begun_note(q, xq, frame);
        ret->queue = q;
        cuda_capture_look_back(frame);
        ret->kind = kind ?: launch_kind(w->what, w->blocks);
        if (kind == 0)
                ret->limit = cuda_bound_limit(q, ret->kind);
        if (!wait)
                return;
        ret->timed = cuda_sample_begin(q, ret->stream, ret->kind);
        cuda_begun_set_timed(ret->begun, ret->timed);
}

static void launch_begin(const CudaWork *w, bool wait, CudaLaunch *ret) {
        const void *frame = w->frame;
        CudaStream stream = w->stream;
        bool per_thread = w->per_thread;

        *ret = (CudaLaunch){.timed = CUDA_TIMED, .begun = CUDA_BEGUN, .stream = cuda_launch_stream(stream, per_thread)};
        if (unlikely(atomic_load_explicit(&cuda_n_captures, memory_order_relaxed) > 0) &&
                        cuda_is_captured(stream, per_thread))
                return;

        cuda_count(w->entry);
        if (unlikely(cuda_has_ended()))
                return;
        CudaQueue *q = cuda_queue_get(stream, per_thread, &cuda_track_ops);
        XschedQueue *xq = q ? q->xq : NULL;
        if (!xq)
                return;
        /* With tracked launches in flight the bound comes first, and then the gate: a launch that the gate has let
         * through must not wait. */
        uint64_t kind = 0;
        if (wait)
                cuda_begun_look(frame);
        if (unlikely(atomic_load_explicit(&q->in_flight, memory_order_relaxed) > 0)) {
                kind = launch_kind(w->what, w->blocks);
                ret->limit = cuda_bound_limit(q, kind);
        }
        cuda_begun_counts(q, xq, frame);
        int r = !wait                                                       ? xsched_queue_begin_nowait(xq)
                        : kind != 0 && cuda_bound_is_reached(q, ret->limit) ? cuda_bound_begin(q, kind)
                                                                            : xsched_queue_begin(xq);
        if (likely(r != XSCHED_TRACKED)) {
                cuda_begun_passed(frame);
                return;
        }

        launch_track(w, q, xq, kind, frame, wait, ret);
}

void cuda_launch_begin(const CudaWork *w, CudaLaunch *ret) {
        launch_begin(w, true, ret);
}

void cuda_launch_begin_nowait(const CudaWork *w, CudaLaunch *ret) {
        launch_begin(w, false, ret);
}

/* Called under the queue's lock. */
static bool launch_count(CudaQueue *q, const CudaLaunch *l, uint64_t expected) {
        cuda_begun_ends(l->begun);
        q->seq++;
        cuda_begun_end(l->begun); /* from here on queue_mend() ends it */
        cuda_track_numbered(q, 1, expected);
        if (expected == 0)
                q->unknown_seq = q->seq;
        cuda_track_tell(q);
        if (l->timed < CUDA_TIMED && cuda_sample_end(q, l->stream, l->kind, l->timed))
                return true;
        return !cuda_mark_is_due(q, l->limit) || cuda_mark_record(q, l->stream) || !q->own_default;
}

/* After a launch, and its mark if it needs one. A program may have kernels of several kinds, so the longest one counts
 * for some rides. */
static void launch_open_ride(CudaQueue *q, uint64_t kind, uint32_t limit, uint64_t expected) {
        uint64_t longest = atomic_load_explicit(&q->ride.most_ns, memory_order_relaxed);
        bool keeps_up = atomic_load_explicit(&q->keeps_up, memory_order_relaxed);

        cuda_track_ask(q, limit > 0);
        if (q->lost)
                return;
        if (keeps_up != atomic_load_explicit(&q->keeps_up, memory_order_relaxed))
                limit = cuda_bound_limit(q, kind);
        if (q->n_rides++ % SAME_LONGEST == 0)
                longest = 0;
        longest = MAX(expected, longest);
        uint32_t room = cuda_mark_room(q, limit, expected > 0 ? longest : 0);
        if (room > 0)
                cuda_ride_open(&q->ride, room, longest);
}

/* Without a query and without a mark the end of the launch would never be known. */
static void launch_uncount(CudaQueue *q, const CudaLaunch *l, uint64_t expected) {
        q->seq--;
        atomic_fetch_sub(&q->in_flight, 1);
        cuda_track_set_flying(q, ns_sub(atomic_load(&q->flying_ns), expected));
        q->unmarked_ns = ns_sub(q->unmarked_ns, expected);
        q->unknown_seq = MIN(q->unknown_seq, q->seq);
        cuda_track_tell(q);
        xsched_queue_complete(l->xq, 1, 0);
}

/* The last one that had room was made. Without the lock, or once the service does not watch any more, the next launch
 * is one that does not ride. */
void cuda_rider_renew(CudaQueue *q, XschedQueue *xq, CudaStream stream, uint64_t kind, uint64_t expected) {
        PROTECT_ERRNO;
        if (!CUDA_TRACK_TRY_LOCK(q))
                return;
        if (q->xq == xq && !q->gone && !q->lost && q->seq > q->done_seq &&
                        xsched_queue_get_state(xq) & XSCHED_QUEUE_WATCHED) {
                uint32_t limit = cuda_bound_limit(q, kind);
                if (q->seq == q->marked_seq || !cuda_mark_is_due(q, limit) || cuda_mark_record(q, stream))
                        launch_open_ride(q, kind, limit, expected);
        }
        cuda_queue_unlock(q);
        xsched_queue_look(xq);
}

void cuda_launch_end(CudaLaunch *l, CudaResult result) {
        CudaQueue *q = TAKE_PTR(l->queue);

        if (!q)
                return;
        PROTECT_ERRNO;
        if (unlikely(!CUDA_TRACK_LOCK(q))) {
                if (cuda_begun_is_there(l->begun, l->xq)) {
                        cuda_begun_ends(l->begun);
                        xsched_queue_complete(l->xq, 1, 0);
                        cuda_begun_end(l->begun);
                }
                return;
        }
        bool is_there = cuda_begun_is_there(l->begun, l->xq);
        bool counts = is_there && result == CUDA_RESULT_SUCCESS && q->xq == l->xq && !q->gone && !q->lost;
        uint64_t expected = launch_kind_expected(&q->kinds, l->kind);
        if (counts && !launch_count(q, l, expected))
                launch_uncount(q, l, expected);
        else if (counts)
                launch_open_ride(q, l->kind, l->limit, expected);
        else if (is_there && l->timed < CUDA_TIMED && q->xq == l->xq)
                q->timed[l->timed].used = false;
        cuda_queue_unlock(q);
        if (counts)
                xsched_queue_look(l->xq);
        else if (is_there) {
                cuda_begun_ends(l->begun);
                xsched_queue_complete(l->xq, 1, 0);
                cuda_begun_end(l->begun);
        }
}
