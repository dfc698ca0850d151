/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Gaps: how long an entity usually stays idle, and how long waiting for it is worthwhile
 *
 * A latency-critical job that launches, waits, and launches again is idle for some microseconds between its kernels,
 * and for milliseconds between its requests. Giving the device away in the short gaps costs it the other's kernel each
 * time; keeping it through the long ones costs the others the device. The history tells the two apart.
 *
 * The last GAPS_MAX gaps are kept as they were, and each of them is a candidate for the longest that is worth waiting
 * for. A gap up to the candidate would have been bridged: that gains `limit` of device time (so the administrator
 * weighs it), and costs the gap. Each longer gap costs the whole wait in vain. The candidate with the highest gain
 * wins, if any gain is positive: so the answer falls back to 0 within GAPS_MAX gaps after an entity has changed its
 * habits, and is never above `limit`. The wait is 5/4 of the candidate, because the next gap is rarely exactly as long.
 */

#include <stdint.h>

#define GAPS_MAX 16U

typedef struct Gaps {
        uint32_t n;                /* valid entries of both */
        uint32_t next;             /* index of the entry to replace next */
        uint64_t sorted[GAPS_MAX]; /* the same ones as in `ns`, the shortest first: an answer takes one pass */
        uint64_t ns[GAPS_MAX];     /* as they were learnt */
} Gaps;

void gaps_learn(Gaps *g, uint64_t gap_ns);

/* How long to wait, 0..limit_ns; 0: do not wait. */
uint64_t gaps_worth_waiting(const Gaps *g, uint64_t limit_ns);
