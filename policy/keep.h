/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Keeping the device among equals
 *
 * Whoever launches, waits for the end, and launches again has nothing to do in between, and would lose the device to an
 * equal after every launch: what it gets would follow from the lengths of launches, and not from weights. So who
 * becomes idle while it has its turn may keep its place: it stays in its fair queue as if it were running, is charged
 * for that in fair time (it is its part of the device, and not of the others'), and loses the place as a runner would,
 * or when it is not back in time.
 *
 *   - How long: what its own gaps say (gaps.h), and longer by the credit that it has for a gap that is late
 *     (patience.h); never more than linger_ns. Who is away for longer leaves the queue.
 *   - Whether: only where somebody would lose. It is looked at the lowest queue on the way up that has somebody else in
 *     it, since that is who would have the place: the weights there differ; or they do not, and it is owed more than a
 *     slice there all the same (because the others' launches are longer), until it is owed nothing. So equals with
 *     equal launches take turns and nothing idles. Within a turn of a minimum it is always kept.
 *   - Only for those who were chosen: so there are at most as many as there are places. Against lower tiers see
 *     `linger` in choose.c.
 *
 * Kept time is no run time: a maximum does not count it. A minimum does, for the node was given the device.
 */

#include "core.h"

/* It has just become idle: whether it stays in its queue. */
bool entity_keep_begin(PolicyEntity *e);

/* It is back, and goes on; or it is not, and leaves its queue, and its level if it has another without work. */
void entity_keep_back(PolicyEntity *e);
void entity_keep_end(PolicyEntity *e);

/* Kept: it leaves its queue, and what its ordering says then is done later. */
void entity_keep_drop(PolicyEntity *e);

/* Those who are out of time, or for whom there is no reason any more, leave. Whether there were any. */
bool core_review_kept(Policy *p);

/* After choosing: those who lost their places leave. Whether there were any. */
bool core_drop_kept(Policy *p);

/* When the first wait ends; NSEC_INFINITY where nobody is kept from the device by any. */
uint64_t core_next_keep_end(const Policy *p);

/* Somebody could run and has no place. */
bool core_is_wanted(const Policy *p);
