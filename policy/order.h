/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ordering: which entity is next, and for how long
 *
 * A policy is the core and one ordering. The core (core.h, choose.c) handles readiness, grants, nodes with their maxima
 * and minima, the starvation floor, tails, anticipation and the accounts. The ordering sets only three values of each
 * entity, and changes them whenever it is called:
 *
 *   level      Only entities of the highest level with one that could run do run. A level is a tier of the core.
 *   budget_ns  After this time in its place tick() is called, if others wait. NSEC_INFINITY: never.
 *   alarm_ns   tick() is called at that time, too. NSEC_INFINITY: never.
 *
 * Within a level the tree of nodes decides which entity is next, as fair.h divides the time: by the weights that the
 * ordering takes from settings, in turns of the level's slice. So an owner gets no more by having more entities, and
 * debts stay after an entity has gone and come back (debt.h): these properties of `tree` hold for every ordering.
 *
 * On levels above 0 of a `ranked` ordering, the lowest rank over the whole device is next: nodes matter only by their
 * maxima and minima (rank.h), and equals are first come, first served.
 *
 * All callbacks below except hint() may be NULL, and each is O(1). An ordering's own state of an entity is in
 * `OrderEntity`, too, so that it allocates nothing.
 *
 * Time is the time of the call. An entity that is not ready, but keeps its place (keep.h), counts as ready.
 */

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"

/* An ordering's view of a device. */
typedef struct Order {
        uint64_t now_ns;
        const PolicyConfig *config;
        size_t n_parties; /* parties with entities; only if OrderOps.parties */
} Order;

#define ORDER_STEPS 5U

/* An ordering's state of a party (PolicyParty.top and .owner), shared by all its entities, and kept for some time after
 * the last one has gone: parties.h. */
typedef struct OrderParty {
        size_t n; /* entities; not the ordering's to change */
        uint64_t since_ns;
        uint64_t used_ns[ORDER_STEPS];
} OrderParty;

/* An ordering's view of an entity, and the values that it sets. */
typedef struct OrderEntity {
        const PolicySettings *settings;
        OrderParty *party; /* NULL: the ordering keeps no parties */
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
        bool ranked;     /* levels above 0 are ordered by rank */
        bool parties;    /* OrderEntity.party is set */
        bool global;     /* over all devices with it only entities of the highest level run: PolicyOps.outside() */
        bool by_process; /* each process has to be an entity, with all its queues */

        /* Weight of an entity, or node, among its siblings; POLICY_WEIGHT_MIN..MAX. NULL: all weights are equal. */
        uint32_t (*weight)(const PolicySettings *s);
        uint32_t (*node_weight)(const PolicyNodeSettings *s);

        /* Length of a turn on that level, in ns. NULL: PolicyConfig.timeslice_ns. */
        uint64_t (*slice)(const Order *o, int level);

        /* The entity is new, or its settings have changed. Called first for a new entity. Mandatory. */
        void (*hint)(Order *o, OrderEntity *e);

        /* The entity has work from now on; it has none. */
        void (*enqueue)(Order *o, OrderEntity *e);
        void (*dequeue)(Order *o, OrderEntity *e);

        /* The entity ran for `ns`. */
        void (*charge)(Order *o, OrderEntity *e, uint64_t ns);

        /* The entity's budget is used up, and others wait; or its alarm has come, and is now off. */
        void (*tick)(Order *o, OrderEntity *e);

        /* Returns how much of its budget other entities of its party have left to an entity that was chosen. More than
         * 0 after tick(). */
        uint64_t (*left)(const Order *o, const OrderEntity *e);
};
