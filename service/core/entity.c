/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Entities
 */

#include <utlist.h>

#include "entity-facts.h"
#include "entity.h"
#include "ladder.h"
#include "nice.h"
#include "observer.h"
#include "overlaps.h"
#include "rota.h"
#include "share.h"
#include "suspended.h"
#include "tail.h"
#include "tally.h"
#include "turn.h"
#include "usage.h"

/* Links the entity to those of the same group or client on other devices: members of a gang find each other by this
 * ring. */
static void entity_join_alike(Entity *e) {
        Entity *m, *head = NULL;

        if (e->kind != ENTITY_QUEUE)
                DL_FOREACH2(e->group->entities, m, group_next)
                        if (m->kind == e->kind && m->client == e->client) {
                                head = m;
                                break;
                        }
        CDL_PREPEND2(head, e, alike_prev, alike_next);
}

static void entity_leave_alike(Entity *e) {
        Entity *head = e;

        CDL_DELETE2(head, e, alike_prev, alike_next);
}

static void count_gangs(Device *d, unsigned more) {
        d->n_gangs += more;
        d->manager->n_gangs += more;
}

int entity_new(Device *d, EntityKind kind, Group *g, Client *c, const PolicySettings *settings, Entity **ret) {
        _cleanup_free_ Entity *e = calloc(1, sizeof(*e));
        if (!e)
                return -ENOMEM;

        *e = (Entity){
                        .device = d,
                        .kind = kind,
                        .group = g,
                        .client = c,
                        .settings = *settings,
                        .review_at = NSEC_INFINITY,
                        .overdue = {.look_at = NSEC_INFINITY},
                        .gang_look_at = NSEC_INFINITY,
                        .gang_turn_at = NSEC_INFINITY,
                        .tail_look_at = NSEC_INFINITY,
                        .tail_until = NSEC_INFINITY,
        };
        ladder_resolve(e);
        int r = tally_join(e);
        if (r < 0)
                return r;
        if (c)
                (void) nice_look(e);
        DL_APPEND2(d->entities, e, device_prev, device_next);
        entity_join_alike(e);
        DL_APPEND2(g->entities, e, group_prev, group_next);
        d->n_entities++;
        d->nobody_below = MIN(d->nobody_below, settings->priority);
        forecast_ranked(e);
        count_gangs(d, settings->gang);
        *ret = TAKE_PTR(e);
        return 0;
}

/* Has the devices of the gang's other members decide again, because the gang has one member less. */
static void touch_gang(const Entity *e) {
        Entity *m;

        if (!e->settings.gang)
                return;
        DL_FOREACH2(e->group->entities, m, group_next)
                device_touch(m->device);
}

static void entity_note_limit(Entity *e) {
        bool limited = e->share && e->share->limited;

        if (limited == e->limited)
                return;
        e->limited = limited;
        e->device->n_limited += limited ? 1U : -1U;
}

void entities_note_limits(Device *d) {
        Entity *e;

        DL_FOREACH2(d->entities, e, device_next)
                entity_note_limit(e);
        device_sync(d);
}

static void entity_note_active(Entity *e) {
        Device *d = e->device;
        bool active = e->policy && e->n_active > 0;

        e->counted = active;
        d->n_active += active ? 1U : -1U;
        if (!active && d->last_ready == e)
                d->last_ready = NULL;
        device_touch(d);
}

/* Takes the entity out of the policy, and keeps the usage that the policy has counted. */
static void entity_leave_policy(Entity *e) {
        Device *d = e->device;

        if (!e->policy)
                return;
        if (e->told_ready)
                d->n_ready--;
        uint64_t now = now_ns();
        PolicyUsage u;

        e->told_ready = e->tail_awaited = false;
        overlaps_end(e, false, now);
        overlaps_forget_runner(e);
        account_forget(e, now);
        d->ops->entity_usage(e->policy, now, &u);
        usage_add(&e->usage, &u);
        e->policy = d->ops->entity_free(e->policy, now);
        e->share = share_put(e->share);
        entity_note_limit(e);
        e->grant = (PolicyGrant){.verdict = VERDICT_RUN};
        e->carried_out = VERDICT_RUN;
        e->gang = GANG_NONE;
        e->tail_until = NSEC_INFINITY;
        if (e->forecast.listed)
                d->forecast_stale = true;
        if (e->counted)
                entity_note_active(e);
        device_touch(d);
        touch_gang(e);
}

static void entity_join_policy(Entity *e) {
        Device *d = e->device;

        /* Without memory the entity stays outside, and its queues run: fail open. The next change tries again. */
        if (share_get(e->group, d, &e->share) < 0)
                return;
        const PolicySettings s = entity_settings(e);
        if (d->ops->entity_new(d->policy, e->share->node, e, &s, now_ns(), &e->policy) < 0) {
                e->share = share_put(e->share);
                return;
        }
        entity_note_limit(e);
        e->grant = (PolicyGrant){.verdict = VERDICT_RUN};
        e->carried_out = VERDICT_RUN;
        d->forecast_stale = true;
        device_touch(d);
}

static void forget_changed(Entity *e) {
        if (!e->changed)
                return;
        LL_DELETE2(e->device->changed, e, changed_next);
        e->changed = false;
}

