/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The core's side of an ordering: asks it, and does what it says
 *
 * What an ordering may say stands in order.h. A call of it is followed by entity_follow(), which moves the entity to
 * its tier and to its place in the queue, and sets its alarm. Tiers that are `ranked` have the queues of rank.h, all
 * others those of fair.h.
 */

#include "core.h"

static inline int core_level_of(const Policy *p, const Tier *t) {
        return (int) (t - p->tiers) + POLICY_PRIORITY_MIN;
}

/* How long a turn is there. */
uint64_t tier_slice(const Tier *t);

/* What they weigh among those beside them. */
uint32_t entity_weight(const PolicyEntity *e);
uint32_t node_weight(const PolicyNode *n);

void ordering_init(Policy *p, const OrderOps *ops);

/* Before the entity is in any tier: says its level. */
void entity_order_init(PolicyEntity *e);
void entity_order_end(PolicyEntity *e);

/* It is of another from now on. */
void entity_set_party(PolicyEntity *e, Party *party);

/* After its settings changed; before it joins its queue. */
void entity_hint(PolicyEntity *e);
void entity_enqueue(PolicyEntity *e);

/* After it has left its queue. What the ordering said of it meanwhile is done by entity_follow() or any later call. */
void entity_dequeue(PolicyEntity *e);
void entity_follow(PolicyEntity *e);

/* Those who are chosen, and are not blocked, ran for so long. What somebody had in flight did. */
void core_charge_chosen(Policy *p, uint64_t ns);
void entity_charge(PolicyEntity *e, uint64_t ns);

/* Asks of those whose budgets are used up, or whose alarms have come. Whether there were any. */
bool core_tick(Policy *p);

/* When the next one comes; NSEC_INFINITY where that changes nothing. */
uint64_t core_next_tick(const Policy *p);

/* The first of what is in that queue and below are chosen. */
void core_choose_ranked(Branch *b, uint32_t slots);

/* Somebody of a higher level has another device: PolicyOps.outside(). */
bool core_is_outranked(const Policy *p, const Tier *t);
