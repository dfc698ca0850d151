/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The layer's functions in front of HIP's
 *
 * What does work on one stream in its order passes the gate: kernels, graphs, and copies and fills that do not wait.
 * Functions that end in _spt differ for the default stream alone. Launches on several devices at once, and those
 * through a pointer that the program has asked the runtime for, pass by.
 */

#include <stdlib.h>

#include "common/macro.h"
#include "shim/hip/hip-next.h"
#include "shim/hip/hip-queue.h"

#define NEXT(call)                                                                                                     \
        static HipCell cell = {.name = #call};                                                                         \
        typeof(&(call)) next = (typeof(&(call))) (uintptr_t) hip_next(&cell, __builtin_return_address(0))

/* PARAMS and ARGS with their brackets. */
#define GATED(call, STREAM, PARAMS, ARGS)                                                                              \
        HipResult call PARAMS;                                                                                         \
        _public_                                                                                                       \
        HipResult call PARAMS {                                                                                        \
                NEXT(call);                                                                                            \
                HipLaunch l;                                                                                           \
                                                                                                                       \
                if (unlikely(!next))                                                                                   \
                        return HIP_RESULT_NOT_SUPPORTED;                                                               \
                hip_launch_begin(STREAM, &l);                                                                          \
                HipResult r = next ARGS;                                                                               \
                hip_launch_end(&l, r);                                                                                 \
                return r;                                                                                              \
        }

#define GATED_BOTH(call, PARAMS, ARGS)                                                                                 \
        GATED(call, stream, PARAMS, ARGS)                                                                              \
        GATED(call##_spt, stream, PARAMS, ARGS)

/* --- kernels and graphs --- */

GATED_BOTH(hipLaunchKernel, (const void *f, HipDim3 grid, HipDim3 block, void **args, size_t shared, HipStream stream),
                (f, grid, block, args, shared, stream))
GATED_BOTH(hipLaunchCooperativeKernel,
                (const void *f, HipDim3 grid, HipDim3 block, void **args, unsigned shared, HipStream stream),
                (f, grid, block, args, shared, stream))
GATED(hipExtLaunchKernel, stream,
                (const void *f, HipDim3 grid, HipDim3 block, void **args, size_t shared, HipStream stream,
                                HipEvent start, HipEvent stop, int flags),
                (f, grid, block, args, shared, stream, start, stop, flags))
GATED(hipLaunchKernelExC, config ? config->stream : NULL, (const HipLaunchConfig *config, const void *f, void **args),
                (config, f, args))

#define DIMENSIONS      uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz
#define DIMENSIONS_ARGS gx, gy, gz, bx, by, bz

GATED(hipModuleLaunchKernel, stream,
                (void *f, DIMENSIONS, unsigned shared, HipStream stream, void **params, void **extra),
                (f, DIMENSIONS_ARGS, shared, stream, params, extra))
GATED(hipModuleLaunchCooperativeKernel, stream, (void *f, DIMENSIONS, unsigned shared, HipStream stream, void **params),
                (f, DIMENSIONS_ARGS, shared, stream, params))
GATED(hipExtModuleLaunchKernel, stream,
                (void *f, DIMENSIONS, size_t shared, HipStream stream, void **params, void **extra, HipEvent start,
                                HipEvent stop, uint32_t flags),
                (f, DIMENSIONS_ARGS, shared, stream, params, extra, start, stop, flags))
GATED(hipHccModuleLaunchKernel, stream,
                (void *f, DIMENSIONS, size_t shared, HipStream stream, void **params, void **extra, HipEvent start,
                                HipEvent stop),
                (f, DIMENSIONS_ARGS, shared, stream, params, extra, start, stop))
GATED(hipDrvLaunchKernelEx, config ? config->stream : NULL,
                (const HipDrvLaunchConfig *config, void *f, void **params, void **extra), (config, f, params, extra))
GATED_BOTH(hipGraphLaunch, (void *graph, HipStream stream), (graph, stream))

/* --- copies --- */

GATED_BOTH(hipMemcpyAsync, (void *to, const void *from, size_t n, int kind, HipStream stream),
                (to, from, n, kind, stream))
GATED(hipMemcpyHtoDAsync, stream, (void *to, const void *from, size_t n, HipStream stream), (to, from, n, stream))
GATED(hipMemcpyDtoHAsync, stream, (void *to, void *from, size_t n, HipStream stream), (to, from, n, stream))
GATED(hipMemcpyDtoDAsync, stream, (void *to, void *from, size_t n, HipStream stream), (to, from, n, stream))
GATED(hipMemcpyPeerAsync, stream,
                (void *to, int to_device, const void *from, int from_device, size_t n, HipStream stream),
                (to, to_device, from, from_device, n, stream))
GATED_BOTH(hipMemcpy2DAsync,
                (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,
                                HipStream stream),
                (to, to_pitch, from, from_pitch, width, height, kind, stream))
GATED_BOTH(hipMemcpy3DAsync, (const void *params, HipStream stream), (params, stream))
GATED(hipMemcpyParam2DAsync, stream, (const void *copy, HipStream stream), (copy, stream))
GATED(hipDrvMemcpy3DAsync, stream, (const void *copy, HipStream stream), (copy, stream))
GATED_BOTH(hipMemcpyToSymbolAsync,
                (const void *symbol, const void *from, size_t n, size_t offset, int kind, HipStream stream),
                (symbol, from, n, offset, kind, stream))
GATED_BOTH(hipMemcpyFromSymbolAsync,
                (void *to, const void *symbol, size_t n, size_t offset, int kind, HipStream stream),
                (to, symbol, n, offset, kind, stream))

/* --- fills --- */

GATED_BOTH(hipMemsetAsync, (void *to, int value, size_t n, HipStream stream), (to, value, n, stream))
GATED(hipMemsetD8Async, stream, (void *to, unsigned char value, size_t n, HipStream stream), (to, value, n, stream))
GATED(hipMemsetD16Async, stream, (void *to, unsigned short value, size_t n, HipStream stream), (to, value, n, stream))
GATED(hipMemsetD32Async, stream, (void *to, int value, size_t n, HipStream stream), (to, value, n, stream))
GATED_BOTH(hipMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, HipStream stream),
                (to, pitch, value, width, height, stream))
GATED_BOTH(hipMemset3DAsync, (HipPitched to, int value, HipExtent extent, HipStream stream),
                (to, value, extent, stream))

/* --- waits and ends --- */

#define WAITED(call)                                                                                                   \
        HipResult call(HipStream stream);                                                                              \
        _public_                                                                                                       \
        HipResult call(HipStream stream) {                                                                             \
                NEXT(call);                                                                                            \
                HipWait w;                                                                                             \
                                                                                                                       \
                if (unlikely(!next))                                                                                   \
                        return HIP_RESULT_NOT_SUPPORTED;                                                               \
                hip_wait_begin(stream, &w);                                                                            \
                HipResult r = next(stream);                                                                            \
                hip_wait_end(&w, r);                                                                                   \
                return r;                                                                                              \
        }

WAITED(hipStreamSynchronize)
WAITED(hipStreamSynchronize_spt)

HipResult hipStreamDestroy(HipStream stream);
_public_
HipResult hipStreamDestroy(HipStream stream) {
        NEXT(hipStreamDestroy);

        if (unlikely(!next))
                return HIP_RESULT_NOT_SUPPORTED;
        hip_queue_drop(stream);
        return next(stream);
}

HipResult hipDeviceReset(void);
_public_
HipResult hipDeviceReset(void) {
        NEXT(hipDeviceReset);

        if (unlikely(!next))
                return HIP_RESULT_NOT_SUPPORTED;
        hip_queue_drop_device();
        return next();
}

void xsched_hip_make_queue(uint64_t native);
_public_
void xsched_hip_make_queue(uint64_t native) {
        hip_queue_make((HipStream) (uintptr_t) native);
}
