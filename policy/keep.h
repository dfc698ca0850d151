/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Keep: keeps an idle entity's place among equals
 *
 * An entity that waits for each launch before the next one is idle in between, and would lose the device to an equal
 * after every launch: shares would depend on the lengths of launches, and not on weights. So an entity that becomes
 * idle in its turn may keep its place: it stays in its fair queue as if it ran, is charged for that in fair time (the
 * time counts in its share), and loses the place as a runner would, or when it is not back in time.
 *
 *   - How long: as its own gaps say (gaps.h), and longer by its credit for late gaps
 *     (patience.h); at most linger_ns. An entity that is away for longer leaves the queue.
 *   - Whether: only if shares would suffer. The lowest queue on the way up that has another node decides,
 *     because that node would get the place: the weights there differ, or the entity is owed more than a
 *     slice there nevertheless (because the others' launches are longer), until it is owed nothing. So equals with
 *     equal launches take turns and nothing idles. Within a turn of a minimum it is always kept.
 *   - Only chosen entities: so there are at most as many as there are places. Against lower tiers see
 *     `linger` in choose.c.
 *
 * Kept time is not run time: a maximum does not count it. A minimum does, because the node had the device.
 */

#include "core.h"

/* Called when the entity becomes idle, for as long as its gaps are worth waiting for (gaps.h). Returns whether it stays
 * in its queue. */
bool entity_keep_begin(PolicyEntity *e, uint64_t foreseen_ns);

/* The kept entity is back, and goes on; or it is not, and leaves its queue, and its tier if it has another level when
 * idle. */
void entity_keep_back(PolicyEntity *e);
void entity_keep_end(PolicyEntity *e);

/* Takes a kept entity out of its queue; the ordering's answer to that is applied later. */
void entity_keep_drop(PolicyEntity *e);

/* Ends keeping entities whose time or reason has ended. Returns whether there were any. */
bool core_review_kept(Policy *p);

/* Called after choosing: ends keeping entities that lost their places. Returns whether there were any. */
bool core_drop_kept(Policy *p);

/* When the first of these waits ends; NSEC_INFINITY: none keeps another entity from the device. */
uint64_t core_next_keep_end(const Policy *p);
