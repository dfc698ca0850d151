/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * shim/cuda/cuda-abi.h against NVIDIA's own header, where there is one: compiling this is most of the test
 *
 * The layer is built without that header, so its own declarations are compared with it here.
 */

#include <cuda.h>
#include <stddef.h>
#include <stdio.h>

#include "shim/cuda/cuda-abi.h"

#define SAME(ours, theirs) _Static_assert((long) (ours) == (long) (theirs), #ours " is " #theirs)
#define SAME_PLACE(Ours, ours, Theirs, theirs)                                                                         \
        SAME(offsetof(Ours, ours), offsetof(Theirs, theirs));                                                          \
        SAME(sizeof(((Ours *) 0)->ours), sizeof(((Theirs *) 0)->theirs))

SAME(CUDA_RESULT_SUCCESS, CUDA_SUCCESS);
SAME(CUDA_RESULT_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CUDA_RESULT_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(CUDA_RESULT_NO_SYMBOL, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
SAME(CUDA_RESULT_CAPTURE_FIRST, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CUDA_RESULT_CAPTURE_LAST, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(CUDA_RESULT_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
_Static_assert((int) CUDA_ERROR_CAPTURED_EVENT > (int) CUDA_RESULT_CAPTURE_FIRST &&
                                (int) CUDA_ERROR_CAPTURED_EVENT < (int) CUDA_RESULT_CAPTURE_LAST,
                "of an event that was captured");

SAME(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(CUDA_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);

SAME(sizeof(CudaResult), sizeof(CUresult));
SAME(sizeof(CudaStream), sizeof(CUstream));
SAME(sizeof(CudaEvent), sizeof(CUevent));
SAME(sizeof(CudaContext), sizeof(CUcontext));
#if CUDA_VERSION >= 12040
SAME(sizeof(CudaGreen), sizeof(CUgreenCtx));
#endif
SAME(sizeof(CudaGraph), sizeof(CUgraphExec));
SAME(sizeof(CudaFunction), sizeof(CUfunction));
SAME(sizeof(CudaDevice), sizeof(CUdevice));

SAME(sizeof(CudaLaunchConfig), sizeof(CUlaunchConfig));
SAME_PLACE(CudaLaunchConfig, grid[0], CUlaunchConfig, gridDimX);
SAME_PLACE(CudaLaunchConfig, grid[2], CUlaunchConfig, gridDimZ);
SAME_PLACE(CudaLaunchConfig, block[0], CUlaunchConfig, blockDimX);
SAME_PLACE(CudaLaunchConfig, block[2], CUlaunchConfig, blockDimZ);
SAME_PLACE(CudaLaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(CudaLaunchConfig, stream, CUlaunchConfig, hStream);
SAME_PLACE(CudaLaunchConfig, attributes, CUlaunchConfig, attrs);
SAME_PLACE(CudaLaunchConfig, n_attributes, CUlaunchConfig, numAttrs);

SAME(sizeof(CudaLaunchParams), sizeof(CUDA_LAUNCH_PARAMS));
SAME_PLACE(CudaLaunchParams, function, CUDA_LAUNCH_PARAMS, function);
SAME_PLACE(CudaLaunchParams, grid[0], CUDA_LAUNCH_PARAMS, gridDimX);
SAME_PLACE(CudaLaunchParams, block[0], CUDA_LAUNCH_PARAMS, blockDimX);
SAME_PLACE(CudaLaunchParams, shared_bytes, CUDA_LAUNCH_PARAMS, sharedMemBytes);
SAME_PLACE(CudaLaunchParams, stream, CUDA_LAUNCH_PARAMS, hStream);
SAME_PLACE(CudaLaunchParams, params, CUDA_LAUNCH_PARAMS, kernelParams);

int main(void) {
        printf("as in cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
        return CUDA_STREAM_LEGACY != (uintptr_t) CU_STREAM_LEGACY ||
                        CUDA_STREAM_PER_THREAD != (uintptr_t) CU_STREAM_PER_THREAD;
}
