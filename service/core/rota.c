/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The rota
 */

#include "rota.h"

#include <utlist.h>

#include "client.h"
#include "ladder.h"
#include "turn.h"

/* --- who --- */

static bool is_member(const Queue *q, uint64_t now) {
        uint64_t at = q->client->rota.stopped_at;

        return at > 0 && now - MIN(at, now) < ROTA_MEMORY_NS && ladder_can_take_off(q);
}

static bool is_on_several_devices(const Entity *e) {
        const Entity *other;

        DL_FOREACH2(e->group->entities, other, group_next)
                if (other->device != e->device && other->n_queues > 0)
                        return true;
        return false;
}

static bool has_rota(const Entity *e) {
        return e->kind == ENTITY_GROUP && e->policy && e->n_queues > 1 && e->n_queues <= ROTA_QUEUES_MAX &&
                        !e->settings.gang && device_grants_in_force(e->device) && e->grant.threshold != 0 &&
                        !is_on_several_devices(e);
}

void rota_note_stop(Queue *q, uint64_t now) {
        Entity *e = q->entity;

        if (!e || q->hooked != HOOKED_CALLS)
                return;
        q->client->rota.stopped_at = now;
        e->rota.until = now + ROTA_MEMORY_NS;
        if (e->rota.listed)
                return;
        e->rota.listed = true;
        DL_APPEND2(e->device->rotas, e, rota.prev, rota.next);
}

void rota_heard(const Queue *q) {
        if (q->entity && q->entity->rota.listed)
                device_touch(q->entity->device);
}

void rota_forget(Entity *e) {
        if (!e->rota.listed)
                return;
        DL_DELETE2(e->device->rotas, e, rota.prev, rota.next);
        e->rota = (Rota){};
}

/* --- whose turn --- */

typedef struct Members {
        unsigned n, n_ready;
        Client *runner, *next; /* NULL: there is none */
} Members;

static bool is_on_device(const Queue *q) {
        return page_slot_read_in_flight(q->page_slot) > 0 && !ladder_queue_is_off(q);
}

static void forget_members(const Entity *e) {
        const Queue *q;

        DL_FOREACH2(e->queues, q, entity_next)
                q->client->rota.seen = q->client->rota.ready = q->client->rota.flies = false;
}

static Members look_at_members(const Entity *e, uint64_t now) {
        Members m = {};
        const Queue *q;

        forget_members(e);
        DL_FOREACH2(e->queues, q, entity_next) {
                Client *c = q->client;
                if (!is_member(q, now))
                        continue;
                m.n += !c->rota.seen;
                m.n_ready += q->counted_ready && !c->rota.ready;
                c->rota.seen = true;
                c->rota.ready |= q->counted_ready;
                c->rota.flies |= is_on_device(q);
                if (c->id == e->rota.runner)
                        m.runner = c;
                else if (c->rota.ready && (!m.next || c->rota.ended_at < m.next->rota.ended_at))
                        m.next = c;
        }
        return m;
}

static bool turn_is_over(const Entity *e, const Members *m, uint64_t now) {
        return !m->runner || !m->runner->rota.ready ||
                        (!e->rota.waits && now - e->rota.since >= e->device->config.timeslice_ns);
}

static void turn_pass_on(Entity *e, Members *m, uint64_t now) {
        if (m->runner)
                m->runner->rota.ended_at = now;
        m->runner = m->next;
        e->rota.runner = m->next->id;
        e->rota.since = now;
        e->rota.tail_until = now + POLICY_TAIL_WAIT;
}

static bool others_fly(const Entity *e, const Client *runner) {
        const Queue *q;

        DL_FOREACH2(e->queues, q, entity_next)
                if (q->client != runner && q->client->rota.flies)
                        return true;
        return false;
}

/* --- who sits out --- */

static void sit_out(Entity *e, Queue *q, bool out) {
        if (q->sits_out == out)
                return;
        q->sits_out = out;
        entity_words_changed(e);
}

static void everybody_goes(Entity *e) {
        Queue *q;

        e->rota.runner = 0;
        e->rota.waits = false;
        e->rota.look_at = NSEC_INFINITY;
        DL_FOREACH2(e->queues, q, entity_next)
                sit_out(e, q, false);
}

/* Lets only the runner launch. It waits while others have launches on the device, unless it launches already. */
static void one_goes(Entity *e, const Members *m, uint64_t now) {
        bool awaits = m->runner && now < e->rota.tail_until && others_fly(e, m->runner), waits = false;
        Queue *q;

        DL_FOREACH2(e->queues, q, entity_next) {
                bool out = q->client->rota.seen && (q->client != m->runner || (awaits && q->sits_out));
                waits |= out && q->client == m->runner;
                sit_out(e, q, out);
        }
        if (waits || e->rota.waits)
                e->rota.since = now;
        e->rota.waits = waits;
        e->rota.look_at = e->rota.until;
        if (waits)
                e->rota.look_at = MIN(e->rota.look_at, e->rota.tail_until);
        else if (m->n_ready > 1)
                e->rota.look_at = MIN(e->rota.look_at, e->rota.since + e->device->config.timeslice_ns);
}

static void entity_rota(Entity *e, uint64_t now) {
        if (!has_rota(e) || now >= e->rota.until) {
                everybody_goes(e);
                return;
        }
        e->rota.look_at = NSEC_INFINITY;
        if (e->grant.verdict == VERDICT_HOLD)
                return;
        Members m = look_at_members(e, now);
        if (m.n < 2) {
                everybody_goes(e);
                return;
        }
        if (m.next && turn_is_over(e, &m, now))
                turn_pass_on(e, &m, now);
        one_goes(e, &m, now);
}

uint64_t rota_turn(Device *d, uint64_t now) {
        uint64_t next = NSEC_INFINITY;
        Entity *e, *tmp;

        DL_FOREACH_SAFE2(d->rotas, e, tmp, rota.next) {
                entity_rota(e, now);
                next = MIN(next, e->rota.look_at);
                if (now >= e->rota.until)
                        rota_forget(e);
        }
        return next;
}
