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

/* A quarter on top: the next gap of a kind is rarely exactly as long. */
static uint64_t gaps_wait(uint64_t gap_ns, uint64_t limit_ns) {
        uint64_t t = ns_add(gap_ns, gap_ns / 4);

        return MIN(t, limit_ns);
}

/* What waiting for gaps of up to gap_ns would have gained over the whole history, if it had; 0 else. */
static uint64_t gaps_gain(const Gaps *g, uint64_t gap_ns, uint64_t limit_ns) {
        uint64_t gain = 0, loss = 0;

        for (uint32_t i = 0; i < g->n; i++)
                if (g->ns[i] <= gap_ns)
                        gain = ns_add(gain, limit_ns - g->ns[i]);
                else
                        loss = ns_add(loss, gaps_wait(gap_ns, limit_ns));
        return ns_sub(gain, loss);
}

uint64_t gaps_worth_waiting(const Gaps *g, uint64_t limit_ns) {
        uint64_t best = 0, best_gain = 0;

        for (uint32_t i = 0; i < g->n; i++) {
                uint64_t gain = g->ns[i] <= limit_ns ? gaps_gain(g, g->ns[i], limit_ns) : 0;

                if (gain > best_gain || (gain == best_gain && g->ns[i] < best)) {
                        best = g->ns[i];
                        best_gain = gain;
                }
        }
        return gaps_wait(best, limit_ns);
}
