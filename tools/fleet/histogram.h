/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Histogram: values of any number in 15 KiB, each known within 1/32 of itself
 */

#include <stdint.h>

#include "common/macro.h"

#define HISTOGRAM_BITS  5U /* of a value, after its first */
#define HISTOGRAM_CELLS ((64U - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

typedef struct Histogram {
        uint64_t cells[HISTOGRAM_CELLS];
        uint64_t n, max;
        double sum;
} Histogram;

static inline unsigned histogram_cell(uint64_t v) {
        unsigned shift = v >> (HISTOGRAM_BITS + 1) ? 63U - (unsigned) __builtin_clzll(v) - HISTOGRAM_BITS : 0;

        return (shift << HISTOGRAM_BITS) + (unsigned) (v >> shift);
}

static inline void histogram_add(Histogram *h, uint64_t v) {
        h->cells[histogram_cell(v)]++;
        h->n++;
        h->max = MAX(h->max, v);
        h->sum += (double) v;
}

/* The nearest-rank percentile, 0 < p <= 100, rounded down to its cell; 0: there are no values. */
static inline uint64_t histogram_percentile(const Histogram *h, double p) {
        double rank = (double) h->n * p / 100;
        uint64_t below = 0;

        for (unsigned i = 0; i < HISTOGRAM_CELLS; i++) {
                below += h->cells[i];
                if (below > 0 && (double) below >= rank) {
                        unsigned shift = i >> (HISTOGRAM_BITS + 1) ? (i >> HISTOGRAM_BITS) - 1 : 0;

                        return (uint64_t) (i - (shift << HISTOGRAM_BITS)) << shift;
                }
        }
        return 0;
}

static inline double histogram_mean(const Histogram *h) {
        return h->n > 0 ? h->sum / (double) h->n : 0;
}
