/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Latencies: the last LATENCY_RING_SIZE samples, and their percentiles when they are asked for; and histograms, which
 * count all samples since the service began, in buckets that are the same everywhere, so that those of many machines
 * can be added up
 */

#include <stdint.h>

#define LATENCY_RING_SIZE 4096U

typedef struct LatencyRing {
        uint32_t samples[LATENCY_RING_SIZE]; /* nanoseconds; 4 s saturates */
        uint64_t n;                          /* ever added */
} LatencyRing;

typedef struct LatencySummary {
        uint64_t p50_ns, p99_ns, max_ns;
        uint64_t n_samples; /* that the figures are made of */
} LatencySummary;

void latency_add(LatencyRing *l, uint64_t ns);

/* Sorts the ring, O(n log n): made when somebody asks, and not for each event. */
void latency_summary(const LatencyRing *l, LatencySummary *ret);

/* Bucket i counts samples of at most 2^i microseconds that are too long for the bucket before it. The last bucket
 * counts all longer samples. */
#define HISTOGRAM_BOUNDS 27U /* up to 67 s */

typedef struct Histogram {
        uint64_t buckets[HISTOGRAM_BOUNDS + 1];
        uint64_t sum_ns;
} Histogram;

void histogram_add(Histogram *h, uint64_t ns);

static inline uint64_t histogram_bound_us(unsigned i) {
        return UINT64_C(1) << i;
}
