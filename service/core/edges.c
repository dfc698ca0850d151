/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Edges
 */

#include "edges.h"
#include "client.h"
#include "decision.h"
#include "tail.h"

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

/* How long it has had something in flight since the mark, by its own count; the rest of that time at most. And there is
 * a new mark. */
static uint64_t take_flight(Queue *q, uint64_t launched, uint64_t now) {
        uint64_t total = atomic_load_explicit(&q->page_slot->busy_ns, memory_order_relaxed);

        if (page_slot_read_in_flight(q->page_slot) > 0 && launched > 0)
                total += ns_sub(now, launched);

        uint64_t ns = ns_sub(total, q->flight_ns), most = ns_sub(now, q->mark_ns);

        q->flight_ns = total;
        q->mark_ns = now;
        return MIN(ns, most);
}

void edge_mark(Queue *q, uint64_t now) {
        q->given_ns = 0;
        (void) take_flight(q, read_stamps(q).launched, now);
}

/* What the policy has counted since the verdict, but for the time since the launch. */
static void note_handover(Queue *q, const Stamps *s, bool ready, uint64_t now) {
        Entity *e = q->entity;
        uint64_t given = q->given_ns;

        if (given == 0 || (s->launched <= given && ready))
                return; /* it may still launch */
        q->given_ns = 0;
        if (!e || e->n_queues != 1 || s->launched <= given || s->launched > now || s->ready > given ||
                        (s->drained > given && s->drained < s->launched))
                return;

        uint64_t counted = ns_sub(entity_counted(e, now), q->given_counted_ns);
        uint64_t before = ns_sub(counted, now - s->launched), most = MIN(s->launched - given, EDGE_GAP_MAX);

        before = MIN(before, most);
        e->handover_ns += before;
        /* With several places somebody may have run beside it. */
        if (e->device->config.concurrency == 1)
                e->device->handover_ns += before;
}

void edge_verdict(Queue *q, bool run, uint64_t now) {
        const Stamps s = read_stamps(q);

        note_handover(q, &s, q->ready, now);
        (void) take_flight(q, s.launched, now);
        q->given_ns = 0;
        if (!run || !q->ready || !q->entity || page_slot_read_in_flight(q->page_slot) > 0)
                return;
        q->given_ns = now;
        q->given_counted_ns = entity_counted(q->entity, now);
}

uint64_t edge_time(const Queue *q, uint64_t stamp, uint64_t now) {
        uint64_t earliest = MAX(q->seen_ns, ns_sub(now, EDGE_LATE_MAX));

        return stamp == 0 ? now : CLAMP(stamp, MIN(earliest, now), now);
}

static void queue_look_boost(Queue *q, bool ready) {
        bool boosted = ready && atomic_load_explicit(&q->page_slot->boost, memory_order_relaxed) != 0;

        if (boosted == q->boosted)
                return;
        q->boosted = boosted;
        (void) queue_settings_changed(q);
}

static void tell_idle(const Queue *q, uint64_t from, uint64_t until, uint64_t now) {
        q->device->ops->entity_idle(q->entity->policy, edge_time(q, from, now));
        q->device->ops->entity_ready(q->entity->policy, edge_time(q, until, now));
}

static void tell_run(const Queue *q, uint64_t from, uint64_t until, uint64_t now) {
        q->device->ops->entity_ready(q->entity->policy, edge_time(q, from, now));
        q->device->ops->entity_idle(q->entity->policy, edge_time(q, until, now));
}

/* It was idle, and ready again, between the mark and what is told next: of that it has run for so long in all, wherever
 * that was. What comes last stays where it was, so that its pauses are learned, if only as sums. */
static void look_between(
                Queue *q, const Stamps *s, bool ready, uint64_t mark, uint64_t flight, uint64_t now) {
        const Entity *e = q->entity;
        uint64_t end = ready ? s->launched : s->drained;

        if (!e || !e->policy || e->n_queues != 1 || q->holds || e->told_ready != q->ready ||
                        s->ready <= mark || s->launched < s->ready || s->drained <= mark || end > now ||
                        ready != (s->launched > s->drained))
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
        arbiter_touch(q->device);
}

void edge_look(Queue *q) {
        if (q->written.watch == 0 && q->device->state != DEVICE_SOLE)
                return; /* it is looked at when the watch begins */

        uint32_t outstanding = atomic_load_explicit(&q->page_slot->outstanding, memory_order_seq_cst);
        const Stamps s = read_stamps(q);
        uint64_t now = now_ns(), at = edge_time(q, s.drained, now), mark = q->mark_ns;
        uint64_t flight = take_flight(q, s.launched, now);
        bool ready = outstanding != 0;

        if (q->own || q->boosted)
                queue_look_boost(q, ready);
        arbiter_queue_goes_on(q);
        note_handover(q, &s, ready, now);
        look_between(q, &s, ready, mark, flight, now);
        if (ready && !q->ready) {
                at = edge_time(q, s.ready, now);
                decision_note_edge(q);
        }
        if (ready != q->ready)
                arbiter_queue_ready(q, ready, at);
        tail_look(q, edge_time(q, s.drained, now));
        q->seen_ns = now;
}
