/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Edges
 */

#include "edges.h"
#include "arbiter.h"
#include "client.h"
#include "crowd.h"
#include "decision.h"
#include "gang.h"
#include "hooked.h"
#include "overlaps.h"
#include "quick.h"
#include "resolve.h"
#include "stall.h"
#include "suspended.h"
#include "tail.h"
#include "usage.h"

typedef struct Stamps {
        uint64_t ready, launched, drained;
} Stamps;

static Stamps read_stamps(const Queue *q) {
        return (Stamps){
                        .ready = atomic_load_explicit(&q->page_slot->ready_since_ns, memory_order_relaxed),
                        .launched = atomic_load_explicit(&q->page_slot->launched_ns, memory_order_relaxed),
                        .drained = atomic_load_explicit(&q->page_slot->drained_ns, memory_order_relaxed),
        };
}

/* The queue's total time with launches in flight, by the client's own count. A client tells that a launch has come
 * before it stamps that launch: until then the stamp is that of an earlier one, which has ended. */
static uint64_t flight_until(const Queue *q, const Stamps *s, uint64_t now) {
        uint64_t total = atomic_load_explicit(&q->page_slot->busy_ns, memory_order_relaxed);

        if (page_slot_read_in_flight(q->page_slot) > 0 && s->launched > 0 && s->launched >= s->drained)
                total += ns_sub(now, s->launched);
        return total;
}

/* Time with launches in flight since the mark, at most the time since then. Sets a new mark. */
static uint64_t take_flight(Queue *q, const Stamps *s, uint64_t now) {
        uint64_t total = flight_until(q, s, now), ns = ns_sub(total, q->flight_ns), most = ns_sub(now, q->mark_ns);

        q->flight_ns = total;
        q->mark_ns = now;
        return MIN(ns, most);
}

void edge_mark(Queue *q, uint64_t now) {
        const Stamps s = read_stamps(q);

        q->given_ns = 0;
        (void) take_flight(q, &s, now);
}

/* Notes time that the policy has counted since the verdict run while the queue had nothing in flight: the hand-over.
 * `told`: where the queue was idle in between, the policy is told that (look_between()). */
static void note_handover(Queue *q, const Stamps *s, bool ready, bool told, uint64_t now) {
        Entity *e = q->entity;
        uint64_t given = q->given_ns;

        if (s->launched <= given && ready)
                return; /* the hand-over goes on: the queue may still launch */
        q->given_ns = 0;
        /* The counted time includes other queues of the entity, and this queue's flight does not: leave out hand-overs
         * in which another queue woke. */
        if (!e || e->n_wakes != q->given_wakes || s->launched <= given || s->launched > now ||
                        (told && s->ready > given))
                return;

        /* For idle time after the last launch the policy is told separately. */
        uint64_t until = ready ? now : edge_time(q, s->drained, now);
        uint64_t flight = ns_sub(flight_until(q, s, now), q->given_flight_ns);
        uint64_t counted = ns_sub(entity_counted(e, now), q->given_counted_ns), late = now - until;
        uint64_t gaps = ns_sub(ns_sub(counted, late), flight),
                 most = MIN(ns_sub(ns_sub(until, given), flight), EDGE_GAP_MAX);

        gaps = MIN(gaps, most);
        e->handover_ns += gaps;
        /* With a concurrency above 1 another entity may have run at the same time. */
        if (e->device->config.concurrency == 1)
                e->device->handover_ns += gaps;
}

void edge_verdict(Queue *q, bool run, uint64_t now) {
        const Stamps s = read_stamps(q);

        if (q->given_ns != 0)
                note_handover(q, &s, q->ready, false, now);
        (void) take_flight(q, &s, now);
        q->given_ns = 0;
        if (!run || !q->ready || !q->entity || page_slot_read_in_flight(q->page_slot) > 0)
                return;
        q->given_ns = now;
        q->given_wakes = q->entity->n_ready == (unsigned) q->counted_ready ? q->entity->n_wakes : UINT64_MAX;
        q->given_counted_ns = entity_counted(q->entity, now);
        q->given_flight_ns = q->flight_ns;
}

