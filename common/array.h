/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Arrays that grow
 */

#include <stdlib.h>

#include "common/macro.h"

/* Returns the array with room for one more than its n items; it doubles when n is 0, 1, 2, 4, ... NULL without memory:
 * the caller still owns the unchanged array. */
static inline void *array_grow(void *array, size_t n, size_t size) {
        return (n & (n - 1)) == 0 ? reallocarray(array, n ? 2 * n : 1, size) : array;
}

/* Returns the array with room for `needed` items; *room is how many fit, and at least doubles where it grows. NULL
 * without memory: the caller still owns the unchanged array. */
static inline void *array_reserve(void *array, size_t *room, size_t needed, size_t size) {
        size_t n = MAX(2 * *room, (size_t) 16);

        if (array && needed <= *room)
                return array;
        n = MAX(n, needed);
        void *grown = reallocarray(array, n, size);
        if (grown)
                *room = n;
        return grown;
}
