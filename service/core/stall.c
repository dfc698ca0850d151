/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stalls
 */

#include <utlist.h>

#include "client.h"
#include "entity.h"
#include "levels.h"
#include "nice.h"
#include "stall.h"

static bool client_is_stopped(const Client *c) {
        char state;
        return process_stat(c->peer.pid, &state, NULL) >= 0 && (state == 'T' || state == 't');
}

static void queue_set_stalled(Queue *q, bool stalled) {
        if (q->stalled == stalled)
                return;
        q->stalled = stalled;
        q->device->n_stalled += stalled ? 1U : -1U;
        entity_update_queue(q);
}

void stall_end(Queue *q) {
        queue_set_stalled(q, false);
}

static void queue_check_stall(Queue *q) {
        uint64_t progress = atomic_load_explicit(&q->page_slot->submitted, memory_order_relaxed) +
                        atomic_load_explicit(&q->page_slot->completed, memory_order_relaxed);

        bool moved = progress != q->progress;
        q->progress = progress;
        if (moved || !q->ready)
                queue_set_stalled(q, false);
        else if (q->stalled || q->entity->grant.verdict == VERDICT_RUN)
                queue_set_stalled(q, client_is_stopped(q->client));
}

/* Reads the priorities of a few processes at a time: each costs two system calls. Entities that wait are read as well,
 * so that their turn comes at their new priority. */
static void device_read_priorities(Device *d) {
        unsigned n = MIN(d->n_entities, STALL_NICE_LOOKS);
        Entity *e = d->nice_next;

        for (; n > 0 && d->entities; n--) {
                e = e ?: d->entities;
                if (e->policy && e->client && nice_look(e))
                        entity_party_changed(e);
                e = e->device_next;
        }
        d->nice_next = e;
}

/* Whether an entity on another device is, or would be, held for the sake of one on this device. */
static bool device_concerns_others(const Device *d) {
        return levels_concern(d) && d->outside_level != POLICY_LEVEL_NONE;
}

/* A queue that launches without a pause sends no edge, so stalled queues are looked at in every state. */
static bool device_looks_for_stopped(const Device *d) {
        if (d->n_ready == 0)
                return d->n_stalled > 0 && device_concerns_others(d);
        return d->n_stalled > 0 ||
                        (d->state == DEVICE_CONTENDED &&
                                        (d->n_ready > 1 || (device_concerns_others(d) && d->level > d->outside_level)));
}

void stalls_time(Device *d, uint64_t now) {
        if (!device_looks_for_stopped(d))
                d->stall_at = NSEC_INFINITY;
        else if (d->stall_at == NSEC_INFINITY)
                d->stall_at = (now / STALL_NS + 1) * STALL_NS; /* that of other devices, too */
}

void stalls_look(Device *d, uint64_t now) {
        stalls_time(d, now);
        if (d->stall_at == NSEC_INFINITY)
                return;
        d->stall_at = NSEC_INFINITY;
        stalls_time(d, now);

        Entity *e;
        Queue *q;
        DL_FOREACH2(d->entities, e, device_next) {
                if (!e->policy || (e->grant.verdict == VERDICT_HOLD && d->n_stalled == 0))
                        continue;
                DL_FOREACH2(e->queues, q, entity_next)
                        queue_check_stall(q);
        }
        if (policy_is_by_process(d->ops))
                device_read_priorities(d);
}
