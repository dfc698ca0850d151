/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tier: sets of tiers, and how a tier compares with the levels of other devices
 */

#include "core.h"

static inline int core_level_of(const Policy *p, const Tier *t) {
        return (int) (t - p->tiers) + POLICY_PRIORITY_MIN;
}

/* The highest tier of the set; NULL: the set is empty. */
Tier *core_highest(const Policy *p, const TierSet *s);

/* Called after the counts of a tier changed. */
void core_note_tier(Tier *t);

/* Length of a turn in the tier, in ns. */
uint64_t tier_slice(const Tier *t);

/* Whether an entity of a higher level has another device: PolicyOps.outside(). */
static inline bool core_is_outranked(const Policy *p, const Tier *t) {
        return core_level_of(p, t) < p->outside_level;
}
