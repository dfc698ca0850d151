/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * CUDA by the driver's own interface, for programs that are built without a toolkit: libcuda is looked for when they
 * run. All functions end the process with a message when the driver refuses.
 */

#include <stdio.h>

#include "common/macro.h"

#define cuda_die(...)                                                                                                  \
        do {                                                                                                           \
                fprintf(stderr, "%s: ", program_invocation_short_name);                                                \
                fprintf(stderr, __VA_ARGS__);                                                                          \
                fputc('\n', stderr);                                                                                   \
                exit(EXIT_FAILURE);                                                                                    \
        } while (0)

typedef int CudaStatus; /* 0: success */
typedef uint64_t CudaMemory;

#define CUDA_CHECK(call)                                                                                               \
        do {                                                                                                           \
                CudaStatus _status = (call);                                                                           \
                if (_status != 0)                                                                                      \
                        cuda_die("%s: error %d of CUDA", #call, _status);                                              \
        } while (0)

typedef struct CudaDriver {
        CudaStatus (*init)(unsigned flags);
        CudaStatus (*device_get)(int *ret, int index);
        CudaStatus (*device_name)(char *ret, int size, int device);
        CudaStatus (*retain)(void **ret, int device);
        CudaStatus (*set_current)(void *context);
        CudaStatus (*load)(void **ret, const void *text);
        CudaStatus (*function)(void **ret, void *module, const char *name);
        CudaStatus (*alloc)(CudaMemory *ret, size_t size);
        CudaStatus (*free)(CudaMemory m);
        CudaStatus (*stream)(void **ret, unsigned flags);
        CudaStatus (*to_device)(CudaMemory to, const void *from, size_t size, void *stream);
        CudaStatus (*to_host)(void *to, CudaMemory from, size_t size, void *stream);
        CudaStatus (*launch)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **params, void **extra);
        CudaStatus (*wait)(void *stream);
} CudaDriver;

extern CudaDriver cuda;
extern void *cuda_stream, *cuda_context;
extern char cuda_device_name[128];
extern uint64_t cuda_n_launches;

/* Opens the first device, with a stream of its own and the kernels of cuda-kernels.cl. */
void cuda_open(void);

/* NULL: the driver has no function of that name. */
void *cuda_find(const char *name);

/* The kernels, on cuda_stream. */
void cuda_scale(CudaMemory x, unsigned n, unsigned a, unsigned b);
void cuda_clip(CudaMemory x, unsigned n);
void cuda_matmul(CudaMemory c, CudaMemory a, CudaMemory b, unsigned n);
void cuda_convolve(CudaMemory out, CudaMemory in, CudaMemory w, unsigned n);

/* Memory for n numbers of 32 bits, which get what is at `from`, unless that is NULL. */
CudaMemory cuda_put(const uint32_t *from, size_t n);
void cuda_get(uint32_t *to, CudaMemory from, size_t n);

/* How many launches the layer has seen; -1: it is not loaded. */
int64_t cuda_n_seen(void);
