/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Fair queues: weighted virtual time decides which of a set of equals run on `slots` places
 *
 * Every node has a virtual time, which advances while it runs by the time it ran divided by its weight. V, the virtual
 * time of the queue, is the weighted mean of all nodes: where every node would be if the device were divided exactly,
 * at every instant (a fluid). A node's lag, V minus its own time, times its weight, is the run time that it is still
 * owed or, when negative, has had too early. All lags add up to 0.
 *
 * The choice. A waiting node is eligible when V has reached it: it is owed time, or even. Its deadline is its virtual
 * time at the end of the slice that it would run. The eligible node with the earliest deadline is next (Stoica and
 * Abdel-Wahab's EEVDF): eligibility keeps a node from running ahead of its share by more than a slice, and the deadline
 * keeps it from falling behind by more than a slice. So run times stay within a slice of the fluid's, for ever,
 * whatever the weights.
 *
 *   - A runner keeps its place for a slice, unless an eligible node has an earlier deadline: one that comes back and
 *     is owed time, or a heavier one, need not wait for the end of a light one's slice. Equals that are even have later
 *     deadlines than the runner, so between them slices are whole.
 *   - At the end of its slice it competes with its next one. While no node is eligible it goes on; fair_queue_left()
 *     says when V will reach the first, so that a heavy node does not wake the caller after every slice.
 *   - A slice that is interrupted (by a deadline, or because the caller gave the device to others) goes on where it
 *     was.
 *
 * Coming and going. A node that goes away keeps its lag, and comes back as far from V as it was. The lag stays in the
 * sum, so that V does not feel it go or come, and those that stay are not charged for what it leaves behind. Time away
 * earns nothing, since V may move on but the lag does not; and leaving washes away no debt. Lag is kept up to
 * FAIR_LAG_SLICES slices of the node's own, for FAIR_MEMORY_SLICES slices of the queue's run time, and for the latest
 * FAIR_REMEMBER_MAX nodes: that is the most that sleepers can ever claim from those that stayed. A debt is kept up to
 * FAIR_DEBT_MAX: a launch may be longer than any slice.
 *
 * Several slots. A node cannot run on two, so its weight counts for at most one: runners whose weight is worth more
 * than an equal part of the slots that heavier ones leave are `full`. They keep their slot, and advance with the mean
 * of the others. Only runners can be full: one that heavy that waits becomes a runner within a slice.
 *
 * Without a waiting node none is charged: whatever the weights, every node has a slot, as if all were full.
 *
 * Queues in queues. A node may represent a queue of its own (`below`). It can use as many places as that queue has
 * nodes that could run, `places`, and holds `used` of them; so it may run, and wait for more, at once. The rules above
 * about a node and a slot hold for it with `places` slots: its virtual time advances by each place that it uses, and
 * its weight counts for at most `places`. The queue below is a fair queue with `used` slots, whose time passes only
 * while it has any. So each level is within a slice of its own fluid, and the levels multiply.
 *
 * Cost. An operation is a walk or two along the tree of the waiting, O(log n); with O(slots) for the runners, whose
 * number is a small one by configuration. Virtual times wrap: only differences count, and those are bounded as above.
 */

#include <stdbool.h>
#include <stdint.h>

#include "avl.h"

#define FAIR_SCALE         UINT64_C(10000) /* virtual time per ns at weight 1: a ns counts at the highest weight, too */
#define FAIR_LAG_SLICES    2U
#define FAIR_MEMORY_SLICES 16U
#define FAIR_REMEMBER_MAX  64U
#define FAIR_DEBT_MAX      UINT64_C(1000000000) /* ns */
#define FAIR_STEP_MAX      (UINT64_C(1) << 48)  /* ns; a single step beyond three days is no entity's run time */

__extension__ typedef __int128 fair_wide_t;

typedef enum FairState {
        FAIR_AWAY,       /* owed nothing */
        FAIR_REMEMBERED, /* away with its lag */
        FAIR_HERE,       /* waiting without a place, running with one or more */
} FairState;

typedef struct FairNode FairNode;
typedef struct FairQueue FairQueue;

struct FairNode {
        AvlNode order;         /* waiting */
        FairNode *prev, *next; /* running, or remembered */
        FairState state;
        FairQueue *below; /* the queue that it represents; NULL: none */
        uint32_t places, used;
        uint32_t blocked; /* part of `used`: places that tails still have; only the caller writes it */
        bool full;        /* running, and its weight is worth all its places */
        uint32_t weight;
        uint64_t vtime;
        uint64_t left_ns;       /* rest of its slice */
        uint64_t deadline;      /* waiting: its virtual time at the end of the slice */
        FairNode *first;        /* waiting: the earliest deadline of the subtree */
        uint64_t seq;           /* order among equals */
        int64_t lag;            /* away: its distance behind V when it comes back */
        uint64_t left_clock_ns; /* remembered: the queue's clock_ns when it left */
};

struct FairQueue {
        Avl waiting;           /* by virtual time */
        FairNode *running;     /* the heaviest for a place first */
        uint32_t places, used; /* sums over all nodes here */
        FairNode *away;        /* list: remembered nodes, the longest away first */
        uint32_t n_away;
        uint64_t n_here;   /* waiting and running nodes */
        uint64_t weight;   /* sum over all nodes here */
        uint64_t squares;  /* sum of their squared weights */
        uint64_t origin;   /* V is origin + sum / weight */
        fair_wide_t sum;   /* sum of weight * (vtime - origin), minus weight * lag of remembered nodes */
        uint64_t clock_ns; /* total time that it was advanced by */
        uint64_t seq;
};

void fair_queue_init(FairQueue *q);

/* The node starts FAIR_AWAY. */
void fair_node_init(FairNode *n, uint32_t weight);

/* Away -> here, waiting for `places` (1 or more); here -> remembered. */
void fair_queue_join(FairQueue *q, FairNode *n, uint32_t places, uint64_t slice_ns);
void fair_queue_leave(FairQueue *q, FairNode *n, uint64_t slice_ns);

/* Changes the places of a node that is here, 1 or more. */
void fair_queue_set_places(FairQueue *q, FairNode *n, uint32_t places);

/* Charges a node, in any state, for `ns` that it ran without being chosen. Never puts it further ahead than the lag
 * that can be remembered. */
void fair_queue_charge(FairQueue *q, FairNode *n, uint64_t ns, uint64_t slice_ns);

/* The same for a time that the node certainly had, of any length: of a launch that began in time. A node that is away
 * is remembered from then on. */
void fair_queue_charge_tail(FairQueue *q, FairNode *n, uint64_t ns, uint64_t slice_ns);

/* The run time, in ns, that a node which is here is owed; negative: it has had too much. */
int64_t fair_queue_lag(FairQueue *q, const FairNode *n);

/* Whether all nodes here have the same weight. */
bool fair_queue_is_even(const FairQueue *q);

/* Forgets the lag of a node that is away. Call it before a node is freed. */
void fair_queue_forget(FairQueue *q, FairNode *n);

/* Moves a node that is away to another queue, with its lag. */
void fair_node_move(FairNode *n, FairQueue *from, FairQueue *to);

/* Changes the weight of a node, in any state; its lag stays the same run time. */
void fair_queue_reweight(FairQueue *q, FairNode *n, uint32_t weight);

/* The runners, on `slots` places (1 or more), ran for `ns`. */
void fair_queue_advance(FairQueue *q, uint32_t slots, uint64_t ns);

/* Chooses the runners for `slots` places. */
void fair_queue_choose(FairQueue *q, uint32_t slots, uint64_t slice_ns);

/* Time, in ns, until fair_queue_choose() may change anything by itself; NSEC_INFINITY when no node waits. Not 0 right
 * after fair_queue_choose(). */
uint64_t fair_queue_left(FairQueue *q, uint32_t slots, uint64_t slice_ns);
