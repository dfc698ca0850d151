/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Divide: what the settings ask for, as arithmetic: how the time of a device is divided while all the entities of a
 * tree want it all the time
 *
 * It is where the shares of the fair queues (fair.h) end up, level by level of the tree and tier by tier of priorities:
 *   - what is right below a node shares by weight what the node has; an entity has one place at most, and a node no
 *     more than its max;
 *   - a lower tier has the time in which a maximum stops all of the higher ones;
 *   - a node has its min, whatever priorities and weights say, as far as the maxima above allow.
 * The turns of the starvation floor, and time that passes between grants, are not counted. On several places a node may
 * have two of them now and none then, and gives each of two below it one, whatever they weigh: deep in the tree parts
 * are then off by some percent.
 */

#include "policy.h"

#define DIVIDE_ROOT SIZE_MAX

typedef struct DivideItem {
        size_t parent; /* the index of a node that comes before it, or DIVIDE_ROOT */
        bool is_node;  /* otherwise an entity, which wants the device */
        PolicyNodeSettings node;
        PolicySettings entity;

        double part; /* what comes of it: of all places of the device, 0..1 */

        /* While it is divided. */
        int level;
        uint32_t weight;
        double least, most, had, has;
        bool takes_part;
        size_t below, beside; /* the first right below it, the next below the same; DIVIDE_ROOT: none */
} DivideItem;

typedef struct Divide {
        DivideItem *items;
        size_t n, first;
        double places, amount;
        int level; /* of the tier that was last */
} Divide;

/* Whether the policy goes by what follows from settings alone, and not by what was. */
bool policy_divides(const PolicyOps *ops);

/* Begins with a tree of `n` items. -EINVAL where the policy divides by anything else. */
int divide_begin(Divide *d, const PolicyOps *ops, uint32_t concurrency, DivideItem *items, size_t n);

/* Divides what is left among the next lower tier, in a time that grows with the number of items. False: nothing is left
 * to be divided, and `part` of all items is what comes of it. */
bool divide_tier(Divide *d);
