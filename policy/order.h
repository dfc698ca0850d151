/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Orderings: who is next, and for how long
 *
 * A policy is the core and one ordering. The core (core.h, choose.c) knows who is ready, what was granted, nodes with
 * their maxima and minima, the starvation floor, tails, anticipation and the accounts. The ordering says no more than
 * three things of each entity, and changes them whenever it is called:
 *
 *   level      Only those of the highest level run that has somebody who could. It is a tier of the core's.
 *   budget_ns  After so long in its place it is asked again, if others wait. Not for that reason: NSEC_INFINITY.
 *   alarm_ns   It is asked at that time, too. At none: NSEC_INFINITY.
 *
 * Within a level the tree of nodes says who is next, as fair.h divides the time: by the weights that the ordering reads
 * from settings, in turns of the slice that it says of the level. So whoever is many gets no more by that, and who has
 * had too much owes it, also after he has gone and come back (debt.h): what holds for `tree` holds for all.
 *
 * But on levels above 0 of an ordering that is `ranked`, it is the lowest rank that is next, over the whole device:
 * there nodes do not change who is next, but for what their maxima and minima say (rank.h), and equals are first come,
 * first served.
 *
 * Each of the callbacks below but hint() may be NULL, and none does more than O(1). What an ordering keeps of an entity
 * for itself is in `OrderEntity`, too, so that nothing is allocated.
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
        size_t n_parties; /* with entities; where the ordering keeps something of parties */
} Order;

#define ORDER_STEPS 5U

/* What an ordering keeps of all entities together that are of one party (PolicyParty.top and .owner), also for some
 * time after the last of them has gone: parties.h. */
typedef struct OrderParty {
        uint64_t since_ns;
        uint64_t used_ns[ORDER_STEPS];
} OrderParty;

/* What it knows of an entity, and says of it. */
typedef struct OrderEntity {
        const PolicySettings *settings;
        OrderParty *party; /* NULL: the ordering keeps nothing of parties */
        bool here;         /* between enqueue() and dequeue() */

        int level;          /* POLICY_PRIORITY_MIN..MAX */
        uint64_t rank;      /* below INT64_MAX */
        uint64_t budget_ns; /* 1 or more */
        uint64_t alarm_ns;  /* NSEC_INFINITY: none */

        /* The ordering's own. */
        uint64_t since_ns, used_ns;
        unsigned step;
} OrderEntity;

typedef struct OrderOps OrderOps;

struct OrderOps {
        bool ranked;  /* on levels above 0 */
        bool parties; /* OrderEntity.party is there */
        bool global; /* of several devices with it only those of the highest level of all run: PolicyOps.outside() */
        bool by_process; /* an entity is to be a process, with all its queues */

        /* What an entity, or a node, weighs among those beside it; POLICY_WEIGHT_MIN..MAX. NULL: all weigh the same. */
        uint32_t (*weight)(const PolicySettings *s);
        uint32_t (*node_weight)(const PolicyNodeSettings *s);

        /* How long a turn is on that level. NULL: PolicyConfig.timeslice_ns. */
        uint64_t (*slice)(const Order *o, int level);

        /* Its settings are new, or others: for an entity that is made this comes first. Mandatory. */
        void (*hint)(Order *o, OrderEntity *e);

        /* It has work from now on; it has none. */
        void (*enqueue)(Order *o, OrderEntity *e);
        void (*dequeue)(Order *o, OrderEntity *e);

        /* The device had its work for so long. */
        void (*charge)(Order *o, OrderEntity *e, uint64_t ns);

        /* Its budget is used up, and others wait; or the time of its alarm has come, which is off then. */
        void (*tick)(Order *o, OrderEntity *e);
};
