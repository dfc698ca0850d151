/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The hierarchy: nodes, and their branches
 *
 * Priorities are strict over the whole device, so each tier has a tree of its own: a node has one branch for each tier
 * that something below it is in, and a branch is a fair queue of what is right below the node in that tier, entities
 * and other branches. It stands in its parent's queue for as many places as there are entities below that could run.
 *
 * Invariants, restored by branch_changed() on the way up after every change of a queue:
 *   - a branch is in its parent's queue, with as many places as its own queue has, iff that is more than none, the node
 *     is not stopped, and the branch has no turn of its own;
 *   - node->places is the sum over its branches.
 * So a stopped node is out of all queues above and costs nothing there; what is below it keeps its order for later.
 *
 * Bounds. A path has at most POLICY_DEPTH_MAX nodes, so that an event is at most so many times O(log n). A branch has
 * 250 bytes or so, a node 450; there is one branch for each node and tier in use below it, made with the first entity
 * and freed with the last, or when it owes nothing any more: debt.h.
 */

#include "core.h"

/* The branch of a node in a tier, made with those above when it is not there. NULL: no memory. */
Branch *branch_get(PolicyNode *n, Tier *t);
void branch_put(Branch *b);

/* After something right below it joined or left its queue, or changed its places. */
void branch_changed(Branch *b);

/* The turn of a branch begins or ends. */
void branch_set_apart(Branch *b, bool apart);

void node_init(PolicyNode *n, Policy *p, PolicyNode *parent);
void node_configure(PolicyNode *n, const PolicyNodeSettings *s);

/* After PolicyConfig.timeslice_ns changed: what a turn is depends on it. */
void node_configure_turns(PolicyNode *n);

/* It has used up its quota; the period has ended. */
void node_stop(PolicyNode *n);
void node_go(PolicyNode *n);

/* Kept from running by a maximum, its own or one above. */
bool node_is_stopped(PolicyNode *n);

/* Some maximum counts for it. */
bool node_is_limited(const PolicyNode *n);

/* The highest branch with something that could run; NULL when there is none. */
Branch *node_highest(const PolicyNode *n);

typedef enum NodeUse {
        NODE_RAN,
        NODE_OWED, /* ran by a turn of the floor, which is no part of a minimum */
        NODE_KEPT, /* was kept for it, which a maximum does not count */
} NodeUse;

/* One place was used below it from then on, for so long. Maxima and minima count it up to the root. */
void node_charge(PolicyNode *n, uint64_t from_ns, uint64_t ns, NodeUse use);

/* Stops those up to the root that have used up their quotas. */
void node_check_quotas(PolicyNode *n);

/* How soon one of those up to the root may have used up its quota, with `extra` runners besides the chosen ones. */
uint64_t node_quota_left(PolicyNode *n, uint32_t extra);

/* An entity right below it begins or ceases to be chosen. */
void node_count_chosen(PolicyNode *n, bool chosen);

/* Nodes go on whose periods have ended. */
void core_refill(Policy *p);

/* When the next one goes on; NSEC_INFINITY when none is waited for. */
uint64_t core_next_refill(const Policy *p);

/* The one that is due first; NULL when none is waited for. */
PolicyNode *core_first_due(const Policy *p);

/* It is owed nothing. */
void node_forget_due(PolicyNode *n);

void core_indices_init(Policy *p);
