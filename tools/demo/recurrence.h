/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The work of every kernel, and its known answer
 *
 * A kernel applies x -> a x + c (mod 2^32) `rounds` times to each item: a chain of dependent steps that the device
 * cannot shorten, since a and c arrive as arguments. The host can: n applications of an affine map are one affine map,
 * found in log n steps by squaring. So every item of every task is checked, at the cost of one multiplication an item.
 */

#include <stdint.h>

typedef struct Affine {
        uint32_t a, c;
} Affine;

#define AFFINE_IDENTITY ((Affine){.a = 1, .c = 0})

/* A generator with full period: no item ever gets stuck in a short cycle that would hide a missing round. */
#define AFFINE_STEP ((Affine){.a = UINT32_C(1664525), .c = UINT32_C(1013904223)})

static inline uint32_t affine_apply(Affine f, uint32_t x) {
        return f.a * x + f.c;
}

/* First f, then g. */
static inline Affine affine_then(Affine f, Affine g) {
        return (Affine){.a = g.a * f.a, .c = g.a * f.c + g.c};
}

static inline Affine affine_power(Affine f, uint64_t n) {
        Affine result = AFFINE_IDENTITY;

        for (; n > 0; n >>= 1) {
                if (n & 1)
                        result = affine_then(result, f);
                f = affine_then(f, f);
        }
        return result;
}

/* Where item i of the tenant with this seed starts (the finaliser of a well-known integer hash; any bijection does). */
static inline uint32_t recurrence_start(uint32_t seed, uint32_t i) {
        uint32_t x = seed * UINT32_C(0x9e3779b9) + i;

        x = (x ^ (x >> 16)) * UINT32_C(0x85ebca6b);
        x = (x ^ (x >> 13)) * UINT32_C(0xc2b2ae35);
        return x ^ (x >> 16);
}

/* The order of launches, folded into one word by the kernels and again by the host. */
static inline uint32_t recurrence_order(uint32_t order, uint32_t launch) {
        return order * 31 + launch + 1;
}
