/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Marks and samples
 */

#include <stdatomic.h>

#include "common/signal-mask.h"
#include "common/time-util.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-mark.h"
#include "shim/cuda/cuda-next.h"

/* A sample costs 2 us, and 3 more to read its time. One in so many launches of a known kind is a sample. */
#define SAMPLE_LONG    4U
#define SAMPLE_MIDDLE  16U
#define SAMPLE_SHORT   64U
#define SAMPLE_SETTLED 1024U /* short ones whose mean has enough samples */
#define LONG_NS        (500 * NSEC_PER_USEC)
#define MIDDLE_NS      (50 * NSEC_PER_USEC)
#define SAMPLE_MOST_MS 1e6F

/* To record a mark and to ask for it costs about as much as a launch. */
#define MARK_EVERY    32U
#define MARK_EVERY_NS (100 * NSEC_PER_USEC)

static CudaEvent event_new_here(unsigned flags) {
        CudaEvent e = NULL;

        if (CUDA_CALL(cuEventCreate, CudaResult(*)(CudaEvent *, unsigned), &e, flags) != CUDA_RESULT_SUCCESS)
                return NULL;
        return e;
}

/* A launch by the handle of a stream may be made while another context is current, or none. */
static bool is_at_home(const CudaQueue *q) {
        CudaContext current = NULL;

        return (uintptr_t) q->stream <= CUDA_STREAM_PER_THREAD ||
                        (CUDA_CALL(cuCtxGetCurrent, CudaResult(*)(CudaContext *), &current) == CUDA_RESULT_SUCCESS &&
                                        current == q->context);
}

/* An event belongs to the context in which it is made. The driver refuses to record it in a stream of another one, and
 * it ends with its context. */
static CudaEvent event_new(const CudaQueue *q, unsigned flags) {
        CudaContext popped;

        if (likely(is_at_home(q)))
                return event_new_here(flags);
        SIGNALS_BLOCKED;
        if (CUDA_CALL(cuCtxPushCurrent_v2, CudaResult(*)(CudaContext), q->context) != CUDA_RESULT_SUCCESS)
                return NULL;
        CudaEvent e = event_new_here(flags);
        (void) CUDA_CALL(cuCtxPopCurrent_v2, CudaResult(*)(CudaContext *), &popped);
        return e;
}

static void event_free(CudaEvent e) {
        if (e)
                (void) CUDA_CALL(cuEventDestroy_v2, CudaResult(*)(CudaEvent), e);
}

static bool event_record(CudaEvent e, CudaStream stream) {
        return CUDA_CALL(cuEventRecord, CudaResult(*)(CudaEvent, CudaStream), e, stream) == CUDA_RESULT_SUCCESS;
}

CudaMark *cuda_mark_at(CudaQueue *q, uint32_t i) {
        return &q->marks[(q->head + i) & (CUDA_MARKS - 1)];
}

static CudaMark *mark_push(CudaQueue *q, CudaEvent event, uint32_t drains) {
        CudaMark *m = cuda_mark_at(q, q->n_marks++);

        *m = (CudaMark){.event = event, .seq = q->seq, .expected = q->unmarked_ns, .drains = drains};
        q->n_drains -= drains;
        q->unmarked_ns = 0;
        q->marked_seq = q->seq;
        return m;
}

/* What is asked for before the mark is recorded is ended by it. */
uint32_t cuda_drains_take(CudaQueue *q) {
        return q->n_drains += atomic_exchange(&q->drain_requests, 0);
}

/* Right behind the newest launch of the queue. */
bool cuda_mark_record(CudaQueue *q, CudaStream stream) {
        if (q->n_marks == CUDA_MARKS)
                return false;

        uint32_t drains = cuda_drains_take(q);
        CudaEvent e = q->n_spare > 0 ? q->spare[--q->n_spare] : event_new(q, CUDA_EVENT_DISABLE_TIMING);
        if (!e)
                return false;
        if (!event_record(e, stream)) {
                event_free(e);
                return false;
        }
        (void) mark_push(q, e, drains);
        return true;
}

void cuda_mark_release(CudaQueue *q, const CudaMark *m) {
        if (m->kind != 0)
                q->timed[m->timed].used = false;
        else if (q->n_spare < CUDA_SPARE)
                q->spare[q->n_spare++] = m->event;
        else if (!q->lost)
                event_free(m->event);
}

/* How many launches, or how much of the device's time, share a mark. At the bound a thread waits for the older of two
 * marks, so that the device has work meanwhile. If the device keeps up with the program, there is nothing to wait for;
 * and without a bound marks only tell that it still does. */
static uint32_t marks_apart(const CudaQueue *q, uint32_t limit) {
        return !atomic_load_explicit(&q->keeps_up, memory_order_relaxed) ? 1 : limit > 0 ? 2 : 8;
}

static uint32_t mark_every(const CudaQueue *q, uint32_t limit) {
        bool keeps_up = atomic_load_explicit(&q->keeps_up, memory_order_relaxed);
        uint32_t most = marks_apart(q, limit) * MARK_EVERY;

        return limit == 0 ? most : CLAMP(limit / (keeps_up ? CUDA_MARKS_BOUND : 2), 1U, most);
}

