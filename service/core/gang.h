/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Gang: a group that is held and let run on all its devices together (Gang=yes)
 *
 * A job whose processes wait for each other across devices (a collective) gains nothing from one device while it is
 * held on another. The members of a gang are the entities of one group (or of one client with settings of its own) on
 * several devices. While one of them is ready on a device whose grants are in force, all have one verdict:
 *
 *   - the lead is the ready member whose device has the smallest id; all members get the grant of the lead's policy,
 *   - but are held while, on another member's device, an entity of higher priority runs to which that policy gives
 *     precedence,
 *   - and this exception ends, for one turn, when the gang has been held for as long as the lead's policy lets an
 *     entity starve.
 *
 * On each other device, an entity of the same priority may have the turn: the gang then shares the device with it until
 * that turn ends.
 *
 * A gang drains together. A hold at the gate leaves launches in flight, and some of them wait for a launch of another
 * member, which the hold stops. So when launches in flight of a member have not ended after a while, those members of
 * the gang that have none may launch, one at a time in each queue, until these have ended: GANG_DRAIN. While a member
 * has a tail (tail.h), or may launch like this, the tails of all have not ended for the policies: the gang is charged
 * for that time, and equals wait. It ends POLICY_TAIL_WAIT after the hold began. No member launches on a device where
 * an entity of a higher priority runs, or whose policy is global. Launches that a driver takes off the device keep
 * nobody waiting.
 *
 * Why no gang waits for ever. A gang's verdict never depends on another gang's verdict, only on grants, and grants
 * never depend on gangs: policies are told of readiness as it is. So there is no circle of gangs that wait for each
 * other. A gang waits for entities of higher priority, or for its turn on one device, the lead's. So among equals it
 * waits for exactly one policy, which gives turns to all. Entities of higher priority hold it at most up to the floor
 * of the lead's device (StarveAfter=); from then on only the lead's grant counts, and the same floor makes that grant.
 * Besides, every hold ends with its lease. tests/model/gang.pml checks that of gangs in a ring of devices.
 */

#include "client.h"

/* Called after the device's policy has decided, where there are gangs. */
void gang_note_runners(Device *d);

/* Called when that is done for all devices of a turn: updates the verdicts of the device's gangs on all their devices.
 * Cost: a look at its entities, and at all members of each gang that is there. */
void gang_update_device(Device *d, uint64_t now);

/* Whether the entity is held as a member of a gang, maybe but for one launch at a time. */
static inline bool gang_is_held(const Entity *e) {
        return e->gang == GANG_HOLD || e->gang == GANG_DRAIN;
}

/* Called when the entity got its first tail, and when the last one has ended. */
void gang_tail_began(Entity *e, uint64_t now);
void gang_tail_ended(Entity *e);

/* Whether the gang's launches in flight have not all ended, so that the tail of this member has not, either. Has that
 * looked at again when it can be so no longer. */
bool gang_drains(Entity *e, uint64_t now);

/* Called at gang_review_at(). */
void gang_review(Entity *e, uint64_t now);

static inline uint64_t gang_review_at(const Entity *e) {
        return MIN(e->gang_look_at, e->gang_turn_at);
}

/* The member's verdict: its gang's, or that of its own grant when the gang has none. */
Verdict gang_entity_verdict(const Entity *e);