uint64_t edge_time(const Queue *q, uint64_t stamp, uint64_t now) {
        uint64_t earliest = q->seen_ns;

        if (q->device->state != DEVICE_ALONE)
                earliest = MAX(earliest, ns_sub(now, EDGE_LATE_MAX));

        return stamp == 0 ? now : CLAMP(stamp, MIN(earliest, now), now);
}

static void queue_look_boost(Queue *q, bool ready) {
        bool boosted = ready && atomic_load_explicit(&q->page_slot->boost, memory_order_relaxed) != 0;

        if (boosted == q->boosted)
                return;
        q->boosted = boosted;
        queue_boost_changed(q);
}

static void tell_idle(const Queue *q, uint64_t from, uint64_t until, uint64_t now) {
        overlaps_look(q->device, edge_time(q, from, now));
        q->device->ops->entity_idle(q->entity->policy, edge_time(q, from, now));
        q->device->ops->entity_ready(q->entity->policy, edge_time(q, until, now));
}

static void tell_run(const Queue *q, uint64_t from, uint64_t until, uint64_t now) {
        overlaps_look(q->device, edge_time(q, from, now));
        q->device->ops->entity_ready(q->entity->policy, edge_time(q, from, now));
        q->device->ops->entity_idle(q->entity->policy, edge_time(q, until, now));
}

static bool is_by_itself(const Queue *q) {
        return q->entity->n_queues == 1 || (q->quick.is && q->entity->n_ready == (unsigned) q->counted_ready);
}

/* Called when the queue has drained since the mark. Tells the policy how long the queue ran between the mark and the
 * state that is told next, if it was idle and ready again in between. Its last run is told at the time when it was, and
 * the pauses before it as one pause. */
static void look_between(Queue *q, const Stamps *s, bool ready, uint64_t mark, uint64_t flight, uint64_t now) {
        const Entity *e = q->entity;
        uint64_t end = ready ? s->launched : s->drained;
        /* A quick queue became ready without an edge or a stamp. */
        uint64_t began = q->quick.is && q->ready ? MAX(s->ready, s->launched) : s->ready;

        if (!e || !e->policy || !is_by_itself(q) || queue_holds(q) || e->told_ready != q->ready || began <= mark ||
                        s->launched < began || end > now || ready != (s->launched > s->drained))
                return;

        uint64_t ran = ready ? ns_sub(flight, now - end) : flight, idle = ns_sub(end - mark, ran);

        if (q->ready && ready)
                tell_idle(q, end - idle, end, now);
        else if (q->ready) {
                uint64_t last = MIN(ran, ns_sub(end, s->launched));

                tell_idle(q, end - last - idle, end - last, now);
        } else {
                uint64_t gap = ready ? ns_sub(end, s->drained) : 0;

                gap = MIN(gap, idle);
                tell_run(q, end - gap - ran, end - gap, now);
        }
        device_touch(q->device);
}

static bool is_unwatched(const Queue *q) {
        return queue_slot(q)->watch == 0 && q->device->state != DEVICE_SOLE;
}

/* When the queue became ready. Where its last launch has ended and no other is stamped, the stamp may be that of an
 * earlier time: it says little then. */
static uint64_t ready_time(const Queue *q, const Stamps *s, uint64_t now) {
        bool is_old = s->ready > 0 && s->ready < s->drained && s->launched <= s->drained;

        return edge_time(q, is_old ? MAX(s->ready, ns_sub(now, EDGE_LATE_MAX)) : s->ready, now);
}

static void look(Queue *q) {
        uint32_t outstanding = atomic_load_explicit(&q->page_slot->outstanding, memory_order_seq_cst);
        const Stamps s = read_stamps(q);
        uint64_t now = now_ns(), at = edge_time(q, s.drained, now), mark = q->mark_ns;
        uint64_t flight = take_flight(q, &s, now);
        bool ready = outstanding != 0;

        (void) queue_look_hooked(q);
        if (q->stalled)
                stall_end(q);
        if (q->given_ns != 0)
                note_handover(q, &s, ready, true, now);
        if (s.drained > mark && (s.ready > mark || q->quick.is))
                look_between(q, &s, ready, mark, flight, now);
        if (ready && !q->ready) {
                at = ready_time(q, &s, now);
                decision_note_edge(q, s.ready, now);
        }
        if (ready != q->ready)
                arbiter_queue_ready(q, ready, at);
        if (q->tail)
                tail_look(q, edge_time(q, s.drained, now));
        q->seen_ns = now;
}

