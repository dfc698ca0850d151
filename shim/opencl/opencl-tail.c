/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tail: see opencl-tail.h
 */

#include "shim/opencl/opencl-tail.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-bound.h"
#include "shim/opencl/opencl-event.h"
#include "shim/opencl/opencl-marker.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-record.h"
#include "shim/opencl/opencl-time.h"
#include "shim/opencl/opencl-track.h"

#define TOLD_MIN  4U                    /* ends that waits have told, before there is a tail */
#define MANY      256U                  /* launches, whose end says as much as another one */
#define POINT_NS  (100 * NSEC_PER_USEC) /* launches that are known to be short have an event so far apart; */
#define EVERY_MAX 64U                   /* so many at most */
#define PAUSE_NS  (1 * NSEC_PER_MSEC)   /* without launches, that is not chance */
#define LONG_NS   (500 * NSEC_PER_USEC) /* beside a launch that is longer an event costs nothing */

/* Looks that leave it to a wait: for the queue; and for one of its events. */
#define TRUST_QUEUE  16U
#define TRUST_EVENTS 2U

void opencl_tail_reset(OpenclQueue *q) {
        atomic_store(&q->tail, false);
        atomic_store(&q->since_point, 0);
        atomic_store(&q->app_waits, 0);
        atomic_store(&q->event_waits, 0);
        atomic_store(&q->plan_every, 0);
        q->open_seq = q->covered_seq = 0;
        q->arm = false;
        q->n_told = q->n_trusted = 0;
        q->untold_ns = 0;
        q->told_seq = q->last_seq;
        q->newest_ns = 0;
}

/* --- which launches --- */

static bool is_on(OpenclQueue *q) {
        return atomic_load_explicit(&q->tail, memory_order_relaxed) &&
                        atomic_load_explicit(&q->in_order, memory_order_relaxed) &&
                        !atomic_load_explicit(&q->multi_threaded, memory_order_relaxed) &&
                        atomic_load_explicit(&q->mean_ns, memory_order_relaxed) < LONG_NS;
}

/* How far apart launches with events are, in launches: half of the bound at most, or a quarter where that is many.
 * Where ends are noticed late, how long launches take is learned from those events, and they are no farther apart. */
static uint32_t plan(OpenclQueue *q, uint64_t kind) {
        uint32_t threshold = xsched_queue_limit_for(q->xq, 0), limit = opencl_bound_limit(q, kind),
                 few = limit == 0 ? OPENCL_TAIL_EVERY : CLAMP(limit / 2, 1U, OPENCL_TAIL_EVERY);
        uint64_t each = opencl_time_expected(q, kind)
                        ?: atomic_load_explicit(&q->mean_ns, memory_order_relaxed);
        uint32_t many = each == 0 || !q->callbacks_prompt
                        ? few
                        : (uint32_t) MIN(POINT_NS / each, (uint64_t) EVERY_MAX);
        if (limit != 0)
                many = MIN(many, limit / 4);

        atomic_store_explicit(&q->plan_kind, kind, memory_order_relaxed);
        atomic_store_explicit(&q->plan_threshold, threshold, memory_order_relaxed);
        atomic_store_explicit(&q->plan_limit, limit ?: UINT32_MAX, memory_order_relaxed);
        atomic_store_explicit(&q->plan_every, MAX(few, many), memory_order_relaxed);
        return MAX(few, many);
}

/* Between two events, as it was worked out behind the first. */
static bool is_between(const OpenclQueue *q, uint64_t kind) {
        uint32_t since = atomic_load_explicit(&q->since_point, memory_order_relaxed);

        return since > 0 && since + 1 < atomic_load_explicit(&q->plan_every, memory_order_relaxed) &&
                        atomic_load_explicit(&q->plan_kind, memory_order_relaxed) == kind;
}

bool opencl_tail_goes_on(OpenclQueue *q, uint64_t kind) {
        return is_between(q, kind) && is_on(q) &&
                        atomic_load_explicit(&q->n_tracked, memory_order_relaxed) <
                        atomic_load_explicit(&q->plan_limit, memory_order_relaxed) &&
                        xsched_queue_limit_for(q->xq, 0) ==
                        atomic_load_explicit(&q->plan_threshold, memory_order_relaxed) &&
                        !(xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD);
}

