/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How long an entity usually stays idle, and how long it is worth waiting for it
 *
 * A latency-critical job that launches, waits, and launches again is idle for some microseconds between its kernels,
 * and for milliseconds between its requests. Giving the device away in the short gaps costs it the other's kernel each
 * time; keeping it through the long ones costs the others the device. The history tells the two apart.
 *
 * The last GAPS_MAX gaps are kept as they were, and each of them is a candidate for the longest that is worth waiting
 * for. A gap not longer than the candidate would have been caught; it is worth `limit` of device time (this is what the
 * administrator says with `limit`) and costs itself. Each longer one costs the whole wait for nothing. The candidate
 * that would have gained most wins, and none does when none would have gained: so the answer falls back to 0 within
 * GAPS_MAX gaps after an entity has changed its habits, and is never above `limit`. The wait is the candidate and a
 * quarter on top, because the next gap of a kind is rarely exactly as long.
 */

#include <stdint.h>

#define GAPS_MAX 16U

typedef struct Gaps {
        uint64_t ns[GAPS_MAX];
        uint32_t n;    /* valid ones */
        uint32_t next; /* the one to be replaced */
} Gaps;

void gaps_learn(Gaps *g, uint64_t gap_ns);

/* How long to wait, 0..limit_ns; 0: do not. */
uint64_t gaps_worth_waiting(const Gaps *g, uint64_t limit_ns);
