/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tails
 */

#include <utlist.h>

#include "client.h"
#include "gang.h"
#include "ladder.h"
#include "overlaps.h"
#include "rota.h"
#include "tail.h"
#include "turn.h"

/* First interval between two looks at a driver's progress; it doubles with each look. */
#define TAIL_LOOK_NS (50 * NSEC_PER_USEC)

static void entity_add_tail(Entity *e, uint64_t now) {
        if (e->n_tails++ == 0 && e->settings.gang)
                gang_tail_began(e, now);
}

static void entity_tails_end(Entity *e, uint64_t at) {
        e->tail_look_at = e->tail_until = NSEC_INFINITY;
        if (!e->policy)
                return;
        if (!e->tail_awaited) {
                if (e->n_tails == 0)
                        entity_tails_ended(e); /* it was idle already when it was suspended */
                return;
        }
        if (e->settings.gang && e->n_active > 0 && gang_drains(e, now_ns()))
                return;
        e->tail_awaited = false;
        overlaps_end(e, e->n_tails == 0, at);
        e->device->ops->entity_drained(e->policy, at);
        device_note_cause(e->device, at);
        device_touch(e->device);
        entity_tails_ended(e);
}

void tails_of_stopped(Entity *e, uint64_t at) {
        Device *d = e->device;

        e->tail_awaited = true;
        d->ops->entity_tail(e->policy, at);
        e->tail_until = now_ns() + POLICY_TAIL_MAX;
        entity_review_by(e, e->tail_until);
        device_touch(d);
}

void entity_begin_tail(Entity *e, uint64_t now) {
        entity_add_tail(e, now);
        if (!e->told_ready && !e->tail_awaited)
                tails_of_stopped(e, now);
}

/* Tells of those members that have no tail: they waited for that of the entity. */
static void gang_tails_end(Entity *e, uint64_t at) {
        Entity *m;

        CDL_FOREACH2(e, m, alike_next)
        if (m->settings.gang && m->n_tails == 0)
                entity_tails_end(m, at);
}

void entity_end_tail(Entity *e, uint64_t at) {
        if (--e->n_tails > 0)
                return;
        if (!e->settings.gang) {
                entity_tails_end(e, at);
                return;
        }
        gang_tail_ended(e);
        gang_tails_end(e, at);
}

void tail_begin(Queue *q) {
        if (q->tail || !q->entity || page_slot_read_in_flight(q->page_slot) == 0)
                return;
        q->tail = true;
        q->tail_at = now_ns();
        entity_add_tail(q->entity, q->tail_at);
}

void tail_end(Queue *q, uint64_t at) {
        if (!q->tail)
                return;
        q->tail = false;
        rota_heard(q);
        entity_end_tail(q->entity, at);
}

void tail_end_of(Client *c) {
        uint64_t now = now_ns();

        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue)
                        tail_end(c->slots[i].queue, now);
}

void tail_drained(Queue *q, uint64_t at) {
        if (!q->tail)
                return;
        forecast_drained(q->device, q->tail_at, ns_sub(at, q->tail_at));
        tail_end(q, at);
}

void tail_look(Queue *q, uint64_t at) {
        if (page_slot_read_in_flight(q->page_slot) == 0)
                tail_drained(q, at);
}

void tail_join(Queue *q) {
        if (queue_holds(q))
                tail_begin(q);
}

void tail_leave(Queue *q) {
        tail_end(q, now_ns());
}

/* Sets when to look whether a driver has taken the entity's queues off. The driver does not tell, but the usual time is
 * known. */
static void look_later(Entity *e, uint64_t now) {
        e->tail_look_at = now + e->tail_look_ns;
        e->tail_look_ns = MIN(2 * e->tail_look_ns, (uint64_t) LADDER_IGNORED_NS);
        entity_review_by(e, e->tail_look_at);
}

void tail_settle(Entity *e, uint64_t now) {
        if (e->settings.gang)
                gang_tails_end(e, now);
        if (!e->policy || !e->tail_awaited)
                return;
        if (e->n_tails == 0 || e->grant.verdict != VERDICT_HOLD) {
                entity_tails_end(e, now);
                return;
        }
        uint64_t own = ladder_entity_drain(e);
        overlaps_begin(e, own == PREEMPTION_UNKNOWN ? OVERLAP_UNKNOWN : own);
        if (e->choice.level < LEVEL_DEQUEUE || e->tail_look_at != NSEC_INFINITY)
                return;
        e->tail_look_ns = MAX(e->device->costs.hold_ns, (uint64_t) TAIL_LOOK_NS);
        look_later(e, now);
}

void tails_settle_held(Device *d) {
        Entity *e;

        LL_FOREACH2(d->changed, e, changed_next)
        if (e->tail_awaited && e->carried_out == VERDICT_HOLD)
                tail_settle(e, now_ns());
}

void tail_review(Entity *e, uint64_t now) {
        Queue *q, *tmp;
        bool all = now >= e->tail_until;

        if (now < e->tail_look_at && !all)
                return;
        e->tail_look_at = NSEC_INFINITY;
        if (all)
                e->tail_until = NSEC_INFINITY; /* remnants have times of their own */
        DL_FOREACH_SAFE2(e->queues, q, tmp, entity_next)
                if (q->tail && (all || ladder_queue_is_off(q)))
                        tail_end(q, now);
        if (e->n_tails > 0 && e->tail_awaited && !all)
                look_later(e, now);
}