bool opencl_tail_takes(OpenclQueue *q, uint64_t kind) {
        if (!is_on(q) || opencl_time_is_due(q, kind))
                return false;
        if (atomic_load_explicit(&q->n_tracked, memory_order_relaxed) == 0 || is_between(q, kind))
                return true;
        uint32_t every = plan(q, kind);
        return atomic_load_explicit(&q->since_point, memory_order_relaxed) + 1 < every;
}

uint32_t opencl_tail_every(const OpenclQueue *q) {
        if (!atomic_load_explicit(&q->tail, memory_order_relaxed))
                return 1;
        return atomic_load_explicit(&q->plan_every, memory_order_relaxed) ?: OPENCL_TAIL_EVERY;
}

static void note_told(OpenclQueue *q, uint64_t n) {
        q->n_told = (uint32_t) MIN(q->n_told + n + (q->last_seq - q->told_seq) / MANY, (uint64_t) TOLD_MIN);
        q->told_seq = q->last_seq;
        if (q->n_told == TOLD_MIN && !atomic_load_explicit(&q->tail, memory_order_relaxed))
                atomic_store(&q->tail, true);
}

void opencl_tail_note_idle(OpenclQueue *q, bool told) {
        bool held = xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;

        q->untold_ns = told || held ? 0 : now_ns();
        if (told)
                note_told(q, 1);
}

void opencl_tail_note_busy(OpenclQueue *q) {
        if (q->last_seq - q->told_seq >= (uint64_t) MANY * TOLD_MIN)
                note_told(q, 0);
}

/* Under the lock. It was at rest, and nobody would have told: once that is chance (a thread that has lost its CPU), not
 * twice. */
static void note_rest(OpenclQueue *q) {
        q->n_told -= MIN(q->n_told, TOLD_MIN / 2);
        q->told_seq = q->last_seq;
        if (q->n_told == 0)
                atomic_store(&q->tail, false);
}

void opencl_tail_note_begin(OpenclQueue *q, uint64_t now) {
        if (q->untold_ns != 0 && ns_sub(now, q->untold_ns) >= PAUSE_NS)
                note_rest(q);
        q->untold_ns = 0;
}

/* Under the lock. Its launches have events, and sentinels, from now on. */
static void end_tail(OpenclQueue *q) {
        atomic_store(&q->tail, false);
        q->n_told = 0;
        q->told_seq = q->last_seq;
}

/* --- closing it --- */

/* Under the lock. Some launch has no event, and no other's event tells of it: that need not be the newest, which may
 * have been on its way when the other came. */
static bool is_open(const OpenclQueue *q) {
        return opencl_record_n(q) > 0 && q->open_seq >= q->tracked[q->head].seq &&
                        q->open_seq > q->covered_seq;
}

/* All that has a number has been submitted, so the marker comes behind it. */
static void put_marker(OpenclQueue *q, uint64_t newest) {
        const OpenclTrack t = {.kind = OPENCL_TRACK_POINT, .start_ns = now_ns(), .covers = newest};
        cl_event marker = NULL;

        if (!opencl_queue_pin(q))
                return;
        if (opencl_marker_enqueue(q->handle, &marker) == CL_SUCCESS)
                (void) opencl_track(q, marker, &t);
        else
                /* Nothing can tell us any more: better idle too early than busy for ever. */
                opencl_harvest(q, newest);
        opencl_queue_unpin(q);
}

void opencl_tail_close(OpenclQueue *q) {
        (void) pthread_mutex_lock(&q->lock);
        uint64_t newest = q->last_seq;
        bool open = is_open(q),
             any = open || (opencl_record_n(q) > 0 && !(q->idle && q->idle->seq == newest));
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
        if (limit < 2 * OPENCL_TAIL_EVERY)
                end_tail(q);
        bool needed = is_open(q) && atomic_load(&q->since_point) >= keep;
        (void) pthread_mutex_unlock(&q->lock);

        if (needed)
                opencl_tail_close(q);
}

