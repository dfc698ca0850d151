/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Learning idle gaps: gaps.h describes the rule.
 */

#include "gaps.h"
#include "common/macro.h"
#include "common/time-util.h"

/* Puts one value in the place of another. */
static void gaps_replace_sorted(Gaps *g, uint64_t old_ns, uint64_t new_ns) {
        uint32_t i = 0;

        while (g->sorted[i] != old_ns)
                i++;
        for (; i > 0 && g->sorted[i - 1] > new_ns; i--)
                g->sorted[i] = g->sorted[i - 1];
        for (; i + 1 < g->n && g->sorted[i + 1] < new_ns; i++)
                g->sorted[i] = g->sorted[i + 1];
        g->sorted[i] = new_ns;
}

void gaps_learn(Gaps *g, uint64_t gap_ns) {
        uint64_t old_ns = g->ns[g->next];

        if (g->n < GAPS_MAX) {
                old_ns = UINT64_MAX;
                g->sorted[g->n++] = old_ns;
        }
        g->ns[g->next] = gap_ns;
        g->next = (g->next + 1) % GAPS_MAX;
        gaps_replace_sorted(g, old_ns, gap_ns);
}

/* A quarter on top: the next gap of a kind is rarely exactly as long. */
static uint64_t gaps_wait(uint64_t gap_ns, uint64_t limit_ns) {
        uint64_t t = ns_add(gap_ns, gap_ns / 4);

        return MIN(t, limit_ns);
}

uint64_t gaps_worth_waiting(const Gaps *g, uint64_t limit_ns) {
        uint64_t best = 0, best_gain = 0, gain = 0;

        /* Each gap that is bridged as well gains something, and after the longest there is none that costs. */
        if (g->n > 0 && g->sorted[g->n - 1] < limit_ns && limit_ns < NSEC_INFINITY / GAPS_MAX)
                return gaps_wait(g->sorted[g->n - 1], limit_ns);
        for (uint32_t i = 0; i < g->n && g->sorted[i] <= limit_ns; i++) {
                uint64_t gap_ns = g->sorted[i], loss;

                /* The gain over the whole history if the policy had waited for gaps of up to this one. */
                gain = ns_add(gain, limit_ns - gap_ns);
                if (i + 1 < g->n && g->sorted[i + 1] == gap_ns)
                        continue;
                if (__builtin_mul_overflow(gaps_wait(gap_ns, limit_ns), (uint64_t) g->n - (i + 1), &loss))
                        loss = NSEC_INFINITY;
                if (ns_sub(gain, loss) > best_gain) {
                        best = gap_ns;
                        best_gain = ns_sub(gain, loss);
                }
        }
        return gaps_wait(best, limit_ns);
}
