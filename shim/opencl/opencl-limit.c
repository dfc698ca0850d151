/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The in-flight bound
 */

#include "shim/opencl/opencl-limit.h"
#include "common/futex.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-time.h"

uint32_t opencl_limit(OpenclQueue *q, uint64_t kind) {
        uint64_t each = opencl_time_expected(q, kind);
        uint32_t n = atomic_load_explicit(&q->n_tracked, memory_order_relaxed);

        if (each != 0 && n > 0)
                each = MAX(each, atomic_load_explicit(&q->flying_ns, memory_order_relaxed) / n);
        /* The oldest launch has taken longer than all in flight should, so the learned time is wrong. For launches
         * without an event the begin of the oldest is not known until some have ended. */
        uint64_t since = atomic_load_explicit(&q->head_since_ns, memory_order_relaxed);
        if (each != 0 && n > 0 && since != 0) {
                uint64_t elapsed = ns_sub(now_ns(), since);
                if (elapsed > 2 * atomic_load_explicit(&q->flying_ns, memory_order_relaxed))
                        each = MAX(each, elapsed / opencl_tail_every(q));
        }
        return xsched_queue_limit_for(q->xq, each);
}

void opencl_limit_progress(OpenclQueue *q) {
        atomic_fetch_add(&q->progress, 1);
        if (atomic_load(&q->bound_waiters) > 0)
                (void) futex(&q->progress, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, 0);
}
