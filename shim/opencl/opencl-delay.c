/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Delay from the submission of a turn's first launch to its start on the device
 */

#include "shim/opencl/opencl-delay.h"
#include "common/macro.h"
#include "shim/opencl/opencl-time.h"

/* Number of turns in the mean. It is large because launches of one kind differ by more than the delay. */
#define SAMPLES INT64_C(64)

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

static void learn(OpenclQueue *q, int64_t sample) {
        q->n_delays = MIN(q->n_delays + 1, (uint32_t) SAMPLES);
        q->delay_ns += (sample - q->delay_ns) / (int64_t) q->n_delays;
}

uint64_t opencl_delay_found(OpenclQueue *q, uint64_t kind, uint32_t n, uint64_t now, bool prompt) {
        bool begins = q->begins_turn;

        q->begins_turn = false;
        if (!begins || !prompt)
                return 0;

        const int64_t most = (int64_t) OPENCL_DELAY_MAX;
        uint64_t each = kind != 0 ? opencl_time_expected(q, kind) : 0;
        int64_t took = (int64_t) ns_sub(now, q->started_ns);

        each = each ?: atomic_load_explicit(&q->mean_ns, memory_order_relaxed);
        if (each == 0)
                return 0;
        /* Larger values have another cause, and one of them must not take many others to correct. */
        learn(q, CLAMP(took - (int64_t) (each * n), -2 * most, 2 * most));
        int64_t delay = CLAMP(q->delay_ns, INT64_C(0), MIN(most, took));
        return delay > 0 ? q->started_ns + (uint64_t) delay : 0;
}
