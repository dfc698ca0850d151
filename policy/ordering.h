/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Calls an ordering, and applies its answers
 *
 * order.h defines an ordering's answers. After a call of an ordering, entity_follow() moves the entity to its tier and
 * its place in the queue, and sets its alarm. `ranked` tiers have the queues of rank.h, all others those of fair.h.
 */

#include "core.h"

void ordering_init(Policy *p, const OrderOps *ops);

/* Called before the entity is in any tier: sets its level. */
void entity_order_init(PolicyEntity *e);
void entity_order_end(PolicyEntity *e);

/* Moves the entity to another party. */
void entity_set_party(PolicyEntity *e, Party *party);

/* Called after its settings changed; and before it joins its queue. */
void entity_hint(PolicyEntity *e);
void entity_enqueue(PolicyEntity *e);

/* Called after it has left its queue. entity_follow(), or any later call, applies the ordering's answer. */
void entity_dequeue(PolicyEntity *e);
void entity_follow(PolicyEntity *e);

/* Charges the chosen entities that are not blocked for `ns`, by an ordering that has charge(); and one entity for its
 * tail, by any. */
void core_charge_chosen(Policy *p, uint64_t ns);
void entity_charge(PolicyEntity *e, uint64_t ns);

/* Of an ordering that has tick(): calls it for entities whose budget is used up, or whose alarm has come. Returns
 * whether there were any. */
bool core_tick(Policy *p);

/* When the next tick is due; NSEC_INFINITY: none that matters. */
uint64_t core_next_tick(const Policy *p);
