/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Asking the driver what is complete, on a thread that need not be the application's
 *
 * The caller has the lock of the queue.
 */

#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-queue.h"

/* Until the end of the block, calls of this thread do not disturb captures of other threads. */
#define CUDA_WITH_RELAXED_CAPTURE                                                                                      \
        _cleanup_(cuda_capture_unrelax)                                                                                \
        _unused_ const void *_frame = cuda_capture_relax(__builtin_frame_address(0))

/* Around a call about the queue's stream, on a thread that need not be one of those that use the stream: it is not
 * destroyed meanwhile. Returns false if it is about to be. Signals are blocked between the two: nobody jumps away. */
bool cuda_stream_use(CudaQueue *q);
void cuda_stream_unuse(CudaQueue *q);

/* For who is about to destroy the stream, has set `dropped`, and could not get the lock: waits until no thread uses the
 * stream, or the driver has not answered for long. */
void cuda_stream_await_unused(const CudaQueue *q);

/* Whether the answer says that the work is not complete, or nothing about it. */
bool cuda_is_pending(CudaResult r);

/* Returns false when the driver says nothing but errors. `ret`: the event has been reached. */
bool cuda_ask_event(CudaEvent event, bool *ret);

/* Whether all launches of the queue's stream are complete. */
CudaResult cuda_ask_stream(CudaQueue *q);
