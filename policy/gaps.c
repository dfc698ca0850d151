/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Learning idle gaps; the rule stands in gaps.h.
 */

#include "gaps.h"
#include "common/macro.h"
#include "common/time-util.h"

void gaps_learn(Gaps *g, uint64_t gap_ns) {
        g->ns[g->next] = gap_ns;
        g->next = (g->next + 1) % GAPS_MAX;
        g->n = MIN(g->n + 1, GAPS_MAX);
}

/* What waiting t would have gained over the whole history, were it better than nothing; 0 else. */
static uint64_t gaps_gain(const Gaps *g, uint64_t t, uint64_t limit_ns) {
        uint64_t gain = 0, loss = 0;

        for (uint32_t i = 0; i < g->n; i++)
                if (g->ns[i] <= t)
                        gain = ns_add(gain, limit_ns - g->ns[i]);
                else
                        loss = ns_add(loss, t);
        return ns_sub(gain, loss);
}

uint64_t gaps_worth_waiting(const Gaps *g, uint64_t limit_ns) {
        uint64_t best = 0, best_gain = 0;

        for (uint32_t i = 0; i < g->n; i++) {
                if (g->ns[i] > limit_ns)
                        continue;

                uint64_t t = MIN(ns_add(g->ns[i], g->ns[i] / 4), limit_ns), gain = gaps_gain(g, t, limit_ns);

                if (gain > best_gain || (gain == best_gain && t < best)) {
                        best = t;
                        best_gain = gain;
                }
        }
        return best;
}
