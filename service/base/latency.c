/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Latencies
 */

#include "latency.h"
#include "common/macro.h"
#include "common/time-util.h"

void latency_add(LatencyRing *l, uint64_t ns) {
        l->samples[l->n++ % LATENCY_RING_SIZE] = (uint32_t) MIN(ns, (uint64_t) UINT32_MAX);
}

static int sample_compare(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
        return (x > y) - (x < y);
}

void latency_summary(const LatencyRing *l, LatencySummary *ret) {
        uint32_t sorted[LATENCY_RING_SIZE];
        size_t n = (size_t) MIN(l->n, (uint64_t) LATENCY_RING_SIZE);

        *ret = (LatencySummary){.n_samples = n};
        if (n == 0)
                return;

        memcpy(sorted, l->samples, n * sizeof(sorted[0]));
        qsort(sorted, n, sizeof(sorted[0]), sample_compare);
        ret->p50_ns = sorted[(n - 1) / 2];
        ret->p99_ns = sorted[(n - 1) * 99 / 100];
        ret->max_ns = sorted[n - 1];
}

void histogram_add(Histogram *h, uint64_t ns) {
        uint64_t us = ns / NSEC_PER_USEC + (ns % NSEC_PER_USEC != 0);
        unsigned i = us <= 1 ? 0 : 64U - (unsigned) __builtin_clzll(us - 1);

        h->buckets[MIN(i, HISTOGRAM_BOUNDS)]++;
        h->sum_ns = ns_add(h->sum_ns, ns);
}
