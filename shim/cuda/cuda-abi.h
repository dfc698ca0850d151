/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The part of libcuda's binary interface that the layer uses
 *
 * Declared here and not taken from NVIDIA's header, so that the build needs nothing from NVIDIA. The driver keeps these
 * types and values for as long as it exports a name. tests/cuda/cuda-abi.c compares them with cuda.h where there is
 * one.
 */

#include <stdint.h>

typedef int CudaResult;

enum {
        CUDA_RESULT_SUCCESS = 0,
        CUDA_RESULT_NOT_READY = 600,
        CUDA_RESULT_NOT_PERMITTED = 800,
        CUDA_RESULT_CAPTURE_FIRST = 900, /* CUDA_ERROR_STREAM_CAPTURE_*, and CUDA_ERROR_CAPTURED_EVENT */
        CUDA_RESULT_CAPTURE_IMPLICIT = 906,
        CUDA_RESULT_CAPTURE_LAST = 908,
        CUDA_RESULT_NO_SYMBOL = 302, /* CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND */
};

/* Handles. A stream is also one of the values below. */
typedef struct CudaStreamHandle *CudaStream;
typedef struct CudaEventHandle *CudaEvent;
typedef struct CudaContextHandle *CudaContext;
typedef struct CudaGreenHandle *CudaGreen;
typedef struct CudaGraphHandle *CudaGraph;
typedef void *CudaFunction;
typedef int CudaDevice;

#define CUDA_STREAM_LEGACY     1U
#define CUDA_STREAM_PER_THREAD 2U

#define CUDA_EVENT_DISABLE_TIMING 2U

#define CUDA_CAPTURE_MODE_RELAXED 2 /* CUstreamCaptureMode */

typedef struct CudaLaunchConfig {
        unsigned grid[3], block[3], shared_bytes;
        CudaStream stream;
        void *attributes;
        unsigned n_attributes;
} CudaLaunchConfig;

typedef struct CudaLaunchParams {
        CudaFunction function;
        unsigned grid[3], block[3], shared_bytes;
        CudaStream stream;
        void **params;
} CudaLaunchParams;
