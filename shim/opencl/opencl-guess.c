/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Estimates how long launches take from the time at which they are found complete
 */

#include "shim/opencl/opencl-guess.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-delay.h"
#include "shim/opencl/opencl-record.h"
#include "shim/opencl/opencl-stamps.h"
#include "shim/opencl/opencl-time.h"

#define PROMPT_NS (20 * NSEC_PER_USEC)

/* Whether a completion was noticed soon after it happened, so that it can serve as a time stamp: by a callback that
 * comes at once, or by a look shortly after one that found the launch in flight. A completion that was found after a
 * wait at the gate says nothing about the device. */
static bool is_prompt(const OpenclQueue *q, uint64_t now) {
        return q->callbacks_prompt || q->waited || (q->looked_ns != 0 && ns_sub(now, q->looked_ns) <= PROMPT_NS);
}

/* Whether other processes may have had the device for a part of the time: the queue is held, or was held while its
 * launch waited at the gate. */
static bool was_among_others(OpenclQueue *q) {
        bool is_held = xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;

        if (is_held)
                opencl_delay_note_held(q);
        return atomic_exchange(&q->was_held, is_held) || is_held;
}

/* For a queue of which this is true for all launches: returns the shortest of the last HELD_MAX samples; 0 while there
 * are fewer. */
#define HELD_MAX 16U

static uint64_t least_of_held(OpenclQueue *q, uint64_t *kind, uint64_t each) {
        uint64_t least = q->n_held > 0 ? MIN(q->held_least_ns, each) : each;

        q->held_kind = q->n_held == 0 || q->held_kind == *kind ? *kind : 0;
        q->held_least_ns = least;
        if (++q->n_held < HELD_MAX)
                return 0;
        q->n_held = 0;
        *kind = q->held_kind;
        return least;
}

/* Another process's turn on the device makes a sample longer, never shorter. So a sample far above the mean counts as a
 * little above it, and in full when it happens repeatedly: then launches have become longer. */
#define ABOVE_MAX 2U

void opencl_guess_learn(OpenclQueue *q, uint64_t kind, uint64_t sample) {
        uint64_t mean = atomic_load_explicit(&q->mean_ns, memory_order_relaxed), most = mean + mean / 2;

        q->n_above = mean != 0 && sample > most ? q->n_above + 1 : 0;
        if (q->n_above > 0 && q->n_above <= ABOVE_MAX)
                sample = most;
        opencl_time_learn(q, kind, sample);
}

void opencl_guess_begin(OpenclQueue *q, uint64_t now) {
        q->measured_since_ns = now;
        q->n_measured = 0;
        q->measured_among_others = false;
}

static void note_found(OpenclQueue *q, const OpenclFound *h, bool among_others) {
        q->measured_kind = q->n_measured == 0 || q->measured_kind == h->kind ? h->kind : 0;
        q->n_measured += h->n_done;
        q->measured_among_others |= among_others;
}

/* Estimates the device time of the launches found since the measurement began. Between a completion that left work
 * behind and a later completion, the device did only this work. From the submission to an idle queue until a
 * completion, it is the work and the way to the device. If the completion was noticed late, or others had the device
 * meanwhile, the time is too long: it then serves as a first estimate, and as an upper bound, so that a mean that is
 * too high comes down even where all completions are noticed late. The measurement then goes on: launches that are
 * found later have not had all the time since it began. */
static void guess(OpenclQueue *q, OpenclFound *h, uint64_t now, bool prompt) {
        bool among_others = was_among_others(q);

        if (h->unsafe)
                q->measured_since_ns = 0; /* they may have waited for the host */
        if (h->unsafe || h->n_done == 0)
                return;
        h->began_ns = opencl_delay_found(q, h->kind, h->n_done, now, prompt);
        note_found(q, h, among_others);
        if (opencl_stamps_measure(q, h->kind) || q->measured_since_ns == 0)
                return;
        bool alone = !q->measured_among_others;
        uint64_t each = ns_sub(now, q->measured_since_ns) / q->n_measured, kind = q->measured_kind;
        uint64_t mean = atomic_load_explicit(&q->mean_ns, memory_order_relaxed);
        uint64_t least = alone ? 0 : least_of_held(q, &kind, each);

        if (alone && prompt)
                q->n_held = 0;
        if (least > 0)
                opencl_guess_learn(q, kind, least);
        else if (each > 0 && ((prompt && alone) || mean == 0 || each < mean))
                opencl_guess_learn(q, kind, each);
}

uint64_t opencl_guess(OpenclQueue *q, OpenclFound *h) {
        uint64_t now = now_ns();
        bool prompt = is_prompt(q, now);

        if (!q->callbacks_prompt || atomic_load(&q->no_samples))
                guess(q, h, now, prompt);
        bool busy = opencl_record_n(q) > 0 && q->tracked[q->head].safe && !q->tracked[q->head].drain;
        if (busy && prompt)
                opencl_guess_begin(q, now);
        else if (!busy)
                q->measured_since_ns = 0;
        atomic_store_explicit(&q->head_since_ns, busy && prompt ? now : 0, memory_order_relaxed);
        return opencl_time_take(q);
}