Entity *entity_free(Entity *e) {
        if (!e)
                return NULL;

        Device *d = e->device;
        AccountSource source = account_entity_source(e);
        entity_leave_policy(e);
        count_gangs(d, -(unsigned) e->settings.gang);
        forget_changed(e);
        rota_forget(e);
        forecast_forget(e);
        entity_usage(e, now_ns(), &e->usage);
        e->estimate = (Estimate){0};
        e->handover_ns = 0; /* is in `usage` */
        usage_add(&e->group->usage, &e->usage);
        e->group->gone_source = source;
        e->group->service_wait_ns += e->service_wait_ns;
        tally_leave(e);
        observers_entity_removed(e);
        if (d->nice_next == e)
                d->nice_next = e->device_next;
        if (e->reviewed)
                DL_DELETE2(d->reviewed, e, reviewed_prev, reviewed_next);
        DL_DELETE2(d->entities, e, device_prev, device_next);
        DL_DELETE2(e->group->entities, e, group_prev, group_next);
        entity_leave_alike(e);
        d->n_entities--;
        free(e);
        return NULL;
}

/* Tells the policy when the entity's counts make it ready or idle. */
static void entity_update(Entity *e, uint64_t at) {
        Device *d = e->device;

        if (e->n_active == 0 && e->n_tails == 0) {
                entity_leave_policy(e);
                return;
        }
        if (e->n_active > 0 && !e->policy)
                entity_join_policy(e);
        if (!e->policy)
                return;
        if (e->counted != (e->n_active > 0))
                entity_note_active(e);

        bool ready = e->n_ready > 0;
        if (ready == e->told_ready)
                return;
        if (e->overlaps && !ready)
                overlaps_end(e, e->n_tails == 0, at);
        else
                overlaps_look(d, at);
        e->told_ready = ready;
        if (e->forecast.listed)
                d->forecast_stale = true;
        if (ready) {
                d->n_ready++;
                if (d->last_ready != e) {
                        d->last_ready = e;
                        d->settle_at = NSEC_INFINITY;
                }
                e->ready_at = at;
                forecast_came(e, at);
                d->ops->entity_ready(e->policy, at);
        } else {
                d->n_ready--;
                forecast_left(e, at);
                e->tail_awaited = false;
                d->ops->entity_idle(e->policy, at);
                if (e->n_tails > 0)
                        tails_of_stopped(e, at);
        }
        device_touch(d);
}

void entity_tails_ended(Entity *e) {
        if (e->n_active == 0)
                entity_leave_policy(e);
}

static void entity_count(Entity *e, Queue *q, bool active, bool ready, bool stopped) {
        e->n_active += (unsigned) active - (unsigned) q->counted_active;
        e->n_ready += (unsigned) ready - (unsigned) q->counted_ready;
        e->n_stopped += (unsigned) stopped - (unsigned) q->counted_stopped;
        q->counted_active = active;
        q->counted_ready = ready;
        q->counted_stopped = stopped;
}

void entity_update_queue(Queue *q) {
        entity_update_queue_at(q, now_ns());
}

void entity_update_queue_at(Queue *q, uint64_t at) {
        if (!q->entity)
                return;

        bool active = !queue_is_suspended(q), stopped = q->stalled || (q->ready && q->client->halted);
        bool ready = active && q->ready && !stopped;
        bool same = active == q->counted_active && ready == q->counted_ready;
        if (!same && q->ready && !ready)
                tail_begin(q);
        /* The service may hear of the end that came last before it hears of the others. */
        if (q->counted_ready && !ready)
                at = q->entity->ended_at = MAX(q->entity->ended_at, at);
        entity_count(q->entity, q, active, ready, stopped);
        if (same)
                return;
        entity_update(q->entity, at);
        if (ready && q->tail && !queue_holds(q))
                tail_end(q, at);
}

void entity_take_queue(Entity *e, Queue *q) {
        Entity *old = q->entity;

        if (old == e)
                return;
        q->given_ns = 0;
        if (old) {
                tail_leave(q);
                rota_heard(q);
                q->sits_out = false;
                entity_count(old, q, false, false, false);
                DL_DELETE2(old->queues, q, entity_prev, entity_next);
                old->n_queues--;
                q->entity = NULL;
        }
        if (e) {
                DL_APPEND2(e->queues, q, entity_prev, entity_next);
                e->n_queues++;
                q->entity = e;
                entity_reconsider(e);
                tail_join(q);
                entity_update_queue(q);
                device_touch(e->device);
        }
        if (old && entity_gc(old))
                entity_update(old, now_ns());
}

Entity *entity_gc(Entity *e) {
        return e->n_queues > 0 || e->remnants ? e : entity_free(e);
}

void entity_configure(Entity *e, const PolicySettings *settings) {
        bool reach = e->settings.preemption != settings->preemption || e->settings.gang != settings->gang;
        count_gangs(e->device, (unsigned) settings->gang - (unsigned) e->settings.gang);
        e->settings = *settings;
        e->device->nobody_below = MIN(e->device->nobody_below, settings->priority);
        e->device->forecast_stale = true;
        forecast_ranked(e);
        if (reach) {
                ladder_resolve(e);
                e->gang = GANG_NONE; /* until the device's next turn decides */
                entity_reconsider(e);
                device_sync(e->device);
        }
        if (!e->policy)
                return;
        const PolicySettings s = entity_settings(e);
        e->device->ops->entity_configure(e->policy, &s, now_ns());
        device_touch(e->device);
}

void entity_party_changed(Entity *e) {
        if (!e->policy)
                return;
        const PolicySettings s = entity_settings(e);
        e->device->ops->entity_configure(e->policy, &s, now_ns());
        device_touch(e->device);
}

Entity *entity_find(Device *d, EntityKind kind, const Group *g, const Client *c) {
        Entity *e;

        DL_FOREACH2(g->entities, e, group_next)
                if (e->device == d && e->kind == kind && e->client == c)
                        return e;
        return NULL;
}
