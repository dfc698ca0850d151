/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Floor: which starved entity has the next turn
 *
 * The device gives one turn per starve period in all. So that no owner gets more turns by starting more entities, turns
 * go round in a tree: first among the parties (PolicyParty.top), then among the owners in one, then among the nodes on
 * the way down, then among the users in a node, and at last among the entities of one user in one node. Each of these
 * is a Floor; a party that is below many nodes has a separate floor in each of them.
 *
 * Among the floors right below one the next turn goes to the one that had its last turn the longest ago, of those with
 * a starved entity below. A new floor counts as if it had just had a turn, so that going and coming back gains nothing.
 * Among the entities of a leaf the turn goes to the one that has been held the longest.
 *
 * Hence the bound. Let n[0], n[1], ... be the numbers of siblings (entities at the leaf, floors above) of an entity and
 * of each floor above it, themselves included. As long as it is starved, each turn of a floor above it moves that floor
 * behind its siblings, so that one of n[i] turns of a parent is its own. So one of n[0] * n[1] * ... turns is the
 * entity's, and it is held for no longer than
 *
 *      (1 + n[0] * n[1] * ...) * starve_ns:
 *
 * one period until it is starved, and one for each of those turns, since another may have begun just before. It does
 * not depend on the number of entities below other floors.
 *
 * A node that a maximum stops gets no turns, nor does anything below it.
 *
 * Cost: at most POLICY_DEPTH_MAX + 4 floors on the way to the root, O(log n) each; for a node that stops or goes on,
 * for each of the parties below it. A floor has 200 bytes or so, is made with the first entity below it, and freed with
 * the last.
 */

#include "core.h"

void floor_init(Policy *p);

/* Finds or makes the leaf floor of a party in a node, with those above it, and takes a reference. NULL: no memory. */
Floor *floor_get(PolicyNode *n, const PolicyParty *party);
void floor_put(Floor *f);

/* Called when the node stops or goes on. */
void floor_node_changed(PolicyNode *n);

/* Called when a ready entity begins, or ceases, to be held. The latter does nothing if it was not held. */
void entity_hold_begin(PolicyEntity *e);
void entity_hold_end(PolicyEntity *e);

/* The entity that has the next turn, of those held since `until_ns` or longer. NULL: none. */
PolicyEntity *floor_next(Policy *p, uint64_t until_ns);

/* Notes that the entity has its turn now. */
void floor_take_turn(PolicyEntity *e);

/* Whether the configuration has a floor. */
static inline bool core_has_floor(const Policy *p) {
        return p->config.starve_ns > 0 && p->config.starve_run_ns > 0;
}

/* Whether the entity is held, and owed a turn. */
bool entity_is_starved(const PolicyEntity *e);

/* Since when the entity that is held longest has been held; NSEC_INFINITY: none is. */
uint64_t floor_longest(const Policy *p);
