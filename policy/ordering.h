/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The core's side of an ordering: asks it, and does what it says
 *
 * What an ordering may say stands in order.h. A call of it is followed by entity_follow(), which moves the entity to
 * its tier and to its place in the queue, and sets its alarm. Where the ordering is fair, ranks, slices and alarms are
 * not used, and the functions here that are about them do nothing.
 */

#include "core.h"

/* Whether queues are those of rank.h. */
static inline bool core_is_ranked(const Policy *p) {
        return !p->ordering->fair;
}

void ordering_init(Policy *p, const OrderOps *ops);

/* Before the entity is in any tier: says its level. */
void entity_order_init(PolicyEntity *e);
void entity_order_end(PolicyEntity *e);

/* After its settings changed; before it joins its queue. */
void entity_hint(PolicyEntity *e);
void entity_enqueue(PolicyEntity *e);

/* After it has left its queue. What the ordering said of it meanwhile is done by entity_follow() or any later call. */
void entity_dequeue(PolicyEntity *e);
void entity_follow(PolicyEntity *e);

/* Those who are chosen, and are not blocked, ran for so long. What somebody had in flight did. */
void core_charge_chosen(Policy *p, uint64_t ns);
void entity_charge(PolicyEntity *e, uint64_t ns);

/* Asks of those whose slices or alarms have come. Whether there were any. */
bool core_tick(Policy *p);

/* When the next one comes; NSEC_INFINITY where that changes nothing. */
uint64_t core_next_tick(const Policy *p);

/* The first of what is in that queue and below are chosen. */
void core_choose_ranked(Branch *b, uint32_t slots);

/* Idle, in its place still: it is next before all who have no place in that queue and below. */
bool entity_is_first(const PolicyEntity *e, const Branch *b);

/* Somebody of a higher level has another device: PolicyOps.outside(). */
bool core_is_outranked(const Policy *p, const Tier *t);
