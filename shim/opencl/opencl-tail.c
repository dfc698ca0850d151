/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tail: see opencl-tail.h
 */

#include "shim/opencl/opencl-tail.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-limit.h"
#include "shim/opencl/opencl-time.h"

#define TOLD_MIN      4U                    /* ends that waits have to report before a queue has a tail */
#define MANY          256U                  /* with so many launches, fewer reported ends are enough */
#define POINT_NS      (100 * NSEC_PER_USEC) /* time between two events, for launches that are known to be short */
#define POINT_LATE_NS (2 * POINT_NS)        /* the same where ends are noticed late */
#define EVERY_MAX     64U                   /* launches between two events at most */
#define TINY_NS       (10 * NSEC_PER_USEC)  /* the host needs about as long for a launch and an eighth of an event */
#define PAUSE_NS      (1 * NSEC_PER_MSEC)   /* a pause of this length is no chance */
#define GAP_NS        TINY_NS               /* pauses between launches that are not the application's, on average */
#define LONG_NS       (500 * NSEC_PER_USEC) /* a longer launch may have an event: its cost does not matter */

static bool is_on(OpenclQueue *q) {
        return atomic_load_explicit(&q->tail, memory_order_relaxed) &&
                        atomic_load_explicit(&q->in_order, memory_order_relaxed) &&
                        !atomic_load_explicit(&q->multi_threaded, memory_order_relaxed) &&
                        atomic_load_explicit(&q->mean_ns, memory_order_relaxed) < LONG_NS;
}

/* How far apart launches with events are, in launches: half of the bound at most, or, where ends are noticed at once, a
 * quarter where that is many.
 *
 * Where ends are noticed late, only launches that the device finishes about as fast as the host submits them are so far
 * apart: longer ones hide what an event costs, and teach by it how long they take. The question about an event costs
 * such a launch more than the event, because the driver then sends on what it has gathered. It is put when the bound is
 * reached; with two thirds of the bound between events, there is one to ask about, and it is old enough to be complete.
 */
static uint32_t plan(OpenclQueue *q, uint64_t kind) {
        uint32_t threshold = xsched_queue_limit_for(q->xq, 0), limit = opencl_limit(q, kind),
                 few = limit == 0 ? OPENCL_TAIL_EVERY : CLAMP(limit / 2, 1U, OPENCL_TAIL_EVERY), many = few;
        uint64_t each = opencl_time_expected(q, kind) ?: atomic_load_explicit(&q->mean_ns, memory_order_relaxed);
        if (each != 0 && (q->callbacks_prompt || each < TINY_NS))
                many = (uint32_t) MIN((q->callbacks_prompt ? POINT_NS : POINT_LATE_NS) / each, (uint64_t) EVERY_MAX);
        if (limit != 0)
                many = MIN(many, q->callbacks_prompt ? limit / 4 : limit * 2 / 3);

        atomic_store_explicit(&q->plan_kind, kind, memory_order_relaxed);
        atomic_store_explicit(&q->plan_threshold, threshold, memory_order_relaxed);
        atomic_store_explicit(&q->plan_limit, limit ?: UINT32_MAX, memory_order_relaxed);
        atomic_store_explicit(&q->plan_every, MAX(few, many), memory_order_relaxed);
        return MAX(few, many);
}

/* Whether the launch is between two events, by the plan made at the first. */
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

static void count_anew(OpenclQueue *q) {
        q->told_seq = q->last_seq;
        q->paused_ns = 0;
}

static void note_told(OpenclQueue *q, uint64_t n) {
        q->n_told = (uint32_t) MIN(q->n_told + n + (q->last_seq - q->told_seq) / MANY, (uint64_t) TOLD_MIN);
        count_anew(q);
        if (q->n_told == TOLD_MIN && !atomic_load_explicit(&q->tail, memory_order_relaxed))
                atomic_store(&q->tail, true);
}

/* Without a tail a launch may cost the host more than it costs the device, so that the queue is empty after each: then
 * it is not the application that lets it rest. */
void opencl_tail_note_busy(OpenclQueue *q) {
        uint64_t n = q->last_seq - q->told_seq;

        if (n < (uint64_t) MANY * TOLD_MIN)
                return;
        if (q->paused_ns / n < GAP_NS)
                note_told(q, 0);
        else
                count_anew(q);
}

void opencl_tail_note_idle(OpenclQueue *q, bool told) {
        bool held = xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;

        q->untold_ns = told || held ? 0 : now_ns();
        if (told)
                note_told(q, 1);
        else
                opencl_tail_note_busy(q);
}

/* Called under the lock. The queue was idle, and no wait would have reported it. Once may be chance (a thread that lost
 * its CPU), so the tail ends the second time. */
void opencl_tail_note_rest(OpenclQueue *q) {
        q->n_told -= MIN(q->n_told, TOLD_MIN / 2);
        count_anew(q);
        if (q->n_told == 0)
                atomic_store(&q->tail, false);
}

/* A launch that waited at the gate says nothing about the application: it came earlier. */
void opencl_tail_note_begin(OpenclQueue *q, uint64_t now) {
        uint64_t pause = q->untold_ns != 0 && !atomic_load(&q->was_held) ? ns_sub(now, q->untold_ns) : 0;

        q->untold_ns = 0;
        if (pause >= PAUSE_NS)
                opencl_tail_note_rest(q);
        else
                q->paused_ns += pause;
}

/* Called under the lock. From here on launches have events and sentinels. */
void opencl_tail_stop(OpenclQueue *q) {
        atomic_store(&q->tail, false);
        q->n_told = 0;
        count_anew(q);
}
