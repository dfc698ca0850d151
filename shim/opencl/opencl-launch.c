/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches: what happens around the native call, and which launches are safe to wait for
 *
 * Waiting for a launch deadlocks when it needs something that the waiting thread would have to do. A launch is safe
 * when nothing that it waits for is in that case: each event in its wait list is complete, or a safe launch of a queue
 * of ours (which we flush); and, on an in-order queue, when the same holds for all before it. User events, events of
 * unknown queues, native kernels and what passed the gate with a wait list while the queue was not watched are unsafe.
 * `unsafe_seq` carries this along an in-order queue, and behind barriers along others: what comes later is unsafe until
 * one launch with that number or higher has completed, which proves that the obstacle is gone.
 */

#include "shim/opencl/opencl-launch.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-event.h"
#include "shim/opencl/opencl-marker.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-track.h"

/* --- safe and unsafe --- */

static bool wait_is_safe(OpenclQueue *q, cl_event event) {
        if (opencl_event_status(event) != OPENCL_EVENT_PENDING)
                return true;

        _cleanup_(opencl_queue_unrefp)
        OpenclQueue *other = opencl_queue_get(opencl_event_queue(event));
        if (!other)
                return false; /* a user event, or a queue that we do not track */
        if (other == q && atomic_load(&q->in_order))
                return true; /* an in-order queue waits for that anyway */

        OpenclTracked t = {};
        if (other != q && other->priority_hint < 0)
                xsched_queue_boost(other->xq);
        if (!opencl_record_find(other, event, &t) || !t.safe)
                return false;
        if (other != q && opencl_queue_pin(other)) {
                (void) opencl_next.clFlush(other->handle);
                opencl_queue_unpin(other);
        }
        return true;
}

static bool waits_are_safe(OpenclQueue *q, cl_uint n_waits, const cl_event *waits) {
        bool safe = true;
        for (cl_uint i = 0; i < n_waits && waits; i++)
                safe &= wait_is_safe(q, waits[i]);
        return safe;
}

void opencl_observe(OpenclQueue *q, OpenclObserve what, cl_uint n_waits, const cl_event *waits) {
        PROTECT_ERRNO;
        if (!atomic_load_explicit(&q->in_order, memory_order_relaxed)) {
                /* A barrier may wait for events that we have not seen. */
                if (what == OPENCL_OBSERVE_BARRIER)
                        opencl_note_waits(q);
                return;
        }
        if (what == OPENCL_OBSERVE_HOST ||
                        (n_waits > 0 && (atomic_load(&q->n_tracked) == 0 || !waits_are_safe(q, n_waits, waits))))
                opencl_note_waits(q);
}

/* --- launches --- */

static void note_other(OpenclQueue *q, const void *expected) {
        const void *who = atomic_load_explicit(&q->submits, memory_order_relaxed);

        if (unlikely(who != expected && who != &opencl_thread))
                atomic_store(&q->multi_threaded, true);
}

/* When two threads launch at once, at least one finds the other's mark, or its own mark gone. A thread that has jumped
 * out of a launch finds its own mark. */
static void begin_submit(OpenclQueue *q) {
        note_other(q, NULL);
        atomic_store_explicit(&q->submits, &opencl_thread, memory_order_relaxed);
}

static void end_submit(OpenclQueue *q) {
        note_other(q, &opencl_thread);
        atomic_store_explicit(&q->submits, NULL, memory_order_relaxed);
}

void opencl_launch_start(OpenclQueue *q, cl_event *event, uint64_t kind, cl_uint n_waits, OpenclLaunch *ret) {
        /* Two threads launch at once, so the runtime's order may differ from ours. A blocking call does not count: it
         * is one launch among many of the other thread's, `covers` is right all the same, and its end is noticed
         * later. */
        if (unlikely(atomic_load_explicit(&q->n_drains, memory_order_relaxed) > 0))
                opencl_drain_wanted(q);
        if (!ret->blocking)
                begin_submit(q);
        ret->queue = q;
        ret->kind = kind;
        ret->start_ns = now_ns();
        ret->own = NULL;
        ret->covers = 0;
        if (!event && n_waits == 0 && opencl_tail_takes(q, kind)) {
                ret->event = NULL;
                return;
        }
        ret->event = event ?: &ret->own;
        if (atomic_load_explicit(&q->in_order, memory_order_relaxed))
                ret->covers = opencl_record_last(q);
}

