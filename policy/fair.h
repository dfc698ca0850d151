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
#define FAIR_LAG_SLICES    2U
#define FAIR_MEMORY_SLICES 16U
#define FAIR_STEP_MAX                                                                                       \
        (UINT64_C(1) << 48) /* ns; a single step beyond three days is no run time of anybody's */

__extension__ typedef __int128 fair_wide_t;

typedef enum FairState {
        FAIR_AWAY,       /* owed nothing */
        FAIR_REMEMBERED, /* away with its lag */
        FAIR_EARLY,      /* waiting, has had more than its share */
        FAIR_ELIGIBLE,   /* waiting, is owed time */
        FAIR_RUNNING,
} FairState;

typedef struct FairNode FairNode;

struct FairNode {
        HeapNode heap;         /* waiting */
        FairNode *prev, *next; /* running, or remembered */
        FairState state;
        uint32_t weight;
        uint64_t vtime;
        uint64_t left_ns;       /* of its slice */
        uint64_t deadline;      /* waiting: its virtual time at the end of the slice */
        uint64_t seq;           /* order among equals */
        int64_t lag;            /* away: how far behind V it comes back */
        uint64_t left_clock_ns; /* remembered: since then */
};

typedef struct FairQueue {
        Heap eligible;     /* earliest deadline first */
        Heap early;        /* least early first */
        FairNode *running; /* heaviest first */
        uint32_t n_running;
        FairNode *away;    /* remembered, the longest away first */
        uint64_t weight;   /* of all, waiting and running */
        uint64_t origin;   /* V is origin + sum / weight */
        fair_wide_t sum;   /* of weight * (vtime - origin), less the weight * lag of those remembered */
        uint64_t clock_ns; /* advanced in all */
        uint64_t seq;
} FairQueue;

void fair_queue_init(FairQueue *q);

static inline size_t fair_queue_n_waiting(const FairQueue *q) {
        return q->eligible.n + q->early.n;
}

static inline size_t fair_queue_n(const FairQueue *q) {
        return fair_queue_n_waiting(q) + q->n_running;
}

/* Starts away, owed nothing. */
void fair_node_init(FairNode *n, uint32_t weight);

/* Away -> waiting; waiting or running -> away, remembered. */
void fair_queue_join(FairQueue *q, FairNode *n, uint64_t slice_ns);
void fair_queue_leave(FairQueue *q, FairNode *n, uint64_t slice_ns);

/* Away: owed nothing any more. Before a node is freed. */
void fair_queue_forget(FairQueue *q, FairNode *n);

/* A node that is away changes its queue, and keeps its lag. */
void fair_node_move(FairNode *n, FairQueue *from, FairQueue *to);

/* In any state; what it is owed or owes stays the same time. */
void fair_queue_reweight(FairQueue *q, FairNode *n, uint32_t weight);

/* The runners, on `slots` places (1 or more), ran for that long. */
void fair_queue_advance(FairQueue *q, uint32_t slots, uint64_t ns);

/* Decides who runs. */
void fair_queue_choose(FairQueue *q, uint32_t slots, uint64_t slice_ns);

/* How long until choosing again may change anything by itself; NSEC_INFINITY when nobody waits. Not 0 after
 * fair_queue_choose(). */
uint64_t fair_queue_left(const FairQueue *q, uint32_t slots, uint64_t slice_ns);
