/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Divide: computes how the settings divide the time of a device while all entities of a tree want it all the time
 *
 * The result is what the fair queues (fair.h) approach in the long run, level by level of the tree and tier by tier of
 * priorities:
 *   - the children of a node share the node's time by weight; an entity has one place at most, and a node no more than
 *     its max;
 *   - a lower tier gets the time in which maxima stop all higher ones;
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

        double part; /* the result: part of all places of the device, 0..1 */

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

/* Whether the policy divides by settings alone, and not by past use. */
bool policy_divides(const PolicyOps *ops);

/* Begins with a tree of `n` items. -EINVAL: the policy does not divide by settings. */
int divide_begin(Divide *d, const PolicyOps *ops, uint32_t concurrency, DivideItem *items, size_t n);

/* Divides what is left among the next lower tier, in a time that grows with the number of items. Returns false when
 * nothing is left to be divided: then `part` of all items is final. */
bool divide_tier(Divide *d);
