/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Time
 *
 * One unit, nanoseconds of CLOCK_MONOTONIC in a uint64_t, everywhere inside; the bus and the configuration speak
 * microseconds or time spans with a unit. NSEC_INFINITY means never.
 */

#include <stdint.h>
#include <time.h>

#define NSEC_INFINITY UINT64_MAX
#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC  UINT64_C(1000000000)

static inline uint64_t timespec_to_ns(const struct timespec *ts) {
        return (uint64_t) ts->tv_sec * NSEC_PER_SEC + (uint64_t) ts->tv_nsec;
}

static inline struct timespec ns_to_timespec(uint64_t ns) {
        return (struct timespec){.tv_sec = (time_t) (ns / NSEC_PER_SEC), .tv_nsec = (long) (ns % NSEC_PER_SEC)};
}

/* Cannot fail for CLOCK_MONOTONIC; goes through the vDSO, so it does not touch errno. */
static inline uint64_t now_ns(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return timespec_to_ns(&ts);
}

/* a + b that sticks at NSEC_INFINITY. */
static inline uint64_t ns_add(uint64_t a, uint64_t b) {
        return a > NSEC_INFINITY - b ? NSEC_INFINITY : a + b;
}

static inline uint64_t ns_sub(uint64_t a, uint64_t b) {
        return a > b ? a - b : 0;
}

/* A running estimate: the first sample, then an eighth of each new one. Samples of 0 count as 1, because 0 says "not
 * measured". */
static inline uint64_t ns_learn(uint64_t estimate, uint64_t sample) {
        if (sample == 0)
                sample = 1;
        if (estimate == 0)
                return sample;
        return sample > estimate ? estimate + (sample - estimate) / 8 : estimate - (estimate - sample) / 8;
}
