/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Rank queues: all entities of a tier in one order, whatever their nodes
 *
 * A `ranked` ordering (order.h) gives each entity a rank, and the lowest rank is next. Nodes do not change that order,
 * but a node that its maximum stops has to leave with everything below in one step. So each node has a queue, as in
 * fair.h, and the node that represents a queue in the one above has the rank of that queue's first entity: then the
 * first of the root's queue is the first of all.
 *
 * Choosing an entity moves nothing: the queues hold all entities that could run, and rank_queue_next() searches for the
 * one after a given entity. The structures are those of fair.h, of which a queue by rank uses `waiting`, `places` and
 * `n_here`, and a node `vtime`, its rank, and `seq`, its order among equals over the whole device.
 *
 * Ranks may wrap, and are compared by their difference.
 *
 * Cost. A change is O(log n) on each level of the path to the root. Finding the next after k others looks, on each
 * level, at no more than k + 1 nodes, O(log n) each; k is less than there are places.
 */

#include "fair.h"

void rank_queue_init(FairQueue *q);

/* Away -> here. A node that represents a queue takes that queue's rank; the caller has set an entity's rank. */
void rank_queue_join(FairQueue *q, FairNode *n, uint32_t places);
void rank_queue_leave(FairQueue *q, FairNode *n);

/* Called after the queue that a node represents has changed, while the node is here. Returns whether the queues above
 * have to be updated. */
bool rank_queue_fit(FairQueue *q, FairNode *n, uint32_t places);

/* Changes the rank of a node that is here. */
void rank_queue_put(FairQueue *q, FairNode *n, uint64_t rank, uint64_t seq);

/* The entity after `last` in the queue and the queues below it; `last` NULL: the first. Returns NULL when there is
 * none. */
FairNode *rank_queue_next(const FairQueue *q, const FairNode *last);
