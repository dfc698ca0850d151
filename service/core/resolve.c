/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Settings that have changed: resolved, and carried out below
 */

#include <utlist.h>

#include "arbiter.h"
#include "observer.h"
#include "service/settings/config.h"
#include "share.h"

/* --- queues --- */

/* What another queue of the process waits for goes before that process's other work, and no further. */
static void queue_stack_boost(Queue *q) {
        const PolicySettings *c = &q->client->resolved.policy;

        q->resolved.policy.priority = q->own && q->boosted ? MAX(q->priority, c->priority) : q->priority;
}

static void queue_resolve(Queue *q) {
        SettingsLayer layers[QUEUE_LAYERS_MAX];
        Client *c = q->client;

        size_t n = queue_layers(q, layers);
        settings_resolve(layers, n, manager_lookup_class, q->manager, &q->resolved);
        queue_lower(q, &q->resolved);

        q->own = !settings_is_empty(&q->override) ||
                        !settings_policy_equal(&q->resolved.policy, &c->resolved.policy);
        q->priority = q->resolved.policy.priority;
        queue_stack_boost(q);
}

/* The entity that the queue's settings ask for, made when it is not there yet. */
static int queue_pick_entity(Queue *q, Entity **ret) {
        Client *c = q->client;
        bool by_process = policy_is_by_process(q->device->ops), own = c->own || by_process;
        Entity *e;

        if (q->own && !by_process) {
                if (q->entity && q->entity->kind == ENTITY_QUEUE) {
                        *ret = q->entity;
                        return 0;
                }
                return entity_new(q->device, ENTITY_QUEUE, c->group, c, &q->resolved.policy, ret);
        }

        EntityKind kind = own ? ENTITY_CLIENT : ENTITY_GROUP;
        Client *owner = own ? c : NULL;
        if (q->entity && q->entity->kind == kind) {
                *ret = q->entity;
                return 0;
        }
        e = entity_find(q->device, kind, c->group, owner);
        if (e) {
                *ret = e;
                return 0;
        }
        return entity_new(q->device, kind, c->group, owner,
                        own ? &c->resolved.policy : &c->group->resolved.policy, ret);
}

/* Said only when it is so: a change of a group comes by at each of its queues. */
static void queue_compare_settings(Queue *q, const SettingsResolved *former) {
        if (!settings_policy_equal(&former->policy, &q->resolved.policy) ||
                        former->source != q->resolved.source)
                observers_queue_changed(q, QUEUE_SETTINGS);
}

int queue_settings_changed(Queue *q) {
        const SettingsResolved former = q->resolved;
        Entity *e;

        queue_resolve(q);
        queue_compare_settings(q, &former);
        int r = queue_pick_entity(q, &e);
        if (r < 0)
                return r; /* it stays where it is */

        entity_take_queue(e, q);
        if (e->kind == ENTITY_QUEUE)
                entity_configure(e, &q->resolved.policy);
        else if (e->kind == ENTITY_CLIENT)
                entity_configure(e, &q->client->resolved.policy);
        queue_review_unheld(q);
        arbiter_sync_queue(q);
        return 0;
}

void queue_boost_changed(Queue *q) {
        const SettingsResolved former = q->resolved;

        queue_stack_boost(q);
        queue_compare_settings(q, &former);
        if (q->entity && q->entity->kind == ENTITY_QUEUE)
                entity_configure(q->entity, &q->resolved.policy);
        arbiter_sync_queue(q);
}

/* --- clients --- */

void client_resolve(Client *c) {
        SettingsLayer layers[CLIENT_LAYERS_MAX];

        client_match(c);

        size_t n = client_layers(c, layers);
        settings_resolve(layers, n, manager_lookup_class, c->manager, &c->resolved);
        bool lowered = client_lower(c, &c->resolved);
        c->own = lowered || !settings_is_empty(&c->override) || !settings_is_empty(&c->hold);
}

void client_own_settings_changed(Client *c) {
        client_resolve(c);
        observers_client_changed(c, CLIENT_SETTINGS);
}

void client_settings_changed(Client *c) {
        client_own_settings_changed(c);
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue) {
                        (void) queue_settings_changed(c->slots[i].queue);
                        turn_look(c->manager);
                }
}

/* --- groups --- */

void group_resolve(Group *g) {
        SettingsLayer layers[GROUP_LAYERS_MAX];

        const Settings *stored = stored_find(&g->manager->stored, group_stored_name(g));
        g->effective = stored ? *stored : SETTINGS_NULL;
        settings_merge(&g->effective, &g->override);
        (void) group_match(g);
        size_t n = group_layers(g, layers);
        settings_resolve(layers, n, manager_lookup_class, g->manager, &g->resolved);
        /* A guarantee by class is the cgroup's, which has it once. */
        SettingsSource min = g->resolved.from[SETTINGS_MIN];
        if (g->kind == GROUP_JOB && (min == SETTINGS_FROM_CLASS || min == SETTINGS_FROM_DEFAULT))
                g->resolved.policy.min = 0;
        (void) group_lower(g, &g->resolved);
}

void group_own_settings_changed(Group *g) {
        Entity *e;

        (void) group_note_lowering(g);
        group_resolve(g);
        shares_configure(g);
        DL_FOREACH2(g->entities, e, group_next)
                if (e->kind == ENTITY_GROUP)
                        entity_configure(e, &g->resolved.policy);
                else
                        device_touch(e->device); /* Accounting= */
        observers_group_changed(g, GROUP_SETTINGS);
}

void group_settings_settled(Group *g) {
        observers_group_changed(g, GROUP_SETTLED);
}

void group_settings_changed(Group *g) {
        Client *c;

        group_own_settings_changed(g);
        DL_FOREACH2(g->clients, c, group_next)
                client_settings_changed(c);
        group_settings_settled(g);
}

bool group_inherits_from(const Group *g, const char *name) {
        return g->origin &&
                        (origin_inherits_from(g->origin, name) ||
                                        (g->kind == GROUP_JOB && origin_is(g->origin, name)));
}

void groups_below_changed(Manager *m, const char *name) {
        Group *g, *tmp;

        HASH_ITER(hh, m->groups, g, tmp)
                if (group_inherits_from(g, name))
                        group_settings_changed(g);
}
