/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Costs: what draining, taking off and putting back take, as far as anybody can tell
 *
 * Everything here comes out of pages, so out of the hands of clients. What one says about its own work (how much, how long) is believed as
 * far as it concerns that client, within bounds. What one says about the device (how long its driver took) becomes part of the device's
 * estimate, which others are held by: a sample is no longer than the service has seen go by itself, and moves the estimate by a factor
 * of COSTS_SPREAD at most, so that nobody changes it much by one lie. Whoever lies all the time is held less often by being taken off, and
 * more often by waiting: see preemption.h for the bound.
 *
 * Pure.
 */

#include <stdint.h>

#include "common/time-util.h"

#define COSTS_MIN_NS       (1 * NSEC_PER_USEC)
#define COSTS_MAX_NS       (10 * NSEC_PER_SEC)
#define COSTS_SPREAD       4U
#define COSTS_DRAIN_MAX_NS (10 * NSEC_PER_SEC)

/* Running estimates; 0: not measured yet. */
typedef struct Costs {
        uint64_t hold_ns, release_ns; /* from the word to the driver's end, so with the client's wake-up */
} Costs;

/* One more sample for an estimate. `elapsed_ns`: the longest that it can have been. */
void costs_learn(uint64_t *estimate_ns, uint64_t sample_ns, uint64_t elapsed_ns);

/* Until `n` launches of `mean_ns` each have ended. 0 for none, PREEMPTION_UNKNOWN where the mean is (0). */
uint64_t costs_drain(uint64_t n, uint64_t mean_ns);

/* One after the other, as the queues of a process share a device. */
uint64_t costs_drain_add(uint64_t a, uint64_t b);
