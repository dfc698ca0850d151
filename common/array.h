/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Arrays that grow by one
 */

#include <stdlib.h>

/* Room for one more than the n items there are: it doubles when n is 0, 1, 2, 4, ... NULL when memory ran out: then
 * the array is as it was, and the caller's. */
static inline void *array_grow(void *array, size_t n, size_t size) {
        return (n & (n - 1)) == 0 ? reallocarray(array, n ? 2 * n : 1, size) : array;
}
