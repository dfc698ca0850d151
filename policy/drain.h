/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Drain: tails, the launches that run on after a verdict turned to hold
 *
 * A hold stops new launches, and not those in flight. So an entity whose grant turns to hold while it has work is
 * draining: it still has the device until the caller says that its launches have ended (entity_drained()), or it is
 * idle, granted again, or freed. The entity that gets its place waits behind it, and is charged from its own start; the
 * time until then is charged to the draining entity, in fair time, in maxima and minima, and in its usage.
 *
 * Turns do not overlap. An entity that is chosen is granted only when there is a place that no tail of an equal has,
 * nor one of a higher tier: granted entities and such tails together are at most as many as there are places. Devices
 * switch between processes by themselves, every 2 ms or so: an equal that was granted at once would take a part of the
 * device from a tail that is charged for all of it, and shares would depend on the lengths of launches. The same is
 * true of minima: the turn of a minimum waits for all tails, begins when it is granted, and its own tail is waited for
 * by all. The wait costs a hand-over, some 0.1 ms a turn, in which nothing runs. No entity is charged for that.
 *
 *   - Granted at once: an entity of a higher tier than the tail, unless that is of the turn of a minimum; one that is
 *     starved; and one that drains itself, because it takes the place of its own tail. Its launches wait behind the
 *     tail's, or before them, or in turns with them, as the device likes. What the tail had of that time the caller
 *     tells by entity_tail_had(): the rest is charged to the granted entity, as if there were no tail. What it does not
 *     tell is the tail's.
 *   - The wait for a tail ends POLICY_TAIL_WAIT after the tail began. Then the entity is granted beside it.
 *   - A waiting entity is chosen, and held: the wait counts in drain_wait_ns, and the floor counts it like any
 *     other hold.
 *
 * Places. Of several draining entities as many have the device as there are places, the longest held first. The most
 * recently granted entities, for which no place is free, are `blocked`.
 *
 * Idle ones. An entity that is suspended, stopped or frozen does not want the device, but has it until its launches
 * have ended: it drains while it is idle (entity_tail()), and is not granted in advance meanwhile.
 *
 * Bound. An entity that never drains is charged for POLICY_TAIL_MAX, and entities granted meanwhile are charged from
 * then on. A kernel of that length would cost them as much. The charge is a debt, which neither waiting nor going away
 * for a moment clears.
 *
 * Cost: O(concurrency) on top of what an event costs, and O(log n) a level for each draining entity; and a look at the
 * entities that began to drain within POLICY_TAIL_WAIT. These are few: in the running tier at most as many as there are
 * places, besides stopped ones.
 */

#include "core.h"

/* Called when its grant turns to hold while it is ready, or it is stopped; and when its tail has ended (or it had
 * none). */
void entity_drain_begin(PolicyEntity *e);
void entity_drain_end(PolicyEntity *e);

/* Takes the entity out of the draining ones for a time that its tail had not, and puts it back. The first returns the
 * entity that drains after it, for the second. */
PolicyEntity *entity_drain_pause(PolicyEntity *e);
void entity_drain_resume(PolicyEntity *e, PolicyEntity *next);

/* Sets awaits_tail of chosen entities that have to wait for tails of equals before their grant. Called, while entities
 * drain, after those that lost their places are held. */
void core_await_tails(Policy *p);

/* When the first of these waits ends, of which there is one. */
uint64_t core_next_await_end(const Policy *p);

/* Whether granted or chosen entities may be blocked. */
static inline bool core_has_tails(const Policy *p) {
        return p->draining || p->n_awaiting > 0;
}

/* Marks the blocked entities, and all above, so that fair time does not charge them; and removes the marks. */
void core_block(Policy *p);
void core_unblock(Policy *p);

/* Charges the tails for `ns` from `from_ns` on. */
void core_charge_tails(Policy *p, uint64_t from_ns, uint64_t ns);

void entity_set_awaits_tail(PolicyEntity *e, bool awaits);

/* Whether it is below the node that has the turn of a minimum. */
bool entity_has_turn(const PolicyEntity *e);

/* Whether the turn of a minimum waits for tails; it begins when it is granted. */
bool core_turn_awaits(const Policy *p);
