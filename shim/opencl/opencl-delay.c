/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Delay from the submission of a turn's first launch to its start on the device
 */

#include "shim/opencl/opencl-delay.h"
#include "common/macro.h"
#include "shim/opencl/opencl-time.h"

/* Number of turns after which steps do not get smaller. It is large because launches of one kind differ by more than
 * the delay. */
#define SAMPLES UINT32_C(64)

/* A delay is not negative, but its estimate may be, by a little: otherwise it would be too high where there is none. */
#define LEAST (-(int64_t) OPENCL_DELAY_MAX / 8)

void opencl_delay_reset(OpenclQueue *q) {
        atomic_store(&q->turn_over, false);
        q->begins_turn = false;
        q->delay_ns = 0;
        q->n_delays = 0;
}

void opencl_delay_note_held(OpenclQueue *q) {
        atomic_store(&q->turn_over, true);
}

void opencl_delay_submitted(OpenclQueue *q, bool alone) {
        bool begins = atomic_load_explicit(&q->turn_over, memory_order_relaxed) &&
                        atomic_exchange(&q->turn_over, false);

        if (alone)
                q->begins_turn = begins;
}

/* The estimate goes towards each sample, but by no more than a step, so that it tends to the median: in some turns the
 * launch waits for other programs' work, which takes far longer, and their part in a mean would be taken off all. */
static void learn(OpenclQueue *q, int64_t sample) {
        q->n_delays = MIN(q->n_delays + 1, SAMPLES);

        int64_t step = (int64_t) (OPENCL_DELAY_MAX / q->n_delays);
        q->delay_ns += CLAMP(sample - q->delay_ns, -step, step);
        q->delay_ns = CLAMP(q->delay_ns, LEAST, (int64_t) OPENCL_DELAY_MAX);
}

uint64_t opencl_delay_found(OpenclQueue *q, uint64_t kind, uint32_t n, uint64_t now, bool prompt) {
        bool begins = q->begins_turn;

        q->begins_turn = false;
        if (!begins || !prompt)
                return 0;

        uint64_t each = kind != 0 ? opencl_time_expected(q, kind) : 0;
        int64_t took = (int64_t) ns_sub(now, q->started_ns);

        each = each ?: atomic_load_explicit(&q->mean_ns, memory_order_relaxed);
        if (each == 0)
                return 0;
        learn(q, took - (int64_t) (each * n));
        int64_t delay = CLAMP(q->delay_ns, INT64_C(0), MAX(took, INT64_C(0)));
        return delay > 0 ? q->started_ns + (uint64_t) delay : 0;
}