void opencl_launch_end(OpenclLaunch *l, bool failed, cl_uint n_waits, const cl_event *waits) {
        PROTECT_ERRNO;
        OpenclQueue *q = l->queue;
        cl_event event = failed || !l->event ? NULL : *l->event;
        bool tracked = false, stamps = false;

        /* The application releases its own event, so we retain it; an event that we asked for is ours already. */
        if (event && l->event != &l->own)
                (void) opencl_next.clRetainEvent(event);
        if (event)
                stamps = opencl_time_submitted(q, event, l->kind);
        else
                opencl_time_skipped(q);
        if (event || (!failed && !l->event)) {
                bool safe = waits_are_safe(q, n_waits, waits);
                const OpenclTrack t = {
                                .kind = safe ? OPENCL_TRACK_SAFE : OPENCL_TRACK_UNSAFE,
                                .what = l->kind,
                                .start_ns = l->start_ns,
                                .stamps = stamps,
                                .covers = l->covers,
                };
                tracked = opencl_track(q, event, &t);
        }
        if (!l->blocking)
                end_submit(q);
        if (!tracked)
                xsched_queue_complete(q->xq, 1, 0);
}

void opencl_blocking_start(OpenclQueue *q, OpenclWait *w) {
        opencl_before_wait(q, w);
}

/* A read out of order waits for no other launch. */
void opencl_blocking_end(OpenclWait *w, OpenclQueue *q, bool failed) {
        bool tells = !failed && atomic_load_explicit(&q->in_order, memory_order_relaxed);
        xsched_queue_complete(q->xq, 1, 0);
        opencl_after_wait(q, w, tells);
}

/* --- the drain --- */

static void drain(OpenclQueue *q, XschedQueue *xq) {
        cl_event marker = NULL;
        const OpenclTrack t = {
                        .kind = OPENCL_TRACK_DRAIN,
                        .start_ns = now_ns(),
                        .covers = opencl_record_last(q),
        };

        if (!opencl_own_begin()) {
                xsched_queue_drained(xq);
                return;
        }
        bool pinned = opencl_queue_pin(q);
        /* Where no marker can report the end, count it as ended now: too early is better than never. If the queue is
         * released, the service is told of its removal at the same time. */
        if (!pinned || q->xq != xq || opencl_marker_enqueue(q->handle, &marker) != CL_SUCCESS ||
                        !opencl_track(q, marker, &t))
                xsched_queue_drained(xq);
        if (pinned)
                opencl_queue_unpin(q);
        opencl_own_end();
}

void opencl_drain_wanted(OpenclQueue *q) {
        PROTECT_ERRNO;

        for (uint32_t n = atomic_exchange(&q->n_drains, 0); n > 0; n--)
                drain(q, q->xq);
}

/* Leaves the drain to the next launch, or to a look. Returns false where none will come: the queue is gone, or calls
 * into the runtime have ended. They end before all queues are forgotten, so what is left here is found there. */
static bool drain_later(OpenclQueue *q, XschedQueue *xq) {
        if (!opencl_own_begin())
                return false;
        bool pinned = opencl_queue_pin(q), left = pinned && q->xq == xq;
        if (left) {
                (void) pthread_mutex_lock(&q->lock);
                left = !q->forgotten; /* the wait for the end of calls into the runtime is limited */
                atomic_fetch_add(&q->n_drains, left);
                (void) pthread_mutex_unlock(&q->lock);
        }
        if (left)
                xsched_queue_look(xq);
        if (pinned)
                opencl_queue_unpin(q);
        opencl_own_end();
        return left;
}

void opencl_drain(XschedQueue *xq, void *userdata) {
        PROTECT_ERRNO;
        OpenclQueue *q = userdata;

        if (!q->callbacks_spin)
                drain(q, xq);
        else if (!drain_later(q, xq))
                xsched_queue_drained(xq);
}
