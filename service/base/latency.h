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

/* O(n log n) over the ring: for a question, not for an event. */
void latency_summary(const LatencyRing *l, LatencySummary *ret);

/* Bucket i counts what took at most 2^i microseconds, and longer than the one before it allows; the last one, whatever
 * took longer than that. */
#define HISTOGRAM_BOUNDS 27U /* up to 67 s */

typedef struct Histogram {
        uint64_t buckets[HISTOGRAM_BOUNDS + 1];
        uint64_t sum_ns;
} Histogram;

void histogram_add(Histogram *h, uint64_t ns);

static inline uint64_t histogram_bound_us(unsigned i) {
        return UINT64_C(1) << i;
}
