/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Random: numbers that are the same on every machine for the same seed (splitmix64)
 */

#include <math.h>
#include <stdint.h>

typedef struct Random {
        uint64_t state;
} Random;

static inline uint64_t random_next(Random *r) {
        uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* Above 0, and at most 1. */
static inline double random_unit(Random *r) {
        return ((double) (random_next(r) >> 11) + 1) / (double) (UINT64_C(1) << 53);
}

/* Of mean 1. */
static inline double random_exponential(Random *r) {
        return -log(random_unit(r));
}

static inline double random_normal(Random *r) {
        double radius = sqrt(2 * random_exponential(r));

        return radius * cos(2 * M_PI * random_unit(r));
}
