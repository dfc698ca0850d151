/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Kernels that modules name: see fake-kernels.h
 */

#include "fake-kernels.h"

#include <stdio.h>
#include <string.h>

#define MEMORY(i) ((uint32_t *) (uintptr_t) p[i])

static void scale(const uint64_t *p) {
        for (uint32_t i = 0; i < (uint32_t) p[1]; i++)
                MEMORY(0)[i] = (uint32_t) p[2] * MEMORY(0)[i] + (uint32_t) p[3];
}

static void clip(const uint64_t *p) {
        for (uint32_t i = 0; i < (uint32_t) p[1]; i++)
                if (MEMORY(0)[i] >> 31)
                        MEMORY(0)[i] = 0;
}

static void matmul(const uint64_t *p) {
        uint32_t n = (uint32_t) p[3];

        for (uint32_t i = 0; i < n * n; i++) {
                uint32_t sum = 0;
                for (uint32_t k = 0; k < n; k++)
                        sum += MEMORY(1)[i / n * n + k] * MEMORY(2)[k * n + i % n];
                MEMORY(0)[i] = sum;
        }
}

static void convolve(const uint64_t *p) {
        uint32_t n = (uint32_t) p[3];

        for (uint32_t i = 0; i < n * n; i++) {
                uint32_t sum = 0;
                for (uint32_t j = 0; j < 9; j++) {
                        uint32_t r = i / n + j / 3 - 1, c = i % n + j % 3 - 1;
                        if (r < n && c < n)
                                sum += MEMORY(1)[r * n + c] * MEMORY(2)[j];
                }
                MEMORY(0)[i] = sum;
        }
}

static const FakeKernel kernels[] = {
                {"scale", {true, false, false, false}, scale},
                {"clip", {true, false, false, false}, clip},
                {"matmul", {true, true, true, false}, matmul},
                {"convolve", {true, true, true, false}, convolve},
};

#define N_KERNELS (sizeof(kernels) / sizeof(kernels[0]))

const FakeKernel *fake_kernel_find(const char *text, const char *name) {
        char entry[64];

        snprintf(entry, sizeof(entry), ".entry %s(", name);
        for (unsigned i = 0; i < N_KERNELS; i++)
                if (strcmp(kernels[i].name, name) == 0 && strstr(text, entry))
                        return &kernels[i];
        return NULL;
}

bool fake_kernel_is(const void *function) {
        return (const FakeKernel *) function >= kernels && (const FakeKernel *) function < kernels + N_KERNELS;
}

/* Reads only the parameters that the kernel has: "clip" has two. */
void fake_kernel_read(const FakeKernel *k, void **params, uint64_t *ret) {
        unsigned n = k->run == clip ? 2 : FAKE_PARAMS;

        for (unsigned i = 0; i < n; i++)
                ret[i] = k->wide[i] ? *(uint64_t *) params[i] : *(uint32_t *) params[i];
}
