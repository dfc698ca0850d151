/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Random numbers that are the same everywhere
 */

#include "policy-harness.h"

uint64_t random_next(Random *r) {
        uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64: any seed is a good one */

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

uint64_t random_range(Random *r, uint64_t lo, uint64_t hi) {
        return lo + random_next(r) % (hi - lo + 1);
}

uint64_t random_log(Random *r, uint64_t lo, uint64_t hi) {
        uint64_t top = lo;

        while (top < hi && random_range(r, 0, 7) != 0)
                top = MIN(top * 2, hi);
        return random_range(r, lo, top);
}
