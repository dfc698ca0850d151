/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * HIP's functions, as far as the layer needs them: AMD's headers are not there at the build
 *
 * From hip_runtime_api.h of ROCm 5.2 to 7.2, where they are the same. hipLaunchKernelExC() and hipDrvLaunchKernelEx()
 * are ROCm 6.5's. What is only passed on is a pointer without a type.
 */

#include <stddef.h>
#include <stdint.h>

typedef int HipResult;
typedef struct ihipStream_t *HipStream;
typedef struct ihipEvent_t *HipEvent;

enum {
        HIP_RESULT_SUCCESS = 0,
        HIP_RESULT_NOT_READY = 600,
        HIP_RESULT_NOT_SUPPORTED = 801,
};

#define HIP_EVENT_DISABLE_TIMING 2U
#define HIP_CAPTURE_NONE         0
#define HIP_CAPTURE_MODE_RELAXED 2
#define HIP_STREAM_PER_THREAD    2U /* the last handle that is no pointer */

typedef struct HipDim3 {
        uint32_t x, y, z;
} HipDim3;

typedef struct HipExtent {
        size_t width, height, depth;
} HipExtent;

typedef struct HipPitched {
        void *ptr;
        size_t pitch, xsize, ysize;
} HipPitched;

/* The begins of hipLaunchConfig_t and of HIP_LAUNCH_CONFIG. */
typedef struct HipLaunchConfig {
        HipDim3 grid, block;
        size_t shared;
        HipStream stream;
} HipLaunchConfig;

typedef struct HipDrvLaunchConfig {
        unsigned grid[3], block[3], shared;
        HipStream stream;
} HipDrvLaunchConfig;
