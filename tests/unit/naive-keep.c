/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle's patience: how long the device is kept for whom
 */

#include "naive-fair.h"

__extension__ typedef __int128 wide_t;

/* The gap that would have been best to wait for, by trying each on the whole history; the shortest of equally good ones. */
uint64_t naive_worth_waiting(const PolicyEntity *e, uint64_t limit) {
        uint64_t best = 0, wait = 0;
        wide_t best_gain = 0;

        for (size_t c = 0; c < e->n_gaps; c++) {
                uint64_t t = MIN(e->gaps[c] + e->gaps[c] / 4, limit);
                wide_t gain = 0;

                if (e->gaps[c] > limit)
                        continue;
                for (size_t i = 0; i < e->n_gaps; i++)
                        gain += e->gaps[i] <= e->gaps[c] ? (wide_t) limit - e->gaps[i] : -(wide_t) t;
                if (gain > best_gain || (gain == best_gain && e->gaps[c] < best)) {
                        best = e->gaps[c];
                        wait = t;
                        best_gain = gain;
                }
        }
        return wait;
}
