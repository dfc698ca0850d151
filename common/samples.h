/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Samples: durations, each with the time it was taken at
 */

#include <stddef.h>
#include <stdint.h>

typedef struct Sample {
        uint64_t at_ns, ns;
} Sample;

typedef struct Samples {
        Sample *items; /* in the order of time */
        size_t n;
} Samples;

int samples_add(Samples *s, uint64_t at_ns, uint64_t ns);
void samples_done(Samples *s);

/* The durations in ascending order, to be freed; NULL when there are none, or no memory. */
uint64_t *samples_sorted(const Samples *s);

/* The nearest-rank percentile, 0 < p <= 100, of n > 0 sorted values. */
uint64_t percentile(const uint64_t *sorted, size_t n, double p);

typedef struct Summary {
        size_t n;
        uint64_t p50_ns, p90_ns, p99_ns, max_ns, mean_ns;
} Summary;

/* All zero when there are no samples. */
Summary samples_summary(const Samples *s);
