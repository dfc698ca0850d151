/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * One launch: through the gate, and tracked until it has completed
 *
 * A hook does: q = opencl_gate(queue, n_waits, ...); when that is NULL the launch passes as without us. Otherwise it is
 * tracked: opencl_launch_start(), the native call with launch.event, opencl_launch_end() with its result.
 */

#include "shim/opencl/opencl-bound.h"
#include "shim/opencl/opencl-queue.h"
#include "shim/opencl/opencl-thread.h"
#include "shim/opencl/opencl-time.h"
#include "shim/opencl/opencl-wait.h"

typedef struct OpenclLaunch {
        OpenclQueue *queue;
        uint64_t kind;
        uint64_t start_ns;
        uint64_t covers;
        cl_event own;
        cl_event *event; /* where the runtime stores the event: the application's place, or ours; NULL: nowhere */
        bool blocking;
} OpenclLaunch;

/* `waits`: the launch's own wait list, which the runtime has validated unless the launch failed. The caller sets
 * `ret->blocking` when the call may take long: a thread that launches meanwhile does not count as a second thread that
 * keeps the queue full. */
void opencl_launch_start(OpenclQueue *q, cl_event *event, uint64_t kind, cl_uint n_waits, OpenclLaunch *ret);
void opencl_launch_end(OpenclLaunch *l, bool failed, cl_uint n_waits, const cl_event *waits);

/* The same around a blocking call, which has nothing to track when it returns. */
void opencl_blocking_start(OpenclQueue *q, OpenclWait *w);
void opencl_blocking_end(OpenclWait *w, OpenclQueue *q, bool failed);

typedef enum OpenclObserve {
        OPENCL_OBSERVE_WAITS,   /* only its wait list matters */
        OPENCL_OBSERVE_BARRIER, /* everything behind it waits, too, on any queue */
        OPENCL_OBSERVE_HOST,    /* may wait for anything on the host */
} OpenclObserve;

/* A command that passes without the gate was submitted. */
void opencl_observe(OpenclQueue *q, OpenclObserve what, cl_uint n_waits, const cl_event *waits);

/* Puts the drains that were left to the next launch, or to the next look. */
void opencl_drain_wanted(OpenclQueue *q);

/* XschedQueueInfo.drain */
void opencl_drain(XschedQueue *xq, void *userdata);

static inline void opencl_note_waits(OpenclQueue *q) {
        if (!atomic_load_explicit(&q->waits_unknown, memory_order_relaxed))
                atomic_store_explicit(&q->waits_unknown, true, memory_order_relaxed);
}

/* `what`, `dim` and `global` as for opencl_time_kind(). */
static inline OpenclQueue *opencl_gate(
                cl_command_queue handle, cl_uint n_waits, const void *what, cl_uint dim, const size_t *global) {
        OpenclTable *t = atomic_load_explicit(&opencl_table, memory_order_acquire);
        OpenclQueue *q = opencl_table_find(t, handle);
        if (unlikely(!q))
                return NULL;

        /* In flight and tracked: first the bound, then the gate. A launch must not be let through and then wait. */
        uint64_t kind = 0;
        if (unlikely(atomic_load_explicit(&q->n_tracked, memory_order_relaxed) != 0)) {
                kind = opencl_time_kind(what, dim, global);
                if (!opencl_bound_is_reached(q, kind))
                        kind = 0;
        }
        int r = unlikely(opencl_thread.in_callback) ? xsched_queue_begin_nowait(q->xq)
                        : unlikely(kind)            ? opencl_bound_begin(q, kind)
                                                    : xsched_queue_begin(q->xq);
        if (likely(r == XSCHED_UNTRACKED)) {
                if (unlikely(n_waits))
                        opencl_note_waits(q);
                return NULL;
        }
        return q;
}
