/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A stand-in for AMD's libamdhip64: streams whose work ends when the test says so
 *
 * A stream is a number of launches, of which some have ended. An event is a place in a stream. As in HIP, the answer
 * "not ready" becomes the last error of the thread that asked.
 */

#include <stdbool.h>

#include "shim/hip/hip-abi.h"

typedef struct ihipStream_t {
        int device;
        _Atomic unsigned n, n_ended;
        _Atomic unsigned most; /* launches in flight at a time */
        _Atomic bool captured, destroyed;
} FakeStream;

/* The last call of a function that does work on a stream: its name, and the sum of its arguments, each times its place
 * (from 1). */
typedef struct FakeCall {
        const char *name;
        uint64_t sum;
} FakeCall;

FakeCall fake_hip_last(void);
void fake_hip_fails(HipResult result); /* what the next launch returns */
void fake_hip_end(HipStream stream, unsigned n);
unsigned fake_hip_events(void); /* that there are */

/* HIP's own that the test calls, and the layer does not have. */
HipResult hipStreamCreate(HipStream *ret);
HipResult hipSetDevice(int device);
HipResult hipGetDevice(int *ret);
HipResult hipGetLastError(void);
HipResult hipPeekAtLastError(void);
HipResult hipEventQuery(HipEvent event);
HipResult hipEventCreateWithFlags(HipEvent *ret, unsigned flags);
HipResult hipEventRecord(HipEvent event, HipStream stream);
HipResult hipEventDestroy(HipEvent event);
HipResult hipStreamIsCapturing(HipStream stream, int *ret);
HipResult hipThreadExchangeStreamCaptureMode(int *mode);
HipResult hipDeviceGetPCIBusId(char *id, int size, int device);
