/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Streams of HIP that an XQueue is in front of: their launches pass the gate, and their ends are noticed
 *
 * Other streams are not known here: the hardware's queues behind them have their own layer (shim/kfd).
 *
 * An event is recorded behind each launch. The control thread asks for the events once a millisecond while a launch is
 * in flight; so does a thread that waits for room below the limit. No other thread of the application asks, because the
 * answer "not ready" would be its last error.
 */

#include <stdbool.h>

#include "include/xsched/xsched.h"
#include "shim/hip/hip-abi.h"

typedef struct HipQueue HipQueue;

typedef struct HipLaunch {
        HipQueue *queue; /* NULL: the launch is none of ours */
        bool tracked;
} HipLaunch;

/* Makes the queue of a stream of the current device, once. See XschedMakeQueue. */
void hip_queue_make(HipStream stream);

/* Passes the gate. The caller then makes the native call, and calls hip_launch_end() with its result. A launch within
 * another launch, or on a stream that is being captured, passes freely. */
void hip_launch_begin(HipStream stream, HipLaunch *ret);
void hip_launch_end(HipLaunch *l, HipResult result);

/* The application waits until the stream is idle. hip_wait_end() reports the launches before hip_wait_begin(). */
typedef struct HipWait {
        HipQueue *queue;
        uint64_t seq;
} HipWait;

void hip_wait_begin(HipStream stream, HipWait *ret);
void hip_wait_end(HipWait *w, HipResult result);

/* The stream, or each stream of the current device, is about to be destroyed. */
void hip_queue_drop(HipStream stream);
void hip_queue_drop_device(void);
