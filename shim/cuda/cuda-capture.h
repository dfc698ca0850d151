/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Whether any stream is being captured
 *
 * Querying a stream that is being captured invalidates the capture, and a stream joins a capture by waiting for one of
 * its events. So no stream is queried during any capture. No capture begins between cuda_ask_begin() and
 * cuda_ask_end().
 */

#include "common/macro.h"
#include "shim/cuda/cuda-abi.h"

/* The number of captures whose end was not seen. */
extern _hidden_ _Atomic uint32_t cuda_n_captures;

/* cuda_capture_begins(): before a call that begins a capture, on the calling thread. cuda_capture_look(): after that
 * call, and after a call that may have ended a capture. `per_thread`: stream 0 is the per-thread default stream. */
void cuda_capture_begins(CudaStream stream, bool per_thread);
void cuda_capture_look(CudaStream stream, bool per_thread);

/* The same for captures into a graphics API (CIG), of which the driver need not tell: until the end of the last one
 * everything counts as captured. */
void cuda_capture_cig_begins(void);
void cuda_capture_cig_ended(void);

/* Whether a launch on the stream is captured. Only to be asked while there are captures. */
bool cuda_is_captured(CudaStream stream, bool per_thread);

/* A stream, or all streams of a context, are about to be destroyed; and after that call, whether they were: then their
 * captures have ended. A handle may be another object's by then. */
void cuda_capture_leave_stream(CudaStream stream);
void cuda_capture_left_stream(CudaStream stream, bool destroyed);
void cuda_capture_leave_context(CudaContext context);
void cuda_capture_left_context(CudaContext context, bool destroyed);

/* Counts a capture that never ends. */
void cuda_capture_for_ever(void);

/* The frame of the function that has relaxed this thread's mode; NULL: none has. */
extern _hidden_ _Thread_local const void *cuda_capture_relaxed __attribute__((tls_model("initial-exec")));

/* Between these two calls this thread's calls do not disturb captures of other threads. `frame`: of the caller; the
 * second one gets what the first one has returned. A jump out of a signal's handler may leave out the second:
 * cuda_capture_look_back() sets the mode back then. */
const void *cuda_capture_relax(const void *frame);
void cuda_capture_unrelax(const void *const *frame);
void cuda_capture_look_back_slow(const void *frame);
static inline void cuda_capture_look_back(const void *frame) {
        if (unlikely(cuda_capture_relaxed))
                cuda_capture_look_back_slow(frame);
}

/* Returns false when a stream is being captured. */
bool cuda_ask_begin(void);
void cuda_ask_end(void);

/* In a child after fork. */
void cuda_capture_forget(void);
