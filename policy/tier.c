/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tiers
 */

#include "tier.h"

static void tier_set_put(TierSet *s, size_t i, bool in) {
        uint64_t bit = UINT64_C(1) << (i % CORE_WORD_BITS);

        if (in)
                s->words[i / CORE_WORD_BITS] |= bit;
        else
                s->words[i / CORE_WORD_BITS] &= ~bit;
}

Tier *core_highest(const Policy *p, const TierSet *s) {
        for (size_t w = ELEMENTSOF(s->words); w-- > 0;)
                if (s->words[w] != 0)
                        return p->tiers + w * CORE_WORD_BITS +
                                        (CORE_WORD_BITS - 1 - (unsigned) __builtin_clzll(s->words[w]));
        return NULL;
}

void core_note_tier(Tier *t) {
        Policy *p = t->root.node->policy;
        size_t i = (size_t) (t - p->tiers);

        tier_set_put(&p->registered, i, t->n_entities > 0);
        tier_set_put(&p->with_places, i, t->root.fair.places > 0);
}

uint64_t tier_slice(const Tier *t) {
        const Policy *p = t->root.node->policy;

        return p->ordering->slice ? p->ordering->slice(&p->order, core_level_of(p, t)) : p->config.timeslice_ns;
}

bool core_is_outranked(const Policy *p, const Tier *t) {
        return core_level_of(p, t) < p->outside_level;
}
