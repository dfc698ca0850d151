/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Gangs
 */

#include <utlist.h>

#include "gang.h"
#include "ladder.h"
#include "turn.h"

static bool is_member(const Entity *e) {
        return e->settings.gang && e->kind != ENTITY_QUEUE && e->policy;
}

static bool is_of_same_gang(const Entity *a, const Entity *b) {
        return a->group == b->group && a->kind == b->kind && a->client == b->client && is_member(b);
}

/* Whether its policy's word about it is one about work. */
static bool counts(const Entity *e) {
        return e->told_ready && device_grants_in_force(e->device) && ladder_setting(e) != PREEMPTION_OFF;
}

static const Entity *gang_lead(const Entity *e) {
        const Entity *m, *lead = NULL;

        DL_FOREACH2(e->group->entities, m, group_next)
                if (is_of_same_gang(e, m) && counts(m) &&
                                (!lead || strcmp(m->device->id, lead->device->id) < 0))
                        lead = m;
        return lead;
}

static bool is_outranked(const Entity *e) {
        const Entity *o;

        if (!counts(e) || e->grant.verdict == VERDICT_RUN)
                return false;
        DL_FOREACH2(e->device->entities, o, device_next)
                if (o->told_ready && o->grant.verdict == VERDICT_RUN &&
                                o->settings.priority > e->settings.priority)
                        return true;
        return false;
}

static GangVerdict gang_decide(const Entity *e, uint64_t now) {
        const Entity *m, *lead = gang_lead(e);

        if (!lead)
                return GANG_NONE;
        if (lead->grant.verdict == VERDICT_HOLD)
                return GANG_HOLD;
        if (lead->gang == GANG_HOLD && ns_sub(now, lead->gang_since) >= lead->device->config.starve_ns)
                return GANG_RUN;
        DL_FOREACH2(e->group->entities, m, group_next)
                if (m != lead && is_of_same_gang(e, m) && is_outranked(m))
                        return GANG_HOLD;
        return GANG_RUN;
}

static void gang_set(Entity *e, GangVerdict v, uint64_t now) {
        if (e->gang == v)
                return;
        e->gang = v;
        e->gang_since = now;
        entity_words_changed(e);
        device_touch(e->device);
}

void gang_update_device(Device *d, uint64_t now) {
        Entity *e, *m;

        if (d->manager->n_gangs == 0)
                return;
        DL_FOREACH2(d->entities, e, device_next) {
                if (!is_member(e))
                        continue;
                GangVerdict v = gang_decide(e, now);
                DL_FOREACH2(e->group->entities, m, group_next)
                        if (is_of_same_gang(e, m))
                                gang_set(m, v, now);
        }
}

Verdict gang_entity_verdict(const Entity *e) {
        if (e->gang != GANG_NONE)
                return e->gang == GANG_HOLD ? VERDICT_HOLD : VERDICT_RUN;
        return device_grants_in_force(e->device) ? e->grant.verdict : VERDICT_RUN;
}
