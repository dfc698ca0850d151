/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches that are being made
 *
 * A launch is counted before the driver is called, and the same thread tells how it ended. But a handler of a signal
 * may jump out of the driver (siglongjmp(), an exception), and then nobody tells: the queue would count as busy for
 * ever, and hold others back. So each thread has records of its launches, by their frames. A record whose frame is gone
 * is taken back when the thread launches or waits for the next time. Stacks grow down, so the frame of a launch that is
 * still being made, which a handler has interrupted, is at a higher address.
 */

#include "shim/cuda/cuda-queue.h"

#define CUDA_BEGUN 4U /* launches of a thread that are made at a time: handlers nest */

/* Notes a launch. Returns the record's index; CUDA_BEGUN: there is none free. */
uint32_t cuda_begun_note(CudaQueue *q, XschedQueue *xq, const void *frame);

/* The same for a launch on a ride: cuda_ride_begin(). */
uint32_t cuda_begun_note_ride(CudaQueue *q, XschedQueue *xq, const void *frame, uint32_t ride);

/* Notes its sample: CudaLaunch.timed. */
void cuda_begun_set_timed(uint32_t index, uint32_t timed);

/* Returns whether the launch has not been taken back: a handler on another stack may have taken it for one that was
 * left. */
bool cuda_begun_is_there(uint32_t index, const XschedQueue *xq);

/* The launch has been counted, or will not be. */
void cuda_begun_end(uint32_t index);

/* Takes back launches that were left. `frame`: of the caller. */
void cuda_begun_look_slow(const void *frame);
extern _hidden_ _Thread_local uint32_t cuda_n_begun __attribute__((tls_model("initial-exec")));
static inline void cuda_begun_look(const void *frame) {
        if (unlikely(cuda_n_begun > 0))
                cuda_begun_look_slow(frame);
}
