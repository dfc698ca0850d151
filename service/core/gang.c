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

static Entity *gang_lead(Entity *e) {
        Entity *m, *lead = NULL;

        CDL_FOREACH2(e, m, alike_next)
        if (is_member(m) && counts(m) && (!lead || strcmp(m->device->id, lead->device->id) < 0))
                lead = m;
        return lead;
}

static bool is_outranked(const Entity *e) {
        return counts(e) && e->grant.verdict != VERDICT_RUN && e->device->highest_run > e->settings.priority;
}

/* Whether a gang that is outranked has a turn all the same, as its lead's policy would give it one: as long as
 * StarveRun= says, each time that it was held for StarveAfter=. */
static bool is_owed(Entity *lead, uint64_t now) {
        const PolicyConfig *c = &lead->device->config;
        bool owed = now < lead->gang_owed_until;

        if (!owed && (!gang_is_held(lead) || c->starve_run_ns == 0))
                return false;
        if (!owed && ns_sub(now, lead->gang_since) >= c->starve_ns) {
                lead->gang_owed_until = now + c->starve_run_ns;
                owed = true;
        }
        lead->gang_turn_at = owed ? lead->gang_owed_until : ns_add(lead->gang_since, c->starve_ns);
        entity_review_by(lead, lead->gang_turn_at);
        return owed;
}

static GangVerdict gang_decide(Entity *e, uint64_t now) {
        const Entity *m;
        Entity *lead = gang_lead(e);

        if (!lead)
                return GANG_NONE;
        if (lead->grant.verdict == VERDICT_HOLD)
                return GANG_HOLD;
        CDL_FOREACH2(e, m, alike_next)
        if (m != lead && is_member(m) && is_outranked(m))
                return is_owed(lead, now) ? GANG_RUN : GANG_HOLD;
        return GANG_RUN;
}

/* --- draining together --- */

/* When launches in flight are taken for waiting ones: after twice the time that they usually take, within these. */
#define GANG_STUCK_MIN_NS NSEC_PER_MSEC
#define GANG_STUCK_MAX_NS (POLICY_TAIL_WAIT / 4)

static uint64_t drain_until(const Entity *e) {
        return e->gang_since + POLICY_TAIL_WAIT;
}

static void look_by(Entity *e, uint64_t at) {
        e->gang_look_at = MIN(e->gang_look_at, at);
        entity_review_by(e, at);
}

void gang_tail_began(Entity *e, uint64_t now) {
        uint64_t own = ladder_entity_drain(e);

        e->gang_stuck_at = now + GANG_STUCK_MIN_NS;
        if (own != PREEMPTION_UNKNOWN)
                e->gang_stuck_at = now + CLAMP(2 * own, (uint64_t) GANG_STUCK_MIN_NS, (uint64_t) GANG_STUCK_MAX_NS);
        look_by(e, e->gang_stuck_at);
}

void gang_tail_ended(Entity *e) {
        e->gang_look_at = NSEC_INFINITY;
        if (gang_is_held(e))
                device_touch(e->device);
}

/* A hold that reaches further than the gate takes launches off, and leaves nobody waiting. */
static bool is_at_gate(const Entity *e) {
        return e->choice.level < LEVEL_DEQUEUE;
}

/* Whether it drains, or that has ended and its hold is not written yet. */
static bool may_still_launch(const Entity *e) {
        return e->gang == GANG_DRAIN || (e->gang == GANG_HOLD && e->preemption != PREEMPTION_OFF && e->held_since == 0);
}

bool gang_drains(Entity *e, uint64_t now) {
        const Entity *m;

        if (!is_member(e) || !gang_is_held(e) || now >= drain_until(e))
                return false;
        CDL_FOREACH2(e, m, alike_next)
        if (is_member(m) && ((m != e && m->n_tails > 0 && is_at_gate(m)) || may_still_launch(m))) {
                look_by(e, drain_until(e));
                return true;
        }
        return false;
}

void gang_review(Entity *e, uint64_t now) {
        if (now < gang_review_at(e))
                return;
        if (now >= e->gang_look_at)
                e->gang_look_at = NSEC_INFINITY;
        if (now >= e->gang_turn_at)
                e->gang_turn_at = NSEC_INFINITY;
        entity_words_changed(e); /* its tail is looked at, too */
        device_touch(e->device);
}

/* Whether its hold is written: before, it may have launches in flight that are no tail yet. */
static bool is_known(const Entity *e) {
        return e->gang == GANG_DRAIN || (e->gang == GANG_HOLD && e->held_since > 0);
}

/* Whether an entity of a higher priority runs on its device, by its grant or as a member of a gang. */
static bool runs_below(const Entity *e) {
        const Entity *o;

        DL_FOREACH2(e->device->entities, o, device_next)
                if (o->told_ready && o->settings.priority > e->settings.priority &&
                                gang_entity_verdict(o) == VERDICT_RUN)
                        return true;
        return false;
}

static bool may_drain(const Entity *e, uint64_t now) {
        const Entity *m;

        if (!is_known(e) || now >= drain_until(e) || e->n_tails > 0 || !is_at_gate(e) || e->device->global)
                return false;
        CDL_FOREACH2((Entity *) e, m, alike_next)
        if (m != e && is_member(m) && m->n_tails > 0 && is_at_gate(m) && now >= m->gang_stuck_at)
                return !runs_below(e);
        return false;
}

/* Since when the gang is held. A member that joins later counts from then on, too. */
static uint64_t held_since(const Entity *e, uint64_t now) {
        const Entity *m;

        CDL_FOREACH2((Entity *) e, m, alike_next)
        if (is_member(m) && gang_is_held(m))
                return m->gang_since;
        return now;
}

static void gang_set(Entity *e, GangVerdict v, uint64_t now) {
        bool held = gang_is_held(e);

        if (v == GANG_HOLD && may_drain(e, now)) {
                v = GANG_DRAIN;
                look_by(e, drain_until(e));
        }
        if (e->gang == v)
                return;
        if (v != GANG_HOLD && v != GANG_DRAIN)
                e->gang_since = now;
        else if (!held)
                e->gang_since = held_since(e, now);
        e->gang = v;
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
