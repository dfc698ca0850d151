/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Orderings: who is next, and for how long
 *
 * A policy is the core and one ordering. The core (core.h, choose.c) knows who is ready, what was granted, nodes with
 * their maxima and minima, the starvation floor, tails, anticipation and the accounts. The ordering says no more than
 * three things of each entity, and changes them whenever it is called:
 *
 *   level     Only those of the highest level run that has somebody who could. It is a tier of the core's.
 *   rank      Within a level those of the lowest rank are next. Equals take turns: who comes, or has used up a slice,
 *             is behind those of his rank.
 *   slice_ns  After so long in its place it is asked again, if others wait. Not a slice: NSEC_INFINITY.
 *
 * and, if it wants to be asked at a time of its own, alarm_ns. Each of the callbacks below but hint() may be NULL, and
 * none does more than O(1). What an ordering keeps of an entity for itself is in `OrderEntity`, too, so that nothing is
 * allocated.
 *
 * Ranks are compared over the whole device: nodes do not change who is next, but for what their maxima and minima say
 * (rank.h). An ordering that is `fair` has no ranks: the tree of nodes with their weights says who is next (fair.h).
 *
 * Time is that of the call. An entity that is not ready, but whose place is kept (keep.h), counts as ready.
 */

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"

/* What an ordering knows of a device. */
typedef struct Order {
        uint64_t now_ns;
        const PolicyConfig *config;
        uint64_t clock; /* the ordering's own; begins at 0 */
} Order;

/* What it knows of an entity, and says of it. */
typedef struct OrderEntity {
        const PolicySettings *settings;
        bool here; /* between enqueue() and dequeue() */

        int level; /* POLICY_PRIORITY_MIN..MAX */
        uint64_t rank;
        uint64_t slice_ns; /* 1 or more */
        uint64_t alarm_ns; /* NSEC_INFINITY: none */

        /* The ordering's own. */
        uint64_t since_ns, used_ns;
        int step;
        uint64_t virtual_time, weight, remainder; /* virtual.h */
} OrderEntity;

typedef struct OrderOps OrderOps;

struct OrderOps {
        bool fair;     /* the core's fair queues decide within a level */
        bool keeps;    /* who is idle for a moment keeps his place from those of higher ranks: keep.h */
        bool feedback; /* slices count while those of lower levels wait, too: tick() may change the level */
        bool global; /* of several devices with it only those of the highest level of all run: PolicyOps.outside() */
        bool by_process; /* an entity is to be a process, with all its queues */

        /* Its settings are new, or others: for an entity that is made this comes first. Mandatory. */
        void (*hint)(Order *o, OrderEntity *e);

        /* It has work from now on; it has none. */
        void (*enqueue)(Order *o, OrderEntity *e);
        void (*dequeue)(Order *o, OrderEntity *e);

        /* The device had its work for so long. */
        void (*charge)(Order *o, OrderEntity *e, uint64_t ns);

        /* Its slice is used up, and others wait; or the time of its alarm has come, which is off then. */
        void (*tick)(Order *o, OrderEntity *e);
};