static void find(Queue *q) {
        if (!is_unwatched(q))
                look(q);
}

void edge_look(Queue *q) {
        if (is_unwatched(q))
                return; /* begin_to_watch() looks at it */
        if (q->own || q->boosted)
                queue_look_boost(q, atomic_load_explicit(&q->page_slot->outstanding, memory_order_seq_cst) != 0);
        look(q);
}

/* --- which of them a slot tells --- */

static uint32_t wanted_watch(const Queue *q) {
        const Entity *e = q->entity;

        /* Waits of a suspended queue count as well. */
        if (queue_is_suspended(q))
                return PAGE_WATCH_ALL;
        if (!e || !e->policy || !q->counted_active)
                return 0;
        if (gang_is_held(e))
                return PAGE_WATCH_ALL; /* on a device that it has alone, too: the other members hang on its tail */
        switch (e->device->state) {
        case DEVICE_ALONE:
                return account_watches(&e->device->account) ? PAGE_WATCH_READY | PAGE_WATCH_IDLE : 0;
        case DEVICE_SOLE:
                if (e->told_ready && !arbiter_holds(e) && e->grant.verdict == VERDICT_RUN && e->grant.threshold == 0 &&
                                !account_watches(&e->device->account))
                        return 0;
                return PAGE_WATCH_ALL;
        case DEVICE_CONTENDED:
                /* A queue that has just been let go is watched for its first launch (edges.h). */
                if (!q->quick.is || queue_holds(q) || q->given_ns != 0 || arbiter_holds(e) || !quick_takes(q))
                        return PAGE_WATCH_ALL;
                return q->ready ? PAGE_WATCH_COUNTED : PAGE_WATCH_READY;
        default:
                return PAGE_WATCH_ALL;
        }
}

static void write_watch(Queue *q, uint32_t watch) {
        queue_slot(q)->watch = watch;
        uint32_t outstanding = page_slot_set_watch(q->page_slot, watch);
        if (watch == PAGE_WATCH_COUNTED)
                quick_begin(q);
        else
                quick_end(q);
        if (watch != 0 && outstanding & PAGE_OUTSTANDING_UNTRACKED)
                client_notify(q->client);
}

/* Looks at a queue that was not watched so far: its state is not known. */
static void begin_to_watch(Queue *q) {
        uint32_t outstanding = atomic_load_explicit(&q->page_slot->outstanding, memory_order_seq_cst);

        q->seen_ns = now_ns();
        edge_mark(q, q->seen_ns);
        arbiter_queue_ready(q, outstanding != 0, q->seen_ns);
}

void edge_sync_watch(Queue *q) {
        uint32_t watch = wanted_watch(q);

        /* In DEVICE_ALONE no count is needed, and in DEVICE_SOLE the queue counts as ready until the next look. */
        if (q->device->state == DEVICE_ALONE && watch == 0)
                arbiter_queue_ready(q, false, now_ns());
        /* A look can change which flags are needed: of a quick queue, when it became idle or ready. The loop ends when
         * they are set, after three looks at most. */
        for (unsigned i = 0; i < 3 && watch != queue_slot(q)->watch; i++) {
                uint32_t before = queue_slot(q)->watch;

                write_watch(q, watch);
                if (watch == 0)
                        return;
                if (before == 0 || !q->quick.is)
                        begin_to_watch(q);
                else if (watch & ~before & ~PAGE_WATCH_COUNTED)
                        find(q);
                watch = wanted_watch(q);
        }
}

void edge_end_watch(Queue *q) {
        if (queue_slot(q)->watch != 0)
                write_watch(q, 0);
}
