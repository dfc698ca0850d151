/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Waits of the application: a thread that waits reports at once that the launches in flight are over (opencl-tail.h)
 */

#include "shim/opencl/opencl-queue.h"

/* A wait that may be left without returning (a jump, cancellation): opencl_wait_leave() is its clean-up. */
typedef struct OpenclWait {
        OpenclQueue *queue;
        uint64_t seq;
} OpenclWait;

static inline void opencl_wait_leave(OpenclWait *w) {
        if (w->queue)
                atomic_fetch_sub(&w->queue->app_waits, 1);
        w->queue = NULL;
}

/* A wait in clWaitForEvents(), in the frame of the waiting thread. The thread's next wait ends one that was left by a
 * jump. Of nested waits only the outermost counts. */
typedef struct OpenclEventWait {
        char frame;
} OpenclEventWait;

void opencl_event_wait_begin(OpenclEventWait *w, cl_uint n, const cl_event *events);
void opencl_event_wait_leave(OpenclEventWait *w);
