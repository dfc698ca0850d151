/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Resolves settings after a change, and applies them to clients, queues and entities
 */

#include <utlist.h>

#include "arbiter.h"
#include "client-match.h"
#include "group-match.h"
#include "hooked.h"
#include "layers.h"
#include "manager-config.h"
#include "observer.h"
#include "resolve.h"
#include "service/settings/xsched-conf.h"
#include "share.h"

/* --- onto what is kept of the group --- */

static void group_lower_kept(const Group *g, SettingsResolved *r) {
        const GroupKept *kept = &g->kept;

        if (kept->n_lowering > 0 && !kept->lowering) {
                group_lower(g, r);
                return;
        }
        for (size_t i = 0; i < kept->n_lowering; i++)
                (void) settings_lower_by(r, &kept->lowering[i].settings, kept->lowering[i].source, manager_lookup_class,
                                g->manager);
}

/* Resolves the given layers on those of the group, with what lowers the group. */
static void group_resolve_onto(const Group *g, const SettingsLayer *layers, size_t n, SettingsResolved *ret) {
        settings_resolve_onto(&g->kept.base, layers, n, manager_lookup_class, g->manager, ret);
        group_lower_kept(g, ret);
}

/* Applies what lowers the client. Returns whether it then has less than its group. */
static bool client_lower(const Client *c, SettingsResolved *r) {
        SettingsLayer layers[CLIENT_OWN_LOWERING];

        size_t n = client_own_lowering_layers(c, layers);
        return settings_lower_by_layers(r, layers, n, manager_lookup_class, c->manager);
}

/* --- queues --- */

/* A boosted queue goes before other work of its process, and no further, because another queue of the process waits for
 * it. */
static void queue_stack_boost(Queue *q) {
        const PolicySettings *c = &q->client->resolved.policy;

        q->resolved.policy.priority = q->own && q->boosted ? MAX(q->priority, c->priority) : q->priority;
}

/* Applies what lowers the queue alone. */
static void queue_lower(Queue *q) {
        SettingsLayer layers[QUEUE_OWN_LOWERING];
        Settings made;

        size_t n = queue_own_lowering_layers(q, q->resolved.policy.priority, &made, layers);
        (void) settings_lower_by_layers(&q->resolved, layers, n, manager_lookup_class, q->manager);
}

static void queue_resolve(Queue *q) {
        SettingsLayer layers[1 + CLIENT_OWN_LAYERS];
        const Client *c = q->client;

        if (settings_is_empty(&q->override))
                q->resolved = c->resolved;
        else {
                layers[0] = (SettingsLayer){SETTINGS_FROM_OVERRIDE, NULL, &q->override};
                size_t n = 1 + client_own_layers(c, layers + 1);
                group_resolve_onto(c->group, layers, n, &q->resolved);
                (void) client_lower(c, &q->resolved);
        }
        queue_lower(q);
        q->own = !settings_is_empty(&q->override) || !settings_policy_equal(&q->resolved.policy, &c->resolved.policy);
        q->priority = q->resolved.policy.priority;
        queue_stack_boost(q);
}

/* Finds or makes the entity that the queue's settings ask for. */
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
        return entity_new(
                        q->device, kind, c->group, owner, own ? &c->resolved.policy : &c->group->resolved.policy, ret);
}

/* Tells observers only of real changes: a change of the group calls this for each of its queues. */
static void queue_compare_settings(Queue *q, const SettingsResolved *former) {
        if (!settings_policy_equal(&former->policy, &q->resolved.policy) || former->source != q->resolved.source)
                observers_queue_changed(q, QUEUE_SETTINGS);
}

int queue_settings_changed(Queue *q) {
        const SettingsResolved former = q->resolved;
        Entity *e;

        queue_resolve(q);
        queue_compare_settings(q, &former);
        int r = queue_pick_entity(q, &e);
        if (r < 0)
                return r; /* the queue stays in its entity */

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
        SettingsLayer layers[CLIENT_OWN_LAYERS];

        client_match(c);

        if (settings_is_empty(&c->override) && settings_is_empty(&c->claim))
                c->resolved = c->group->kept.lowered;
        else {
                size_t n = client_own_layers(c, layers);
                group_resolve_onto(c->group, layers, n, &c->resolved);
        }
        bool lowered = client_lower(c, &c->resolved);
        c->own = lowered || !settings_is_empty(&c->override) || !settings_is_empty(&c->claim);
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

static void group_keep(Group *g) {
        SettingsLayer layers[GROUP_LAYERS_MAX], lowering[GROUP_LOWERING_MAX];
        GroupKept *kept = &g->kept;

        size_t n = group_layers(g, layers);
        settings_base_resolve(layers, n, manager_lookup_class, g->manager, &kept->base);

        free(kept->lowering);
        kept->n_lowering = group_lowering_layers(g, lowering);
        kept->lowering = kept->n_lowering > 0 ? calloc(kept->n_lowering, sizeof(*kept->lowering)) : NULL;
        for (size_t i = 0; kept->lowering && i < kept->n_lowering; i++)
                kept->lowering[i] = (struct GroupLowering){lowering[i].source, *lowering[i].settings};
        kept->lowered = kept->base.all.resolved;
        group_lower_kept(g, &kept->lowered);
}

static void group_stack_override(Group *g, const Settings *stored) {
        g->effective = stored ? *stored : SETTINGS_NULL;
        settings_merge(&g->effective, &g->override);
}

static void group_take_kept(Group *g) {
        g->resolved = g->kept.lowered;
        /* A guarantee that comes from the class belongs to the cgroup, which has it once, and not to each of its
         * jobs. */
        SettingsSource min = g->kept.base.all.resolved.from[SETTINGS_MIN];
        if (g->kind == GROUP_JOB && (min == SETTINGS_FROM_CLASS || min == SETTINGS_FROM_DEFAULT)) {
                g->resolved = g->kept.base.all.resolved;
                g->resolved.policy.min = 0;
                group_lower_kept(g, &g->resolved);
        }
}

void group_resolve(Group *g) {
        group_stack_override(g, overrides_find(&g->manager->overrides, group_stored_name(g)));
        (void) group_match(g);
        group_keep(g);
        group_take_kept(g);
}

void group_resolve_copy(Group *copy, const Settings *stored) {
        SettingsLayer layers[GROUP_LAYERS_MAX];

        group_stack_override(copy, stored);
        (void) group_note_lowering(copy);
        size_t n = group_layers(copy, layers);
        settings_base_resolve(layers, n, manager_lookup_class, copy->manager, &copy->kept.base);
        copy->kept.lowering = NULL; /* the list is the group's: group_lower_kept() makes one for the copy */
        copy->kept.n_lowering = 1;
        copy->kept.lowered = copy->kept.base.all.resolved;
        group_lower_kept(copy, &copy->kept.lowered);
        group_take_kept(copy);
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
                        (origin_inherits_from(g->origin, name) || (g->kind == GROUP_JOB && origin_is(g->origin, name)));
}

void groups_below_changed(Manager *m, const char *name) {
        Group *g, *tmp;

        HASH_ITER(hh, m->groups, g, tmp)
                if (group_inherits_from(g, name))
                        group_settings_changed(g);
}
