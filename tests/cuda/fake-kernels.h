/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Kernels of the stand-in's that modules name: those of tools/demo/cuda-kernels.cl, in C
 */

#include <stdbool.h>
#include <stdint.h>

#define FAKE_PARAMS 4U

typedef struct FakeKernel {
        const char *name;
        bool wide[FAKE_PARAMS]; /* memory; else a number of 32 bits */
        void (*run)(const uint64_t *params);
} FakeKernel;

/* NULL: `text`, which is PTX, has no entry of that name, or the stand-in has none. */
const FakeKernel *fake_kernel_find(const char *text, const char *name);

/* Whether a function's handle is one of these. */
bool fake_kernel_is(const void *function);

void fake_kernel_read(const FakeKernel *k, void **params, uint64_t *ret);
