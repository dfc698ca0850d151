/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tails: what runs on after a verdict turned to hold
 *
 * A hold stops launches and not what was launched. So an entity whose grant turns to hold while it has work is
 * draining: the device is still its own until the caller says that what it had in flight is over (entity_drained()), or
 * it is idle, granted again, or freed. Whoever has its place waits behind it, and is charged from his own start; the
 * time until then is the drainer's, in fair time, in maxima and minima, and in its usage.
 *
 * Among equals. Who was chosen in the ordinary turn of his tier is not granted before there is a place that no tail
 * of an equal has: those of a tier who are granted, and its tails, are at most as many as there are places. Devices
 * take turns between processes by themselves, of some 2 ms: an equal that was granted at once would take a part of
 * the device from a tail that is charged for all of it, and what each gets would follow from the lengths of launches.
 * It costs a hand-over, some 0.1 ms a turn, in which nothing runs. Nobody is charged for that.
 *
 *   - At once is granted whoever has precedence: of another tier than the tail, in the turn of a minimum, or starved;
 *     and who drains himself, for he takes the place of his own tail. He waits behind tails as on a device that takes
 *     launches first come, first served.
 *   - Nobody waits for a tail for longer than POLICY_TAIL_WAIT from when it began. Then he is granted beside it.
 *   - Who waits so is chosen, and is held: his wait is a part of drain_wait_ns, and the floor counts it like any
 *     other hold.
 *
 * Places. Of several that drain as many have the device as there are places, the longest held first. Those behind whom
 * nothing is free are the most recently granted: they are `blocked`.
 *
 * Idle ones. An entity that is suspended, stopped or frozen does not want the device, and has it all the same until its
 * launches are over: it drains while it is idle (entity_tail()), and is not granted in advance meanwhile.
 *
 * Bound. Who does not say that it has drained is charged for POLICY_TAIL_MAX, and those who were granted meanwhile from
 * then on. A kernel of that length would cost them as much. What it was charged is a debt, which neither waiting nor
 * going away for a moment washes off.
 *
 * Cost: O(concurrency) on top of what an event costs, and for each that drains, O(log n) a level; and a look at those
 * that began to drain within POLICY_TAIL_WAIT, who are few: in the tier that runs no more than there are places, but
 * for those who were stopped.
 */

#include "core.h"

/* Its grant turns to hold while it is ready, or it is stopped; and its tail is over (or there was none). */
void entity_drain_begin(PolicyEntity *e);
void entity_drain_end(PolicyEntity *e);

/* The device has its tail now. */
bool entity_has_tail(const PolicyEntity *e);

/* Of those chosen, notes who has to wait for tails of equals before he is granted; after those who lost their places
 * are held. */
void core_await_tails(Policy *p);

/* When the first of those tails is waited for no longer; NSEC_INFINITY when nobody waits. */
uint64_t core_next_await_end(const Policy *p);

/* How many of those that are granted and ready wait for tails. They are the first that are ready in Policy.granted. */
size_t core_n_blocked(const Policy *p);
bool entity_is_blocked(const PolicyEntity *e);

/* Marks them on the way up, so that fair time passes them over; and takes the marks off. */
void core_block(Policy *p);
void core_unblock(Policy *p);

/* The tails used their places from then on, for so long. */
void core_charge_tails(Policy *p, uint64_t from_ns, uint64_t ns);

void entity_set_awaits_tail(PolicyEntity *e, bool awaits);

/* When the first tail counts no longer; NSEC_INFINITY when nobody drains. */
uint64_t core_next_drain_end(const Policy *p);
