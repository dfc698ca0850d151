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

/* Whether the entity's grant counts for its gang: the entity is ready, and grants are in force on its device, and
 * Preemption= is not off. */
static bool counts(const Entity *e) {
        return e->told_ready && device_grants_in_force(e->device) && e->preemption != PREEMPTION_OFF;
}

static const Entity *gang_lead(const Entity *e) {
        const Entity *m, *lead = NULL;

        CDL_FOREACH2((Entity *) e, m, alike_next)
        if (is_member(m) && counts(m) && (!lead || strcmp(m->device->id, lead->device->id) < 0))
                lead = m;
        return lead;
}

static bool is_outranked(const Entity *e) {
        return counts(e) && e->grant.verdict != VERDICT_RUN && e->device->highest_run > e->settings.priority;
}

static GangVerdict gang_decide(const Entity *e, uint64_t now) {
        const Entity *m, *lead = gang_lead(e);

        if (!lead)
                return GANG_NONE;
        if (lead->grant.verdict == VERDICT_HOLD)
                return GANG_HOLD;
        if (lead->gang == GANG_HOLD && ns_sub(now, lead->gang_since) >= lead->device->config.starve_ns)
                return GANG_RUN;
        CDL_FOREACH2((Entity *) e, m, alike_next)
        if (m != lead && is_member(m) && is_outranked(m))
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

/* The highest priority among the entities that run on the device, for is_outranked(). */
static int device_highest_run(const Device *d) {
        int highest = POLICY_LEVEL_NONE;
        const Entity *e;

        DL_FOREACH2(d->entities, e, device_next)
                if (e->told_ready && e->grant.verdict == VERDICT_RUN)
                        highest = MAX(highest, e->settings.priority);
        return highest;
}

void gang_note_runners(Device *d) {
        d->highest_run = device_highest_run(d);
}

void gang_update_device(Device *d, uint64_t now) {
        Entity *e, *m;

        DL_FOREACH2(d->entities, e, device_next) {
                if (!is_member(e))
                        continue;
                GangVerdict v = gang_decide(e, now);
                CDL_FOREACH2(e, m, alike_next)
                if (is_member(m))
                        gang_set(m, v, now);
        }
}

Verdict gang_entity_verdict(const Entity *e) {
        if (e->gang != GANG_NONE)
                return e->gang == GANG_HOLD ? VERDICT_HOLD : VERDICT_RUN;
        return device_grants_in_force(e->device) ? e->grant.verdict : VERDICT_RUN;
}
