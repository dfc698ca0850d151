/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Node: the hierarchy of nodes, and their branches
 *
 * Priorities are strict over the whole device, so each tier has a tree of its own: a node has one branch for each tier
 * with an entity below the node, and a branch is a fair queue of the entities and branches right below the node in that
 * tier. It is in its parent's queue with as many places as it has entities below that could run.
 *
 * Invariants, restored by branch_changed() on the way up after every change of a queue:
 *   - a branch is in its parent's queue, with as many places as its own queue has, iff these are more than 0, the node
 *     is not stopped, and the branch has no turn of its own;
 *   - node->places is the sum over its branches.
 * So a stopped node is out of all queues above and costs nothing there; everything below it keeps its order.
 *
 * Bounds. A path has at most POLICY_DEPTH_MAX nodes, so that an event is at most so many times O(log n). A branch has
 * 250 bytes or so, a node 450; there is one branch for each node and tier in use below it, made with the first entity
 * and freed with the last, or when it has no debts any more: debt.h.
 */

#include "core.h"

/* Finds or makes the branch of a node in a tier, and those above it, and takes a reference. NULL: no memory. */
Branch *branch_get(PolicyNode *n, Tier *t);
void branch_put(Branch *b);

/* Called after an entity or branch right below joined or left its queue, or changed its places. */
void branch_changed(Branch *b);

/* Called when the branch's turn of a minimum begins or ends. */
void branch_set_apart(Branch *b, bool apart);

void node_init(PolicyNode *n, Policy *p, PolicyNode *parent);
void node_configure(PolicyNode *n, const PolicyNodeSettings *s);

/* Called after PolicyConfig.timeslice_ns changed, which the length of a turn depends on. */
void node_configure_turns(PolicyNode *n);

/* Called when the node has used up its quota; and when the period has ended. */
void node_stop(PolicyNode *n);
void node_go(PolicyNode *n);

/* Whether a used-up maximum, its own or one above, keeps the node from running. */
bool node_is_stopped(PolicyNode *n);

/* Whether the node or one above has a maximum. */
bool node_is_limited(const PolicyNode *n);

/* The highest branch with an entity that could run; NULL: none. */
Branch *node_highest(const PolicyNode *n);

typedef enum NodeUse {
        NODE_RAN,
        NODE_OWED, /* ran in a turn of the floor, which a minimum does not count */
        NODE_KEPT, /* the device was kept for it, which a maximum does not count */
} NodeUse;

/* Charges the use of one place below the node for `ns` from `from_ns` on, to maxima and minima up to the root.
 * `by_turn`: in the turn of a minimum. */
void node_charge(PolicyNode *n, uint64_t from_ns, uint64_t ns, NodeUse use, bool by_turn);

/* Stops the node, and those up to the root, that have used up their quotas. */
void node_check_quotas(PolicyNode *n);

/* How soon, in ns, the node or one up to the root may have used up its quota, with `extra` runners besides the chosen
 * ones. */
uint64_t node_quota_left(PolicyNode *n, uint32_t extra);

/* Called when an entity right below begins or ceases to be chosen. */
void node_count_chosen(PolicyNode *n, bool chosen);

/* Lets stopped nodes go on whose periods have ended. */
void core_refill(Policy *p);

/* When the next stopped node goes on; NSEC_INFINITY: no entity waits for one. */
uint64_t core_next_refill(const Policy *p);

/* The node that is due its minimum first; NULL: none. */
PolicyNode *core_first_due(const Policy *p);

/* Clears what the node is owed of its minimum. */
void node_forget_due(PolicyNode *n);

void core_indices_init(Policy *p);
