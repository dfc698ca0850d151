/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layers of settings of a group, a client and a queue
 */

#include "layers.h"
#include "cgroup/cgroup-path.h"
#include "client.h"
#include "job.h"
#include "manager-config.h"

/* --- settings at a cgroup --- */

bool origin_is(const Origin *o, const char *name) {
        return streq(o->path, name) || streq_ptr(o->unit, name);
}

bool origin_inherits_from(const Origin *o, const char *name) {
        for (o = o->parent; o; o = o->parent)
                if (origin_is(o, name))
                        return true;
        return false;
}

static size_t add_layer(SettingsLayer *layers, size_t n, SettingsSource source, const char *detail, const Settings *s) {
        if (settings_is_empty(s))
                return n;
        layers[n] = (SettingsLayer){source, detail, s};
        return n + 1;
}

/* A slice's settings are made over the bus by its unit's name or its cgroup's path; there need not be a group. */
static const Settings *origin_override(const Origin *o) {
        static const Settings none = SETTINGS_NULL;
        Group *g = NULL;

        HASH_FIND_STR(o->manager->groups, o->path, g);
        if (!g && o->unit)
                HASH_FIND_STR(o->manager->groups, o->unit, g);
        return g ? &g->effective : overrides_find(&o->manager->overrides, o->unit ?: o->path) ?: &none;
}

/* The settings of the job of the cgroup's own group. Cgroups below inherit them, and so do jobs that were made below,
 * so that a process cannot leave them. */
static const Settings *origin_job(const Origin *o, bool lowers) {
        static const Settings none = SETTINGS_NULL;
        Group *g;

        HASH_FIND_STR(o->manager->groups, o->path, g);
        return g && g->job && g->job->lowers == lowers ? &g->job->settings : &none;
}

/* Levels without settings do not count towards ORIGIN_DEPTH: otherwise the owner of a cgroup could nest any number of
 * them below a slice, and leave the slice's settings. */
size_t origin_layers(const Origin *o, bool inherited, const SettingsLayer *match,
                SettingsLayer layers[static ORIGIN_LAYERS_MAX]) {
        size_t n = 0, levels = 0;

        for (const Origin *i = o; i && levels < ORIGIN_DEPTH; i = i->parent) {
                bool own = i == o && !inherited;
                size_t before = n;

                if (!own) {
                        n = add_layer(layers, n, SETTINGS_FROM_SLICE, i->unit ?: i->path, origin_override(i));
                        n = add_layer(layers, n, SETTINGS_FROM_SLICE, i->unit ?: i->path, origin_job(i, false));
                }
                n = add_layer(layers, n, own ? SETTINGS_FROM_ATTRIBUTE : SETTINGS_FROM_SLICE, i->path, &i->attr);
                n = add_layer(layers, n, own ? SETTINGS_FROM_UNIT_FILE : SETTINGS_FROM_SLICE, i->file_detail, &i->file);
                n = add_layer(layers, n, own ? SETTINGS_FROM_UNIT : SETTINGS_FROM_SLICE, i->unit, &i->property);
                levels += n > before;
                if (i == o && match)
                        layers[n++] = *match;
        }
        return n;
}

static const Settings *origin_lowering(const Origin *o) {
        static const Settings none = SETTINGS_NULL;
        Group *g;

        HASH_FIND_STR(o->manager->groups, o->path, g);
        return g && g->lowering_counts ? &g->lowering : &none;
}

size_t origin_lowering_layers(const Origin *o, bool inherited, SettingsLayer layers[static ORIGIN_LOWERING_MAX]) {
        size_t n = 0, levels = 0;

        for (const Origin *i = o; i && levels < ORIGIN_DEPTH; i = i->parent) {
                size_t before = n;

                n = add_layer(layers, n, i == o ? SETTINGS_FROM_ATTRIBUTE : SETTINGS_FROM_SLICE, i->path, &i->lowered);
                n = add_layer(layers, n, i == o ? SETTINGS_FROM_USER_UNIT : SETTINGS_FROM_SLICE, i->path, &i->told);
                if (i != o || inherited) {
                        n = add_layer(layers, n, SETTINGS_FROM_SLICE, i->unit ?: i->path, origin_job(i, true));
                        n = add_layer(layers, n, SETTINGS_FROM_SLICE, i->unit ?: i->path, origin_lowering(i));
                }
                levels += n > before;
        }
        return n;
}

/* --- groups --- */

bool group_is_inner(const Group *g) {
        return g->n_clients == 0 && g->n_children > g->n_jobs;
}

const char *group_stored_name(const Group *g) {
        if (g->kind == GROUP_JOB)
                return NULL;
        return g->origin ? g->origin->unit ?: g->origin->path : g->name;
}

