/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The record of a queue's tracked launches
 */

#include "shim/opencl/opencl-record.h"
#include "common/array.h"
#include "shim/opencl/opencl-delay.h"
#include "shim/opencl/opencl-guess.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-time.h"

#define TRACKED_MAX 65536U
#define SEARCH_MAX  256U /* newest launches among which an event is looked for */

static bool reserve(OpenclQueue *q) {
        if (q->n < q->allocated)
                return true;
        if (q->head > 0) {
                memmove(q->tracked, q->tracked + q->head, opencl_record_n(q) * sizeof(OpenclTracked));
                q->n -= q->head;
                q->head = 0;
        }
        if (q->n < q->allocated)
                return true;
        if (q->allocated >= TRACKED_MAX)
                return false;

        OpenclTracked *t = array_reserve(q->tracked, &q->allocated, q->n + 1, sizeof(OpenclTracked));
        if (t)
                q->tracked = t;
        return t;
}

bool opencl_record_push(OpenclQueue *q, cl_event event, const OpenclTrack *t) {
        if (q->forgotten || !reserve(q))
                return false;

        bool in_order = atomic_load_explicit(&q->in_order, memory_order_relaxed);
        bool drain = t->kind == OPENCL_TRACK_DRAIN, point = t->kind == OPENCL_TRACK_POINT;
        bool own_safe = t->kind == OPENCL_TRACK_SAFE || ((drain || point) && in_order);
        uint64_t expected = 0;
        if (!drain && !point)
                expected = opencl_time_expected(q, t->what) ?: atomic_load_explicit(&q->mean_ns, memory_order_relaxed);
        uint64_t seq = ++q->last_seq;
        bool waits_unknown = atomic_load_explicit(&q->waits_unknown, memory_order_relaxed) &&
                        atomic_exchange(&q->waits_unknown, false);
        if (waits_unknown || (in_order && !own_safe))
                q->unsafe_seq = seq;
        opencl_delay_submitted(q, q->n == q->head);
        if (q->n == q->head) {
                atomic_fetch_add(&opencl_n_busy, 1);
                opencl_tail_note_begin(q, t->start_ns);
                opencl_guess_begin(q, t->start_ns);
                q->started_ns = t->start_ns;
                atomic_store_explicit(&q->head_since_ns, t->start_ns, memory_order_relaxed);
                atomic_store_explicit(&q->look_at, 0, memory_order_relaxed);
        }
        q->tracked[q->n++] = (OpenclTracked){
                        .event = event,
                        .seq = seq,
                        .covers = t->covers,
                        .kind = t->what,
                        .expected_ns = expected,
                        .safe = own_safe && q->unsafe_seq <= q->done_seq,
                        .drain = drain,
                        .point = point,
                        .stamps = t->stamps,
        };
        atomic_store_explicit(&q->flying_ns, atomic_load_explicit(&q->flying_ns, memory_order_relaxed) + expected,
                        memory_order_relaxed);
        if (event)
                q->covered_seq = MAX(q->covered_seq, t->covers);
        else
                q->open_seq = seq;
        q->newest_ns = t->start_ns;
        atomic_store_explicit(&q->since_point,
                        event ? 0 : atomic_load_explicit(&q->since_point, memory_order_relaxed) + 1,
                        memory_order_relaxed);
        atomic_store_explicit(&q->n_tracked, (uint32_t) opencl_record_n(q), memory_order_release);
        return true;
}

bool opencl_record_find(OpenclQueue *q, cl_event event, OpenclTracked *ret) {
        bool found = false;
        (void) pthread_mutex_lock(&q->lock);
        size_t last = opencl_record_n(q) > SEARCH_MAX ? q->n - SEARCH_MAX : q->head;
        for (size_t i = q->n; i > last && !found; i--) {
                found = q->tracked[i - 1].event == event;
                if (found)
                        *ret = q->tracked[i - 1];
        }
        (void) pthread_mutex_unlock(&q->lock);
        return found;
}

uint64_t opencl_record_last(OpenclQueue *q) {
        if (atomic_load(&q->n_tracked) == 0)
                return 0;
        (void) pthread_mutex_lock(&q->lock);
        uint64_t seq = q->last_seq;
        (void) pthread_mutex_unlock(&q->lock);
        return seq;
}
