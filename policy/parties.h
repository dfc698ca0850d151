/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Parties: an ordering's state that all entities of one owner share
 *
 * An ordering may favour new entities (`mlfq` begins them at the top). A user must not get that again by starting
 * another process, or the same one again. So the ordering may count it by party: PolicyParty.top and .owner, which the
 * caller defines so that users cannot make more of them.
 *
 * A party is made with its first entity. For PARTY_REMEMBER_NS after its last entity has gone it is found again with
 * its state; then, or when PARTY_GONE_MAX others have gone since, it is forgotten.
 *
 * Cost: O(log n) for an entity that comes; 150 bytes a party. Nothing, for orderings that keep nothing of them.
 */

#include "core.h"

#define PARTY_REMEMBER_NS (2 * NSEC_PER_SEC)
#define PARTY_GONE_MAX    256U

struct Party {
        uint64_t top, owner;
        OrderParty order;
        AvlNode known;
        uint64_t gone_ns;
        Party *prev, *next; /* gone */
};

/* Finds or makes the party, and takes a reference. Returns false: no memory. *ret is NULL when the ordering keeps no
 * parties. */
bool party_get(Policy *p, const PolicyParty *of, Party **ret);
Party *party_put(Policy *p, Party *party); /* `party` may be NULL; returns NULL */

void parties_init(Policy *p);
void parties_forget(Policy *p);
