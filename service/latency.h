/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Latencies: the last LATENCY_RING_SIZE samples, and their percentiles when somebody asks
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