void opencl_tail_end(OpenclQueue *q) {
        if (atomic_load(&q->n_tracked) == 0)
                return;
        (void) pthread_mutex_lock(&q->lock);
        end_tail(q);
        (void) pthread_mutex_unlock(&q->lock);
        opencl_tail_close(q);
}

/* --- waits of the application --- */

#define EVENT_WAITS 4U

/* This thread's outermost wait: for the queues of the last few events, each with a reference. Not in the wait's own
 * frame, which a jump out of it would lose. */
static __thread struct {
        const OpenclEventWait *wait; /* NULL: there is none */
        OpenclQueue *queues[EVENT_WAITS];
        uint32_t n;
} waiting __attribute__((tls_model("initial-exec")));

static void waiting_end(void) {
        waiting.wait = NULL;
        while (waiting.n > 0) {
                OpenclQueue *q = waiting.queues[--waiting.n];
                atomic_fetch_sub(&q->event_waits, 1);
                opencl_queue_unref(q);
        }
}

/* The handles are good here: who waits has them. */
void opencl_event_wait_begin(OpenclEventWait *w, cl_uint n, const cl_event *events) {
        /* Stacks grow down: a frame that is no further up than ours is gone, and nobody has left that wait. */
        if ((uintptr_t) waiting.wait <= (uintptr_t) w)
                waiting_end();
        if (waiting.wait)
                return;
        waiting.wait = w;
        for (cl_uint i = n; i > 0 && events && waiting.n < EVENT_WAITS; i--) {
                OpenclQueue *q = opencl_queue_get(opencl_event_queue(events[i - 1]));
                if (!q)
                        continue;
                atomic_fetch_add(&q->event_waits, 1);
                waiting.queues[waiting.n++] = q;
        }
}

void opencl_event_wait_leave(OpenclEventWait *w) {
        if (waiting.wait == w)
                waiting_end();
}

/* --- looking --- */

/* Under the lock. Whether somebody will tell. */
static bool is_waited_for(OpenclQueue *q) {
        if (atomic_load(&q->app_waits) > 0 || atomic_load(&q->bound_waiters) > 0)
                return ++q->n_trusted % TRUST_QUEUE != 0;
        /* By its event: not for what has none. */
        if (atomic_load(&q->event_waits) > 0 && !is_open(q))
                return ++q->n_trusted % TRUST_EVENTS != 0;
        q->n_trusted = 0;
        return false;
}

typedef enum Look {
        LOOK_NOTHING, /* there is nothing in flight, or its end will be heard of */
        LOOK_AGAIN,
        LOOK_CLOSE,
        LOOK_HARVEST, /* a harvester has left it to us */
} Look;

/* Under the lock. */
static Look look(OpenclQueue *q) {
        if (opencl_record_n(q) == 0)
                return LOOK_NOTHING;
        if (q->again && !q->harvesting)
                return LOOK_HARVEST;
        if (q->idle)
                return LOOK_NOTHING;

        bool held = xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;
        bool rests = ns_sub(now_ns(), q->newest_ns) >= OPENCL_TAIL_REST_NS;
        if (!held && !rests)
                return LOOK_AGAIN;
        if (is_waited_for(q))
                return LOOK_AGAIN;
        if (!held && atomic_load(&q->app_waits) == 0 && atomic_load(&q->bound_waiters) == 0)
                note_rest(q);
        return LOOK_CLOSE;
}

void opencl_tail_look(XschedQueue *xq, void *userdata) {
        PROTECT_ERRNO;
        OpenclQueue *q = userdata;

        if (!opencl_own_begin())
                return;
        /* Of a released queue the tail is closed already. */
        if (opencl_queue_pin(q)) {
                Look l = LOOK_NOTHING;
                if (q->xq == xq) {
                        (void) pthread_mutex_lock(&q->lock);
                        l = look(q);
                        (void) pthread_mutex_unlock(&q->lock);
                }
                if (l == LOOK_HARVEST)
                        opencl_harvest(q, 0);
                else if (l == LOOK_CLOSE)
                        opencl_tail_close(q);
                else if (l == LOOK_AGAIN)
                        xsched_queue_look(xq);
                opencl_queue_unpin(q);
        }
        opencl_own_end();
}
