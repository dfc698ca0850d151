/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tiers
 */

#include "tier.h"

static void tier_set_put(TierSet *s, size_t i, bool in) {
        uint64_t bit = UINT64_C(1) << (i % CORE_WORD_BITS), word = UINT64_C(1) << (i / CORE_WORD_BITS);
        uint64_t *w = s->words + i / CORE_WORD_BITS;

        *w = in ? *w | bit : *w & ~bit;
        s->filled = *w != 0 ? s->filled | word : s->filled & ~word;
}

Tier *core_highest(const Policy *p, const TierSet *s) {
        if (s->filled == 0)
                return NULL;
        size_t w = CORE_WORD_BITS - 1 - (unsigned) __builtin_clzll(s->filled);
        return p->tiers + w * CORE_WORD_BITS + (CORE_WORD_BITS - 1 - (unsigned) __builtin_clzll(s->words[w]));
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
