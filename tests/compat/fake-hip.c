/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A stand-in for AMD's libamdhip64: see fake-hip.h
 */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/macro.h"
#include "fake-hip.h"

struct ihipEvent_t {
        int device;
        FakeStream *_Atomic stream;
        _Atomic unsigned at;
};

static _Thread_local HipResult last_error;
static _Thread_local int current_device;
static _Thread_local FakeCall last_call;
static _Thread_local HipResult next_result;
static _Atomic unsigned n_events;
static _Atomic bool has_ended;

/* After this nobody may call. The layer's own end comes before, because it is registered later. */
__attribute__((destructor)) static void end(void) {
        atomic_store(&has_ended, true);
}

static HipResult answer(HipResult r) {
        if (atomic_load(&has_ended)) {
                (void) fputs("fake-hip: called after its end\n", stderr);
                abort();
        }
        return last_error = r;
}

_public_
FakeCall fake_hip_last(void) {
        return last_call;
}

_public_
void fake_hip_fails(HipResult result) {
        next_result = result;
}

_public_
void fake_hip_end(HipStream stream, unsigned n) {
        atomic_fetch_add(&stream->n_ended, n);
}

_public_
unsigned fake_hip_events(void) {
        return atomic_load(&n_events);
}

static HipResult launch(HipStream stream) {
        HipResult r = TAKE_GENERIC(next_result, HIP_RESULT_SUCCESS);
        if (r != HIP_RESULT_SUCCESS)
                return answer(r);

        unsigned n = atomic_fetch_add(&stream->n, 1) + 1 - atomic_load(&stream->n_ended);
        if (n > atomic_load(&stream->most))
                atomic_store(&stream->most, n);
        return answer(HIP_RESULT_SUCCESS);
}

#define F(call, STREAM, PARAMS, PASSED, SUM)                                                                           \
        HipResult call PARAMS;                                                                                         \
        _public_                                                                                                       \
        HipResult call PARAMS {                                                                                        \
                last_call = (FakeCall){.name = #call, .sum = SUM};                                                     \
                return launch(STREAM);                                                                                 \
        }
#include "hip-functions.h"
#undef F

/* Streams stay, so that a use after the end is seen. */
_public_
HipResult hipStreamCreate(HipStream *ret) {
        static FakeStream streams[64];
        static _Atomic unsigned n;

        *ret = streams + atomic_fetch_add(&n, 1);
        (*ret)->device = current_device;
        return answer(HIP_RESULT_SUCCESS);
}

HipResult hipStreamDestroy(HipStream stream);
_public_
HipResult hipStreamDestroy(HipStream stream) {
        if (atomic_exchange(&stream->destroyed, true))
                abort();
        return answer(HIP_RESULT_SUCCESS);
}

HipResult hipDeviceReset(void);
_public_
HipResult hipDeviceReset(void) {
        return answer(HIP_RESULT_SUCCESS);
}

static HipResult synchronize(HipStream stream) {
        atomic_store(&stream->n_ended, atomic_load(&stream->n));
        return answer(HIP_RESULT_SUCCESS);
}

HipResult hipStreamSynchronize(HipStream stream);
_public_
HipResult hipStreamSynchronize(HipStream stream) {
        return synchronize(stream);
}

HipResult hipStreamSynchronize_spt(HipStream stream);
_public_
HipResult hipStreamSynchronize_spt(HipStream stream) {
        return synchronize(stream);
}

_public_
HipResult hipStreamIsCapturing(HipStream stream, int *ret) {
        *ret = atomic_load(&stream->captured);
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipThreadExchangeStreamCaptureMode(int *mode) {
        static _Thread_local int now;
        int before = now;

        now = *mode;
        *mode = before;
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipSetDevice(int device) {
        current_device = device;
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipGetDevice(int *ret) {
        *ret = current_device;
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipDeviceGetPCIBusId(char *id, int size, int device) {
        (void) snprintf(id, (size_t) size, "0000:0%d:00.0", device);
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipGetLastError(void) {
        return TAKE_GENERIC(last_error, HIP_RESULT_SUCCESS);
}

_public_
HipResult hipPeekAtLastError(void) {
        return last_error;
}

_public_
HipResult hipEventCreateWithFlags(HipEvent *ret, unsigned flags) {
        *ret = calloc(1, sizeof(**ret));
        (*ret)->device = current_device;
        atomic_fetch_add(&n_events, 1);
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipEventDestroy(HipEvent event) {
        free(event);
        atomic_fetch_sub(&n_events, 1);
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipEventRecord(HipEvent event, HipStream stream) {
        if (atomic_load(&stream->destroyed) || stream->device != event->device)
                abort();
        atomic_store(&event->stream, stream);
        atomic_store(&event->at, atomic_load(&stream->n));
        return answer(HIP_RESULT_SUCCESS);
}

_public_
HipResult hipEventQuery(HipEvent event) {
        bool over = atomic_load(&atomic_load(&event->stream)->n_ended) >= atomic_load(&event->at);

        return answer(over ? HIP_RESULT_SUCCESS : HIP_RESULT_NOT_READY);
}
