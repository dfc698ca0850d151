/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Arrays that grow by one
 */

#include <stdlib.h>

/* Returns the array with room for one more than its n items; it doubles when n is 0, 1, 2, 4, ... NULL without memory:
 * the caller still owns the unchanged array. */
static inline void *array_grow(void *array, size_t n, size_t size) {
        return (n & (n - 1)) == 0 ? reallocarray(array, n ? 2 * n : 1, size) : array;
}
