/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The floor: which of the starved has the next turn
 *
 * The device gives one turn per starve period, to whomever. So that nobody buys more of them by starting more, they go
 * round in a tree: first among the parties (PolicyParty.top), then among the owners in one, then among the nodes on the
 * way down, then among the users in a node, and at last among the entities of one user in one node. Each of these is a
 * Floor; a party that is below many nodes has a floor in each of them, so that one has nothing to do with another's.
 *
 * Among the floors right below one the next turn goes to the one that had its last turn the longest ago, of those with
 * somebody starved below. A new one counts as if it had just had a turn: nothing is won by going and coming back. Among
 * the entities of a leaf it goes to the one that has been held the longest.
 *
 * Hence the bound. Let n[0], n[1], ... be how many floors (at the leaf: entities) there are beside an entity and beside
 * each floor above it, themselves included. As long as it is starved, each turn of a floor above it moves that floor
 * behind all beside it, so that of n[i] turns of a parent one is its own; so one of n[0] * n[1] * ... turns is the
 * entity's, and it is held for no longer than
 *
 *      (1 + n[0] * n[1] * ...) * starve_ns:
 *
 * one period until it is starved, and one for each of those turns, since another may have begun just before. What
 * others start below their own floors does not occur in it.
 *
 * What a maximum stops is out, with all below it.
 *
 * Cost: at most POLICY_DEPTH_MAX + 4 floors on the way to the root, O(log n) each; a node that stops or goes on, that
 * for each of the parties below it. A floor has 200 bytes or so, is made with the first entity below it, and freed with
 * the last.
 */

#include "core.h"

void floor_init(Policy *p);

/* The leaf of a party in a node, made with those above when it is not there. NULL: no memory. */
Floor *floor_get(PolicyNode *n, const PolicyParty *party);
void floor_put(Floor *f);

/* The node stops, or goes on. */
void floor_node_changed(PolicyNode *n);

/* The entity, which is ready, begins or ceases to be held (or was not). */
void entity_hold_begin(PolicyEntity *e);
void entity_hold_end(PolicyEntity *e);

/* The one whose turn is next, of those held since `until_ns` or longer. NULL: there is none. */
PolicyEntity *floor_next(Policy *p, uint64_t until_ns);

/* It has its turn now. */
void floor_take_turn(PolicyEntity *e);

/* Turns are given at all. */
bool core_has_floor(const Policy *p);

/* It is held, and owed a turn. */
bool entity_is_starved(const PolicyEntity *e);

/* Since when the longest held has been; NSEC_INFINITY: nobody is. */
uint64_t floor_longest(const Policy *p);
