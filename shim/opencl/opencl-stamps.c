/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Time stamps of launches
 */

#include "shim/opencl/opencl-stamps.h"
#include "shim/opencl/opencl-guess.h"
#include "shim/opencl/opencl-time.h"

#define SAMPLE_NS (2 * NSEC_PER_MSEC)

/* Runtimes that keep no stamps, though the queue was made for it, say so as often as they are asked. */
#define REFUSALS_MAX 64U

bool opencl_stamps_are_kept(const OpenclQueue *q) {
        return q->stamps && atomic_load_explicit(&q->n_stamp_refusals, memory_order_relaxed) < REFUSALS_MAX;
}

bool opencl_stamps_are_late(const OpenclQueue *q) {
        return ns_sub(now_ns(), atomic_load_explicit(&q->sampled_ns, memory_order_relaxed)) >= OPENCL_STAMPS_LATE_NS;
}

uint32_t opencl_stamps_every(uint64_t mean_ns) {
        return mean_ns == 0 ? 1 : (uint32_t) CLAMP(SAMPLE_NS / mean_ns, UINT64_C(1), (uint64_t) OPENCL_STAMPS_EVERY);
}

uint64_t opencl_stamps_read(cl_event event) {
        cl_ulong start = 0, end = 0;

        if (opencl_next.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL) !=
                                        CL_SUCCESS ||
                        opencl_next.clGetEventProfilingInfo(
                                        event, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL) != CL_SUCCESS)
                return 0;
        return end > start ? end - start : 0;
}

void opencl_stamps_learn(OpenclQueue *q, uint64_t kind, uint64_t ns) {
        if (ns == 0) {
                atomic_fetch_add(&q->n_stamp_refusals, 1);
                return;
        }
        atomic_store(&q->n_stamp_refusals, 0);
        q->stamped = true;
        opencl_guess_learn(q, kind, ns);
}

bool opencl_stamps_measure(const OpenclQueue *q, uint64_t kind) {
        return q->stamped && (kind == 0 || opencl_time_expected(q, kind) != 0);
}
