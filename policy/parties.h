/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Parties: what an ordering keeps of all entities together that are of one
 *
 * What an ordering gives to somebody new (as `mlfq` does, who begins at the top) is not to be had again by starting
 * another process, or the same once more. So it may keep count of it by party: PolicyParty.top and .owner, which nobody
 * makes more of. What they are the caller says.
 *
 * A party is made with its first entity. For PARTY_REMEMBER_NS after its last one has gone it is found again with what
 * was kept of it; then, or where PARTY_GONE_MAX others have gone since, it is forgotten.
 *
 * Cost: O(log n) for an entity that comes; 150 bytes a party. Nothing, for orderings that keep nothing of them.
 */

#include "core.h"

#define PARTY_REMEMBER_NS (2 * NSEC_PER_SEC)
#define PARTY_GONE_MAX    256U

struct Party {
        uint64_t top, owner;
        OrderParty order;
        size_t n_refs; /* entities */
        AvlNode known;
        uint64_t gone_ns;
        Party *prev, *next; /* gone */
};

/* Whether there was memory. Where the ordering keeps nothing of parties, *ret is NULL. */
bool party_get(Policy *p, const PolicyParty *of, Party **ret);
Party *party_put(Policy *p, Party *party); /* NULL: nothing; returns NULL */

void parties_init(Policy *p);
void parties_forget(Policy *p);
