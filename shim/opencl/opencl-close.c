/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Closing a tail
 */

#include "shim/opencl/opencl-close.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-launch.h"
#include "shim/opencl/opencl-marker.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-sentinel.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-track.h"

/* Looks in a row that rely on a wait of the application: for the queue, and for one of its events. */
#define TRUST_QUEUE  16U
#define TRUST_EVENTS 2U

/* With a lower bound, events are half of the bound apart: each launch has one. A higher one keeps its tail: without it
 * tiny launches take longer, the bound in launches becomes lower still, and so it stays. */
#define LIMIT_MIN 4U

/* Called under the lock. Whether a launch has no event, and no later event reports its end. It need not be the newest:
 * it may have been on its way when the other came. */
static bool is_open(const OpenclQueue *q) {
        return opencl_record_n(q) > 0 && q->open_seq >= q->tracked[q->head].seq && q->open_seq > q->covered_seq;
}

/* All launches with a number were submitted, so the marker comes after them. */
static void put_marker(OpenclQueue *q, uint64_t newest) {
        const OpenclTrack t = {.kind = OPENCL_TRACK_POINT, .start_ns = now_ns(), .covers = newest};
        cl_event marker = NULL;

        if (!opencl_queue_pin(q))
                return;
        if (opencl_marker_enqueue(q->handle, &marker) == CL_SUCCESS)
                (void) opencl_track(q, marker, &t);
        else
                /* Nothing can report their end any more: count them as complete, because too early is better than
                 * never. */
                opencl_harvest(q, newest);
        opencl_queue_unpin(q);
}

void opencl_tail_close(OpenclQueue *q) {
        (void) pthread_mutex_lock(&q->lock);
        uint64_t newest = q->last_seq;
        bool open = is_open(q), any = open || (opencl_record_n(q) > 0 && opencl_sentinel_seq(q) != newest);
        q->arm |= any;
        (void) pthread_mutex_unlock(&q->lock);

        if (open)
                put_marker(q, newest);
        if (any)
                opencl_harvest_some(q);
}

void opencl_tail_close_held(OpenclQueue *q) {
        if (unlikely(xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD))
                opencl_tail_close(q);
}

void opencl_tail_close_bound(OpenclQueue *q, uint32_t keep) {
        uint32_t limit = xsched_queue_limit_for(q->xq, atomic_load(&q->mean_ns));

        (void) pthread_mutex_lock(&q->lock);
        if (limit < LIMIT_MIN)
                opencl_tail_stop(q);
        bool needed = is_open(q) && atomic_load(&q->since_point) >= keep;
        (void) pthread_mutex_unlock(&q->lock);

        if (needed)
                opencl_tail_close(q);
}

void opencl_tail_end(OpenclQueue *q) {
        if (atomic_load(&q->n_tracked) == 0)
                return;
        (void) pthread_mutex_lock(&q->lock);
        opencl_tail_stop(q);
        (void) pthread_mutex_unlock(&q->lock);
        opencl_tail_close(q);
}

/* --- looking --- */

/* Called under the lock. Whether a waiting thread will report the end. */
static bool is_waited_for(OpenclQueue *q) {
        if (atomic_load(&q->app_waits) > 0 || atomic_load(&q->bound_waiters) > 0)
                return ++q->n_trusted % TRUST_QUEUE != 0;
        /* A wait for an event reports only launches that have one. */
        if (atomic_load(&q->event_waits) > 0 && !is_open(q))
                return ++q->n_trusted % TRUST_EVENTS != 0;
        q->n_trusted = 0;
        return false;
}

typedef enum Look {
        LOOK_NOTHING, /* nothing is in flight, or its end will be reported */
        LOOK_AGAIN,
        LOOK_CLOSE,
        LOOK_HARVEST, /* a harvester has left the work to the control thread */
        LOOK_POLL,    /* a launch is polled for */
} Look;

/* Under the lock. */
static Look look(OpenclQueue *q) {
        if (opencl_record_n(q) == 0)
                return LOOK_NOTHING;
        if (q->again && !q->harvesting)
                return LOOK_HARVEST;
        if (q->idle)
                return LOOK_NOTHING;
        if (opencl_sentinel_seq(q) != 0)
                return is_waited_for(q) ? LOOK_AGAIN : LOOK_POLL;

        bool held = xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;
        bool rests = ns_sub(now_ns(), q->newest_ns) >= OPENCL_TAIL_REST_NS;
        if (!held && !rests)
                return LOOK_AGAIN;
        if (is_waited_for(q))
                return LOOK_AGAIN;
        if (!held && atomic_load(&q->app_waits) == 0 && atomic_load(&q->bound_waiters) == 0)
                opencl_tail_note_rest(q);
        return LOOK_CLOSE;
}

static void look_do(OpenclQueue *q, Look l) {
        switch (l) {
        case LOOK_NOTHING:
                break;
        case LOOK_AGAIN:
                xsched_queue_look(q->xq);
                break;
        case LOOK_CLOSE:
                opencl_tail_close(q);
                break;
        case LOOK_POLL:
                opencl_harvest(q, 0);
                opencl_sentinel_poll_again(q);
                break;
        case LOOK_HARVEST:
                opencl_harvest(q, 0);
                break;
        }
}

void opencl_tail_look(XschedQueue *xq, void *userdata) {
        PROTECT_ERRNO;
        OpenclQueue *q = userdata;

        if (!opencl_own_begin())
                return;
        /* The tail of a released queue is closed already. */
        if (opencl_queue_pin(q)) {
                Look l = LOOK_NOTHING;
                if (q->xq == xq) {
                        opencl_drain_wanted(q);
                        (void) pthread_mutex_lock(&q->lock);
                        l = look(q);
                        (void) pthread_mutex_unlock(&q->lock);
                }
                look_do(q, l);
                opencl_queue_unpin(q);
        }
        opencl_own_end();
}