size_t group_layers(const Group *g, SettingsLayer layers[static GROUP_LAYERS_MAX]) {
        size_t n = 0;

        layers[n++] = (SettingsLayer){SETTINGS_FROM_OVERRIDE, g->name, &g->effective};
        if (g->job && !g->job->lowers)
                layers[n++] = (SettingsLayer){SETTINGS_FROM_JOB, g->name, &g->job->settings};
        if (g->origin) {
                const SettingsLayer match = {
                                SETTINGS_FROM_CLASS, g->match_detail, &g->match, .is_of_unit = g->match_of_unit};
                n += origin_layers(g->origin, g->kind == GROUP_JOB, settings_is_empty(&g->match) ? NULL : &match,
                                layers + n);
        }
        if (!group_is_inner(g))
                layers[n++] = (SettingsLayer){SETTINGS_FROM_DEFAULT, NULL, &g->manager->default_layer};
        return n;
}

size_t group_lowering_layers(const Group *g, SettingsLayer layers[static GROUP_LOWERING_MAX]) {
        size_t n = origin_lowering_layers(g->origin, g->kind == GROUP_JOB, layers);

        if (g->job && g->job->lowers)
                layers[n++] = (SettingsLayer){SETTINGS_FROM_JOB, g->name, &g->job->settings};
        if (g->lowering_counts)
                layers[n++] = (SettingsLayer){SETTINGS_FROM_OWNER, g->name, &g->lowering};
        return n;
}

void group_lower(const Group *g, SettingsResolved *r) {
        SettingsLayer layers[GROUP_LOWERING_MAX];

        size_t n = group_lowering_layers(g, layers);
        (void) settings_lower_by_layers(r, layers, n, manager_lookup_class, g->manager);
}

/* --- clients and queues --- */

size_t client_own_layers(const Client *c, SettingsLayer layers[static CLIENT_OWN_LAYERS]) {
        layers[0] = (SettingsLayer){SETTINGS_FROM_OVERRIDE, NULL, &c->override};
        layers[1] = (SettingsLayer){SETTINGS_FROM_CLAIM, NULL, &c->claim};
        return 2;
}

size_t client_layers(const Client *c, SettingsLayer layers[static CLIENT_LAYERS_MAX]) {
        size_t n = client_own_layers(c, layers);

        return n + group_layers(c->group, layers + n);
}

size_t client_own_lowering_layers(const Client *c, SettingsLayer layers[static CLIENT_OWN_LOWERING]) {
        size_t n = 0;

        layers[n++] = (SettingsLayer){SETTINGS_FROM_CLAIM, NULL, &c->claim_lowers};
        if (!settings_is_empty(&c->advised))
                layers[n++] = (SettingsLayer){SETTINGS_FROM_CLASS, c->advised_detail, &c->advised};
        if (!settings_is_empty(&c->bound))
                layers[n++] = (SettingsLayer){SETTINGS_FROM_CLASS, c->bound_detail, &c->bound};
        layers[n++] = (SettingsLayer){SETTINGS_FROM_WISH, NULL, &c->wish};
        layers[n++] = (SettingsLayer){SETTINGS_FROM_OWNER, NULL, &c->lowering};
        return n;
}

size_t client_lowering_layers(const Client *c, SettingsLayer layers[static CLIENT_LOWERING_MAX]) {
        size_t n = group_lowering_layers(c->group, layers);

        return n + client_own_lowering_layers(c, layers + n);
}

size_t queue_layers(const Queue *q, SettingsLayer layers[static QUEUE_LAYERS_MAX]) {
        layers[0] = (SettingsLayer){SETTINGS_FROM_OVERRIDE, NULL, &q->override};
        return 1 + client_layers(q->client, layers + 1);
}

size_t queue_own_lowering_layers(
                const Queue *q, int priority, Settings *ret_made, SettingsLayer layers[static QUEUE_OWN_LOWERING]) {
        size_t n = 0;

        if (q->priority_hint < 0 && !settings_has(&q->override, SETTINGS_PRIORITY)) {
                *ret_made = SETTINGS_NULL;
                (void) settings_set_priority(ret_made, MAX(priority + q->priority_hint, POLICY_PRIORITY_MIN));
                layers[n++] = (SettingsLayer){SETTINGS_FROM_WISH, NULL, ret_made};
        }
        layers[n++] = (SettingsLayer){SETTINGS_FROM_WISH, NULL, &q->wish};
        layers[n++] = (SettingsLayer){SETTINGS_FROM_OWNER, NULL, &q->lowering};
        return n;
}
