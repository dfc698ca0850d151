/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * See counted-cuda.h
 */

#include <stdio.h>
#include <stdlib.h>

#include "common/macro.h"
#include "counted-cuda.h"
#include "shim/cuda/cuda-abi.h"

#define ARRIVES_NS 4000U /* from a call until its work is on the device */

/* As on an H200 with the driver 580. */
_public_
const uint32_t counted_cuda_ns[_COUNTED_MAX] = {
                [COUNTED_LAUNCH] = 3800,
                [COUNTED_RECORD] = 700,
                [COUNTED_EVENT_QUERY] = 1400,
                [COUNTED_STREAM_QUERY] = 2300,
                [COUNTED_ELAPSED] = 3100,
                [COUNTED_MODE] = 20,
};

_public_
CountedCuda counted_cuda = {.now_ns = UINT64_C(1000000000000)};

struct CudaEventHandle {
        uint64_t at_ns;
};

static struct CudaContextHandle { int device; } context;

/* The bench does not count the instructions of these two. */
static _noinline_ CudaResult driver_call(CountedCall call) {
        counted_cuda.n[call]++;
        counted_cuda.now_ns += counted_cuda_ns[call];
        return CUDA_RESULT_SUCCESS;
}

static _noinline_ uint64_t driver_submit(uint64_t ns) {
        counted_cuda.done_ns = MAX(counted_cuda.done_ns, counted_cuda.now_ns + ARRIVES_NS) + ns;
        return counted_cuda.done_ns;
}

static CudaResult is_over(uint64_t at_ns) {
        return at_ns <= counted_cuda.now_ns ? CUDA_RESULT_SUCCESS : CUDA_RESULT_NOT_READY;
}

/* Each function, as it is found by its name. */
#define CALL(name, PARAMS)                                                                                             \
        CudaResult name PARAMS;                                                                                        \
        _public_                                                                                                       \
        CudaResult name PARAMS

/* A kernel takes as long as its address says. */
CALL(cuLaunchKernel,
                (CudaFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                unsigned shared, CudaStream stream, void **params, void **extra)) {
        (void) driver_call(COUNTED_LAUNCH);
        (void) driver_submit((uintptr_t) f);
        return CUDA_RESULT_SUCCESS;
}

CALL(cuEventCreate, (CudaEvent * ret, unsigned flags)) {
        *ret = calloc(1, sizeof(**ret));
        return driver_call(COUNTED_OTHER);
}

CALL(cuEventDestroy_v2, (CudaEvent e)) {
        free(e);
        return driver_call(COUNTED_OTHER);
}

CALL(cuEventRecord, (CudaEvent e, CudaStream stream)) {
        (void) driver_call(COUNTED_RECORD);
        e->at_ns = driver_submit(0);
        return CUDA_RESULT_SUCCESS;
}

CALL(cuEventQuery, (CudaEvent e)) {
        (void) driver_call(COUNTED_EVENT_QUERY);
        return is_over(e->at_ns);
}

CALL(cuEventElapsedTime, (float *ret, CudaEvent from, CudaEvent to)) {
        (void) driver_call(COUNTED_ELAPSED);
        *ret = (float) (to->at_ns - from->at_ns) / 1e6F;
        return is_over(to->at_ns);
}

CALL(cuStreamQuery, (CudaStream stream)) {
        (void) driver_call(COUNTED_STREAM_QUERY);
        return is_over(counted_cuda.done_ns);
}

CALL(cuStreamSynchronize, (CudaStream stream)) {
        counted_cuda.now_ns = MAX(counted_cuda.now_ns, counted_cuda.done_ns);
        return CUDA_RESULT_SUCCESS;
}

CALL(cuThreadExchangeStreamCaptureMode, (int *mode)) {
        static int current;
        int old = current;

        current = *mode;
        *mode = old;
        return driver_call(COUNTED_MODE);
}

CALL(cuStreamGetCtx, (CudaStream stream, CudaContext *ret)) {
        *ret = &context;
        return driver_call(COUNTED_OTHER);
}

CALL(cuCtxPushCurrent_v2, (CudaContext c)) {
        return driver_call(COUNTED_OTHER);
}

CALL(cuCtxPopCurrent_v2, (CudaContext * ret)) {
        *ret = &context;
        return driver_call(COUNTED_OTHER);
}

CALL(cuCtxGetCurrent, (CudaContext * ret)) {
        *ret = &context;
        return driver_call(COUNTED_OTHER);
}

CALL(cuCtxGetDevice, (CudaDevice * ret)) {
        *ret = context.device;
        return driver_call(COUNTED_OTHER);
}

CALL(cuDeviceGetPCIBusId, (char *ret, int n, CudaDevice device)) {
        (void) snprintf(ret, (size_t) n, "0000:A0:00.0");
        return driver_call(COUNTED_OTHER);
}

CALL(cuDeviceGetName, (char *ret, int n, CudaDevice device)) {
        (void) snprintf(ret, (size_t) n, "Counted GPU");
        return driver_call(COUNTED_OTHER);
}
