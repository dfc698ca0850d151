/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues by rank: the entities of a tier in one order, whatever nodes they are below
 *
 * An ordering that is not fair (order.h) says a rank of each entity, and those of the lowest ranks are next. Nodes do
 * not change that, but what a node's maximum stops is out, with all below it, in one step. So there is a queue for
 * each node, as with fair.h, and what stands for a queue in the one above has the rank of its first: then the first of
 * the root's is the first of all.
 *
 * Nothing moves when somebody is chosen: the queues hold whoever could run, and the next in the order after somebody is
 * found by looking. The structures are those of fair.h, of which a queue by rank uses `waiting`, `places` and `n_here`,
 * and a node `vtime`, its rank, and `seq`, its order among equals over the whole device.
 *
 * Ranks may wrap, and are compared by their difference.
 *
 * Cost. A change is O(log n) on each level of the path to the root. Finding the next after k others looks, on each
 * level, at no more than k + 1 nodes, O(log n) each; k is less than there are places.
 */

#include "fair.h"

void rank_queue_init(FairQueue *q);

/* Away -> here. What stands for a queue takes its rank from that; an entity's was set by the caller. */
void rank_queue_join(FairQueue *q, FairNode *n, uint32_t places);
void rank_queue_leave(FairQueue *q, FairNode *n);

/* Here, and it stands for a queue: after that has changed. Whether it makes a difference for those above. */
bool rank_queue_fit(FairQueue *q, FairNode *n, uint32_t places);

/* Here: another rank. */
void rank_queue_put(FairQueue *q, FairNode *n, uint64_t rank, uint64_t seq);

/* The first entity in the queue and those below it that comes after `last`; NULL there: the first. NULL: none. */
FairNode *rank_queue_next(const FairQueue *q, const FairNode *last);
