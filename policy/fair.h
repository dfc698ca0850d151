/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Weighted fair virtual time: which of a set of equals run on `slots` places
 *
 * Every node has a virtual time that advances, while it runs and somebody waits, by the time it ran divided by its
 * weight. Who is furthest behind runs next; so in the long run virtual times stay together, which is to say that run times
 * stand in the ratio of the weights.
 *
 * The virtual time of the queue, V, is the average of its nodes weighted by their weights: what each would have if the
 * device were divided without quanta. A node's lag, V minus its own time, is what it is still owed (or, negative, has had
 * too much).
 *
 *   Coming and going. A node that leaves with lag takes it with it as credit, and comes back as far behind V as it
 *   was: it waited for that time, and a job of many short launches would lose its share if every wait were
 *   forgotten. Time away earns nothing: V may have moved on, the credit did not. A node that leaves ahead of V keeps its
 *   own time, so that its debt is paid as V catches up, and leaving and coming back cannot wash it away. Credit and debt
 *   are bounded by FAIR_LAG_SLICES slices of its own.
 *
 *   Slices. A runner keeps its place for a slice, and beyond it until the first waiting node is not ahead of it. A waiting
 *   node that is a whole slice (of the runner's) behind the runner takes its place at once: without others coming
 *   and going that is the end of the slice anyway; with them it is how credit is redeemed.
 *
 *   Several slots. A node cannot run on two, so its weight counts for at most one slot: the heaviest runners whose
 *   weight is worth more than an equal part of the slots left are `full`; they keep their slot, and advance with the
 *   average of the others. Only runners can be full: a heavy node that waits becomes a runner within a slice.
 *
 *   Nobody waits. Then nobody is charged, for whatever the weights everybody has a slot: it is as if all were full.
 *
 * Virtual times wrap; only differences count, and those are bounded by slices. The cost of an operation is O(log n) for
 * n waiting nodes, and O(slots), which is a small number by configuration.
 */

#include <stdint.h>

#include "heap.h"

#define FAIR_SCALE                                                                                          \
        UINT64_C(10000) /* virtual time per ns at weight 1: a ns counts at the highest weight, too */
#define FAIR_LAG_SLICES 2U
#define FAIR_STEP_MAX                                                                                       \
        (UINT64_C(1) << 48) /* ns; a single step beyond three days is no run time of anybody's */

__extension__ typedef __int128 fair_wide_t;

typedef enum FairState {
        FAIR_AWAY,
        FAIR_WAITING,
        FAIR_RUNNING,
} FairState;

typedef struct FairNode FairNode;

struct FairNode {
        HeapNode heap;         /* waiting */
        FairNode *prev, *next; /* running */
        FairState state;
        uint32_t weight;
        uint64_t vtime;
        uint64_t credit;        /* away: how far behind V it comes back; 0 when `vtime` says it is ahead */
        uint64_t slice_used_ns; /* running: since it got its place */
        uint64_t seq;           /* order among equal virtual times */
};

typedef struct FairQueue {
        Heap waiting;      /* furthest behind first */
        FairNode *running; /* heaviest first */
        uint32_t n_running, n_full;
        uint32_t slots_left; /* slots and weight that the full ones leave to the rest */
        uint64_t weight_left;
        uint64_t weight; /* of all, waiting and running */
        uint64_t origin; /* V is origin + sum / weight */
        fair_wide_t sum; /* of weight * (vtime - origin) */
        uint64_t seq;
} FairQueue;

void fair_queue_init(FairQueue *q);

static inline size_t fair_queue_n(const FairQueue *q) {
        return q->waiting.n + q->n_running;
}

/* Starts away, owed nothing. */
void fair_node_init(FairNode *n, FairQueue *q, uint32_t weight);

/* Away -> waiting; waiting or running -> away. */
void fair_queue_join(FairQueue *q, FairNode *n, uint64_t slice_ns);
void fair_queue_leave(FairQueue *q, FairNode *n, uint64_t slice_ns);

/* A node that is away changes its queue, and keeps what it is owed or owes. */
void fair_node_move(FairNode *n, FairQueue *from, FairQueue *to);

/* In any state; what it is owed or owes stays the same time. */
void fair_queue_reweight(FairQueue *q, FairNode *n, uint32_t weight);

/* The runners ran for that long. */
void fair_queue_advance(FairQueue *q, uint64_t ns);

/* Decides who runs, on at most `slots` (1 or more) places. */
void fair_queue_choose(FairQueue *q, uint32_t slots, uint64_t slice_ns);

/* How long until choosing again may change anything by itself; NSEC_INFINITY when nobody waits. Not 0 after
 * fair_queue_choose(). */
uint64_t fair_queue_left(const FairQueue *q, uint64_t slice_ns);
