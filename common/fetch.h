/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Memory that is about to be read
 */

#include <stddef.h>
#include <stdint.h>

#define FETCH_LINE 64U

/* Has the CPU fetch these bytes, 1 or more, into its cache, without waiting for them. Never faults, whatever the
 * address. For sizes that are known when it is compiled: it is one instruction a line then. */
static inline __attribute__((always_inline)) void fetch_lines(uintptr_t at, size_t size) {
#pragma GCC unroll 16
        for (size_t i = 0; i < size; i += FETCH_LINE)
                __builtin_prefetch((const void *) (at + i));
        __builtin_prefetch((const void *) (at + size - 1));
}