static uint64_t mark_every_ns(const CudaQueue *q, uint32_t limit) {
        return marks_apart(q, limit) * MARK_EVERY_NS;
}

bool cuda_mark_is_due(CudaQueue *q, uint32_t limit) {
        return q->own_default || cuda_drains_take(q) > 0 || q->unmarked_ns >= mark_every_ns(q, limit) ||
                        atomic_load(&cuda_n_captures) > 0 || q->seq - q->marked_seq >= mark_every(q, limit);
}

uint32_t cuda_mark_room(const CudaQueue *q, uint32_t limit, uint64_t expected) {
        uint32_t n = atomic_load(&q->in_flight) + cuda_ride_count(&q->ride), every = mark_every(q, limit);
        uint32_t since = (uint32_t) (q->seq - q->marked_seq);

        if (expected == 0 || expected > CUDA_RIDE_MAX_NS || q->own_default || since >= every || q->n_drains > 0 ||
                        atomic_load(&cuda_n_captures) > 0 || (limit > 0 && n >= limit))
                return 0;
        uint64_t room = MIN(every - since, DIV_ROUND_UP(ns_sub(mark_every_ns(q, limit), q->unmarked_ns), expected));
        room = MIN(room, atomic_load_explicit(&q->to_sample, memory_order_relaxed));
        return (uint32_t) (limit > 0 ? MIN(room, limit - n) : room);
}

/* --- samples --- */

/* 0: not known. */
uint64_t cuda_sample_take(CudaQueue *q, const CudaMark *m) {
        const CudaTimed *t = &q->timed[m->timed];
        float ms = 0;

        if (CUDA_CALL(cuEventElapsedTime, CudaResult(*)(float *, CudaEvent, CudaEvent), &ms, t->begin, t->end) !=
                                        CUDA_RESULT_SUCCESS ||
                        !(ms > 0) || ms > SAMPLE_MOST_MS)
                return 0;
        uint64_t ns = (uint64_t) ((double) ms * (double) NSEC_PER_MSEC);
        launch_kind_learn(&q->kinds, m->kind, ns);
        return ns;
}

static uint32_t sample_every(const CudaQueue *q, uint64_t kind, uint64_t expected) {
        if (expected >= MIDDLE_NS)
                return expected >= LONG_NS ? SAMPLE_LONG : SAMPLE_MIDDLE;
        return launch_kind_is_settled(&q->kinds, kind) ? SAMPLE_SETTLED : SAMPLE_SHORT;
}

bool cuda_sample_skip(CudaQueue *q, uint32_t n) {
        uint32_t to_sample = atomic_load_explicit(&q->to_sample, memory_order_relaxed);

        atomic_store_explicit(&q->to_sample, to_sample - MIN(to_sample, n), memory_order_relaxed);
        return to_sample >= n;
}

/* Under the lock. */
static bool sample_is_possible(CudaQueue *q, uint64_t kind, uint64_t expected) {
        if (expected != 0)
                atomic_store_explicit(&q->to_sample, sample_every(q, kind, expected), memory_order_relaxed);
        return !q->own_default && !q->gone && !q->lost;
}

/* The pair of events around the launch that is about to be made, or CUDA_TIMED. */
uint32_t cuda_sample_begin(CudaQueue *q, CudaStream stream, uint64_t kind) {
        uint64_t expected = launch_kind_expected(&q->kinds, kind);
        uint32_t found = CUDA_TIMED;

        if (atomic_load(&cuda_n_captures) > 0 || (expected != 0 && cuda_sample_skip(q, 1)) || !CUDA_QUEUE_TRY_LOCK(q))
                return CUDA_TIMED;
        if (!q->left && sample_is_possible(q, kind, expected))
                for (uint32_t i = 0; i < CUDA_TIMED && found == CUDA_TIMED; i++)
                        if (!q->timed[i].used)
                                found = i;
        if (found < CUDA_TIMED) {
                CudaTimed *t = &q->timed[found];
                if (!t->begin)
                        t->begin = event_new(q, 0);
                if (t->begin && !t->end)
                        t->end = event_new(q, 0);
                t->used = t->end && event_record(t->begin, stream);
                if (!t->used)
                        found = CUDA_TIMED;
        }
        cuda_queue_unlock(q);
        return found;
}

bool cuda_sample_end(CudaQueue *q, CudaStream stream, uint64_t kind, uint32_t timed) {
        if (q->n_marks == CUDA_MARKS || !event_record(q->timed[timed].end, stream)) {
                q->timed[timed].used = false;
                return false;
        }
        CudaMark *m = mark_push(q, q->timed[timed].end, 0);
        m->kind = kind;
        m->timed = timed;
        return true;
}

void cuda_mark_free_idle(CudaQueue *q) {
        while (q->n_spare > 0)
                event_free(q->spare[--q->n_spare]);
        for (uint32_t i = 0; i < CUDA_TIMED; i++) {
                if (q->timed[i].used)
                        continue;
                event_free(TAKE_PTR(q->timed[i].begin));
                event_free(TAKE_PTR(q->timed[i].end));
        }
}

void cuda_mark_free_all(CudaQueue *q) {
        for (uint32_t i = 0; i < CUDA_TIMED; i++)
                q->timed[i].used = false;
        cuda_mark_free_idle(q);
}
