/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Edges
 */

#include "edges.h"
#include "client.h"
#include "decision.h"
#include "tail.h"

typedef struct Stamps {
        uint64_t launched, drained;
} Stamps;

static Stamps read_stamps(const Queue *q) {
        return (Stamps){
                        .launched = atomic_load_explicit(&q->page_slot->launched_ns, memory_order_relaxed),
                        .drained = atomic_load_explicit(&q->page_slot->drained_ns, memory_order_relaxed),
        };
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

static bool is_between(uint64_t stamp, uint64_t after, uint64_t now) {
        return stamp > after && stamp <= now;
}

/* The same as before, and something else in between. */
static void look_for_pause(Queue *q, const Stamps *s, uint64_t now) {
        Entity *e = q->entity;

        if (!e || !e->policy || e->n_queues != 1 || q->holds || e->told_ready != q->ready ||
                        !is_between(s->drained, q->seen_ns, now) ||
                        !is_between(s->launched, q->seen_ns, now))
                return;
        if (q->ready && s->launched > s->drained) {
                e->device->ops->entity_idle(e->policy, edge_time(q, s->drained, now));
                e->device->ops->entity_ready(e->policy, edge_time(q, s->launched, now));
        } else if (!q->ready && s->drained > s->launched) {
                e->device->ops->entity_ready(e->policy, edge_time(q, s->launched, now));
                e->device->ops->entity_idle(e->policy, edge_time(q, s->drained, now));
        } else
                return;
        arbiter_touch(e->device);
}

void edge_look(Queue *q) {
        if (q->written.watch == 0 && q->device->state != DEVICE_SOLE)
                return; /* it is looked at when the watch begins */

        uint32_t outstanding = atomic_load_explicit(&q->page_slot->outstanding, memory_order_seq_cst);
        const Stamps s = read_stamps(q);
        uint64_t now = now_ns(), at = edge_time(q, s.drained, now);
        bool ready = outstanding != 0;

        if (q->own || q->boosted)
                queue_look_boost(q, ready);
        arbiter_queue_goes_on(q);
        if (ready && !q->ready) {
                at = edge_time(q, atomic_load_explicit(&q->page_slot->ready_since_ns, memory_order_relaxed),
                                now);
                decision_note_edge(q);
        }
        if (ready != q->ready)
                arbiter_queue_ready(q, ready, at);
        else
                look_for_pause(q, &s, now);
        tail_look(q, edge_time(q, s.drained, now));
        q->seen_ns = now;
}
