/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Waits of the application
 */

#include "shim/opencl/opencl-wait.h"
#include "shim/opencl/opencl-event.h"

#define EVENT_WAITS 4U

/* This thread's outermost wait: for the queues of the last few events, each with a reference. Not in the wait's own
 * frame, which a jump out of it would lose. */
static __thread struct {
        const OpenclEventWait *wait; /* NULL: none */
        OpenclQueue *queues[EVENT_WAITS];
        uint32_t n;
} waiting __attribute__((tls_model("initial-exec")));

static void waiting_end(void) {
        waiting.wait = NULL;
        while (waiting.n > 0) {
                OpenclQueue *q = waiting.queues[--waiting.n];
                atomic_fetch_sub(&q->event_waits, 1);
                opencl_queue_unref(q);
        }
}

/* The handles are valid here, because the waiting thread uses them. */
void opencl_event_wait_begin(OpenclEventWait *w, cl_uint n, const cl_event *events) {
        /* Stacks grow down: a frame at a lower or equal address has ended, by a jump out of its wait. */
        if ((uintptr_t) waiting.wait <= (uintptr_t) w)
                waiting_end();
        if (waiting.wait)
                return;
        waiting.wait = w;
        for (cl_uint i = n; i > 0 && events && waiting.n < EVENT_WAITS; i--) {
                OpenclQueue *q = opencl_queue_get(opencl_event_queue(events[i - 1]));
                if (!q)
                        continue;
                atomic_fetch_add(&q->event_waits, 1);
                waiting.queues[waiting.n++] = q;
        }
}

void opencl_event_wait_leave(OpenclEventWait *w) {
        if (waiting.wait == w)
                waiting_end();
}
