/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A libcuda.so.1 for bench-launch-path-cuda.c: it counts its calls, and time passes only as they take it
 *
 * Its device does one kernel after the other, each a while after it was launched.
 */

#include <stdint.h>

typedef enum CountedCall {
        COUNTED_LAUNCH,
        COUNTED_RECORD,
        COUNTED_EVENT_QUERY,
        COUNTED_STREAM_QUERY,
        COUNTED_ELAPSED,
        COUNTED_MODE,
        COUNTED_OTHER,
        _COUNTED_MAX,
} CountedCall;

typedef struct CountedCuda {
        uint64_t now_ns;
        uint64_t done_ns; /* when the device will have done all that it has now */
        uint64_t n[_COUNTED_MAX];
} CountedCuda;

extern CountedCuda counted_cuda;

/* What each call takes. */
extern const uint32_t counted_cuda_ns[_COUNTED_MAX];
