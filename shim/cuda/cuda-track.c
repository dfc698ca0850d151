/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tracked launches: marks, and what has completed
 */

#include <stdatomic.h>

#include "common/time-util.h"
#include "shim/cuda/cuda-bound.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-track.h"

#define MARK_EVERY    8U
#define MARK_EVERY_NS (50 * NSEC_PER_USEC)

/* A sample costs 2 us: one in so many launches of a kind that is known. */
#define SAMPLE_LONG    4U
#define SAMPLE_MIDDLE  16U
#define SAMPLE_SHORT   64U
#define LONG_NS        (500 * NSEC_PER_USEC)
#define MIDDLE_NS      (50 * NSEC_PER_USEC)
#define SAMPLE_MOST_MS 1e6F

/* --- the driver, asked from a thread that need not be the application's --- */

/* Others may be capturing: what is asked with this mode disturbs no capture of another thread. */
static int capture_mode_relax(void) {
        int mode = CUDA_CAPTURE_MODE_RELAXED;
        (void) CUDA_CALL(cuThreadExchangeStreamCaptureMode, CudaResult(*)(int *), &mode);
        return mode;
}

static void capture_mode_restore(const int *mode) {
        int m = *mode;
        (void) CUDA_CALL(cuThreadExchangeStreamCaptureMode, CudaResult(*)(int *), &m);
}

#define WITH_RELAXED_CAPTURE                                                                                \
        _cleanup_(capture_mode_restore)                                                                     \
        _unused_ int _mode = capture_mode_relax()

/* Of a default stream by its context. */
static CudaResult stream_query(CudaQueue *q) {
        CudaContext popped;

        if (q->stream)
                return CUDA_CALL(cuStreamQuery, CudaResult(*)(CudaStream), q->stream);
        if (CUDA_CALL(cuCtxPushCurrent_v2, CudaResult(*)(CudaContext), q->context) != CUDA_RESULT_SUCCESS)
                return CUDA_RESULT_NOT_READY;
        CudaResult r = CUDA_CALL(cuStreamQuery, CudaResult(*)(CudaStream), NULL);
        (void) CUDA_CALL(cuCtxPopCurrent_v2, CudaResult(*)(CudaContext *), &popped);
        return r;
}

static bool stream_may_be_asked(const CudaQueue *q) {
        return !q->own_default && !q->gone && !q->lost && atomic_load(&cuda_n_captures) == 0;
}

static CudaEvent event_new(unsigned flags) {
        CudaEvent e = NULL;

        if (CUDA_CALL(cuEventCreate, CudaResult(*)(CudaEvent *, unsigned), &e, flags) != CUDA_RESULT_SUCCESS)
                return NULL;
        return e;
}

static void event_free(CudaEvent e) {
        if (e)
                (void) CUDA_CALL(cuEventDestroy_v2, CudaResult(*)(CudaEvent), e);
}

static bool event_record(CudaEvent e, CudaStream stream) {
        return CUDA_CALL(cuEventRecord, CudaResult(*)(CudaEvent, CudaStream), e, stream) ==
                        CUDA_RESULT_SUCCESS;
}

/* --- marks, under the lock of the queue --- */

static CudaMark *mark_at(CudaQueue *q, uint32_t i) {
        return &q->marks[(q->head + i) & (CUDA_MARKS - 1)];
}

static CudaMark *mark_push(CudaQueue *q, CudaEvent event) {
        CudaMark *m = mark_at(q, q->n_marks++);

        *m = (CudaMark){.event = event, .seq = q->seq, .expected = q->unmarked_ns};
        q->unmarked_ns = 0;
        q->marked_seq = q->seq;
        if (q->n_drains > 0 && q->drain_seq == 0)
                q->drain_seq = q->seq;
        return m;
}

/* Right behind the newest launch of the queue. */
static bool mark_record(CudaQueue *q, CudaStream stream) {
        if (q->n_marks == CUDA_MARKS)
                return false;

        CudaEvent e = q->n_spare > 0 ? q->spare[--q->n_spare] : event_new(CUDA_EVENT_DISABLE_TIMING);
        if (!e)
                return false;
        if (!event_record(e, stream)) {
                event_free(e);
                return false;
        }
        (void) mark_push(q, e);
        return true;
}

static void mark_release(CudaQueue *q, const CudaMark *m) {
        if (m->kind != 0)
                q->timed[m->timed].used = false;
        else if (q->n_spare < CUDA_SPARE)
                q->spare[q->n_spare++] = m->event;
        else
                event_free(m->event);
}

static bool mark_is_due(CudaQueue *q, uint64_t kind) {
        uint32_t limit = cuda_bound_limit(q, kind);

        if (q->own_default || q->n_drains > 0 || q->unmarked_ns >= MARK_EVERY_NS ||
                        atomic_load(&cuda_n_captures) > 0)
                return true;
        return q->seq - q->marked_seq >= CLAMP(limit ? limit / 2 : MARK_EVERY, 1U, MARK_EVERY);
}

/* --- samples --- */

/* 0: not known. */
static uint64_t sample_take(CudaQueue *q, const CudaMark *m) {
        const CudaTimed *t = &q->timed[m->timed];
        float ms = 0;

        if (CUDA_CALL(cuEventElapsedTime, CudaResult(*)(float *, CudaEvent, CudaEvent), &ms, t->begin,
                            t->end) != CUDA_RESULT_SUCCESS ||
                        !(ms > 0) || ms > SAMPLE_MOST_MS)
                return 0;
        uint64_t ns = (uint64_t) ((double) ms * (double) NSEC_PER_MSEC);
        cuda_kind_learn(&q->kinds, m->kind, ns);
        return ns;
}

static bool sample_is_due(CudaQueue *q, uint64_t kind) {
        uint64_t expected = cuda_kind_expected(&q->kinds, kind);

        if (expected != 0 && q->to_sample > 0) {
                q->to_sample--;
                return false;
        }
        if (expected != 0)
                q->to_sample = expected >= LONG_NS      ? SAMPLE_LONG
                                : expected >= MIDDLE_NS ? SAMPLE_MIDDLE
                                                        : SAMPLE_SHORT;
        return !q->own_default && !q->gone && !q->lost;
}

/* The pair of events around the launch that is about to be made, or CUDA_TIMED. */
static uint32_t sample_begin(CudaQueue *q, CudaStream stream, uint64_t kind) {
        uint32_t found = CUDA_TIMED;

        if (atomic_load(&cuda_n_captures) > 0 || pthread_mutex_trylock(&q->lock) != 0)
                return CUDA_TIMED;
        if (sample_is_due(q, kind))
                for (uint32_t i = 0; i < CUDA_TIMED && found == CUDA_TIMED; i++)
                        if (!q->timed[i].used)
                                found = i;
        if (found < CUDA_TIMED) {
                CudaTimed *t = &q->timed[found];
                if (!t->begin)
                        t->begin = event_new(0);
                if (t->begin && !t->end)
                        t->end = event_new(0);
                t->used = t->end && event_record(t->begin, stream);
                if (!t->used)
                        found = CUDA_TIMED;
        }
        (void) pthread_mutex_unlock(&q->lock);
        return found;
}

/* --- completion, under the lock of the queue --- */

static void queue_complete(CudaQueue *q, uint32_t n, uint64_t sampled_ns, uint32_t n_sampled) {
        if (n_sampled > 0)
                xsched_queue_complete(q->xq, n_sampled, sampled_ns);
        if (n > n_sampled)
                xsched_queue_complete(q->xq, n - n_sampled, 0);
}

/* All up to `seq` are complete. */
static void queue_done(CudaQueue *q, uint64_t seq) {
        uint64_t sampled_ns = 0, flown_ns = 0;
        uint32_t n = (uint32_t) (seq - q->done_seq), n_sampled = 0;

        for (; q->n_marks > 0 && mark_at(q, 0)->seq <= seq; q->head++, q->n_marks--) {
                const CudaMark *m = mark_at(q, 0);
                uint64_t ns = m->kind != 0 && !q->lost ? sample_take(q, m) : 0;
                sampled_ns += ns;
                n_sampled += ns > 0;
                flown_ns += m->expected;
                mark_release(q, m);
        }
        if (n == 0)
                return;
        q->done_seq = seq;
        if (seq == q->seq)
                q->unmarked_ns = 0;
        atomic_store(&q->flying_ns, seq == q->seq ? 0 : ns_sub(atomic_load(&q->flying_ns), flown_ns));
        atomic_store(&q->since_ns, now_ns());
        atomic_fetch_sub(&q->in_flight, n);
        atomic_store(&q->grace, 0);
        queue_complete(q, n, sampled_ns, n_sampled);
}

static void queue_drained(CudaQueue *q) {
        q->drain_seq = 0;
        for (; q->n_drains > 0; q->n_drains--)
                xsched_queue_drained(q->xq);
}

static void queue_lose(CudaQueue *q) {
        q->lost = true;
        queue_done(q, q->seq);
        queue_drained(q);
}

/* Returns false when the driver says nothing but errors. `ret`: the mark's event has been reached. */
static bool mark_ask(const CudaMark *m, bool *ret) {
        CudaResult r = CUDA_CALL(cuEventQuery, CudaResult(*)(CudaEvent), m->event);

        *ret = r == CUDA_RESULT_SUCCESS;
        return *ret || r == CUDA_RESULT_NOT_READY;
}

/* The newest first: a queue that has caught up is known by one question. Then the oldest. */
static bool marks_ask(CudaQueue *q) {
        bool done;

        if (q->n_marks > 1 && !q->own_default) {
                if (!mark_ask(mark_at(q, q->n_marks - 1), &done))
                        return false;
                if (done) {
                        queue_done(q, mark_at(q, q->n_marks - 1)->seq);
                        return true;
                }
        }
        while (q->n_marks > 0) {
                if (!mark_ask(mark_at(q, 0), &done))
                        return false;
                if (!done)
                        return true;
                queue_done(q, mark_at(q, 0)->seq);
        }
        return true;
}

static void queue_harvest(CudaQueue *q) {
        if (cuda_has_ended() || (q->seq == q->done_seq && q->n_drains == 0))
                return;

        WITH_RELAXED_CAPTURE;
        if (!marks_ask(q)) {
                queue_lose(q);
                return;
        }
        if (q->n_drains > 0 && q->drain_seq != 0 && q->done_seq >= q->drain_seq)
                queue_drained(q);
        if (q->n_marks > 0 || (q->seq == q->done_seq && q->n_drains == 0) || !stream_may_be_asked(q))
                return;
        CudaResult r = stream_query(q);
        if (r == CUDA_RESULT_NOT_READY)
                return;
        if (r != CUDA_RESULT_SUCCESS)
                q->lost = true;
        queue_done(q, q->seq);
        queue_drained(q);
}

/* With their context they have gone by themselves. */
static void free_events(CudaQueue *q) {
        while (q->n_spare > 0)
                event_free(q->spare[--q->n_spare]);
        for (uint32_t i = 0; i < CUDA_TIMED; i++) {
                event_free(TAKE_PTR(q->timed[i].begin));
                event_free(TAKE_PTR(q->timed[i].end));
        }
}

/* Ends with the lock: frees a queue that was the last to need it. */
static void queue_unlock(CudaQueue *q) {
        XschedQueue *last = NULL;

        if (q->gone && q->seq == q->done_seq && q->xq) {
                queue_drained(q);
                last = TAKE_PTR(q->xq);
                if (!q->lost && !cuda_has_ended())
                        free_events(q);
        }
        (void) pthread_mutex_unlock(&q->lock);
        if (!last)
                return;
        xsched_queue_unref(last);
        cuda_queue_free(q);
}

/* --- for others --- */

void cuda_track_harvest(CudaQueue *q) {
        PROTECT_ERRNO;
        if (atomic_load(&q->in_flight) == 0)
                return;
        (void) pthread_mutex_lock(&q->lock);
        if (q->xq)
                queue_harvest(q);
        queue_unlock(q);
}

/* Returns whether it was done. A thread that the driver keeps may have the lock for long. */
static bool try_harvest(CudaQueue *q, const XschedQueue *xq, bool *ret_more) {
        *ret_more = false;
        if (pthread_mutex_trylock(&q->lock) != 0)
                return false;
        /* One that was freed meanwhile may be another one by now. */
        if (q->xq && (!xq || q->xq == xq)) {
                queue_harvest(q);
                *ret_more = q->seq != q->done_seq || q->n_drains > 0;
        }
        queue_unlock(q);
        return true;
}

static void track_last_look(CudaQueue *q) {
        bool more;
        (void) try_harvest(q, NULL, &more);
}

static void track_look(XschedQueue *xq, void *userdata) {
        bool more;

        if (!cuda_has_ended() && (!try_harvest(userdata, xq, &more) || more))
                xsched_queue_look(xq);
}

static void track_drain(XschedQueue *xq, void *userdata) {
        CudaQueue *q = userdata;

        (void) pthread_mutex_lock(&q->lock);
        /* Of a process that ends nothing can be asked: its end tells. */
        bool ours = q->xq == xq && !q->gone && !q->lost && !cuda_has_ended();
        if (ours) {
                q->n_drains++;
                q->drain_seq = 0;
        }
        (void) pthread_mutex_unlock(&q->lock);
        if (ours)
                xsched_queue_look(xq);
        else
                xsched_queue_drained(xq);
}

void cuda_track_close_tail(CudaQueue *q) {
        (void) pthread_mutex_lock(&q->lock);
        if (q->seq != q->marked_seq && !q->own_default && !q->gone && !q->lost &&
                        atomic_load(&cuda_n_captures) == 0)
                (void) mark_record(q, q->stream);
        (void) pthread_mutex_unlock(&q->lock);
}

/* Without a mark: its context goes, too, and the driver tells nothing any more. */
static void track_close(CudaQueue *q, bool with_mark) {
        if (with_mark)
                cuda_track_close_tail(q);

        (void) pthread_mutex_lock(&q->lock);
        if (!q->xq) {
                (void) pthread_mutex_unlock(&q->lock);
                return;
        }
        /* With its context go its events. */
        if (!with_mark)
                q->lost = true;
        q->gone = true;
        if (!with_mark || q->seq != q->marked_seq)
                queue_done(q, q->seq);
        queue_unlock(q);
}

static void close_lost(CudaQueue *q) {
        track_close(q, false);
}

void cuda_track_drop_stream(CudaStream stream) {
        PROTECT_ERRNO;
        CudaQueue *q = cuda_queue_take(stream);

        if (q)
                track_close(q, true);
}

void cuda_track_drop_context(CudaContext context) {
        PROTECT_ERRNO;
        if (context)
                cuda_queue_take_all(context, -1, close_lost);
}

void cuda_track_drop_device(CudaDevice device) {
        PROTECT_ERRNO;
        if (device >= 0)
                cuda_queue_take_all(NULL, device, close_lost);
}

void cuda_track_drop_all(void) {
        PROTECT_ERRNO;
        cuda_queue_take_all(NULL, -1, close_lost);
}

/* --- waits of the application --- */

void cuda_wait_begin(CudaStream stream, bool per_thread, CudaWait *ret) {
        CudaQueue *q = cuda_queue_find(stream, per_thread);

        *ret = (CudaWait){};
        if (!q || q->own_default)
                return;
        (void) pthread_mutex_lock(&q->lock);
        if (q->xq && (q->seq != q->done_seq || q->n_drains > 0))
                *ret = (CudaWait){.queue = q, .xq = q->xq, .seq = q->seq, .n_drains = q->n_drains};
        (void) pthread_mutex_unlock(&q->lock);
}

void cuda_wait_end(CudaWait *w, CudaResult result) {
        CudaQueue *q = w->queue;
        if (!q || result != CUDA_RESULT_SUCCESS)
                return;

        PROTECT_ERRNO;
        (void) pthread_mutex_lock(&q->lock);
        if (q->xq == w->xq) {
                if (w->seq > q->done_seq)
                        queue_done(q, w->seq);
                if (w->n_drains > 0 && w->n_drains == q->n_drains)
                        queue_drained(q);
        }
        queue_unlock(q);
}

void cuda_track_waited_all(void) {
        cuda_queue_each(cuda_track_harvest);
}

/* --- launches --- */

static const CudaQueueOps track_ops = {
                .drain = track_drain, .look = track_look, .last_look = track_last_look};

static bool is_captured(CudaStream stream, bool per_thread) {
        int capturing = 0;

        if (!stream && per_thread)
                stream = (CudaStream) (uintptr_t) CUDA_STREAM_PER_THREAD;
        return CUDA_CALL(cuStreamIsCapturing, CudaResult(*)(CudaStream, int *), stream, &capturing) ==
                        CUDA_RESULT_SUCCESS &&
                        capturing != 0;
}

static void launch_begin(const CudaWork *w, bool wait, CudaLaunch *ret) {
        CudaStream stream = w->stream;
        bool per_thread = w->per_thread;

        *ret = (CudaLaunch){.timed = CUDA_TIMED,
                        .stream = !stream && per_thread ? (CudaStream) (uintptr_t) CUDA_STREAM_PER_THREAD
                                                        : stream};
        if (unlikely(atomic_load_explicit(&cuda_n_captures, memory_order_relaxed) > 0) &&
                        is_captured(stream, per_thread))
                return;

        cuda_count(w->entry);
        CudaQueue *q = cuda_queue_get(stream, per_thread, &track_ops);
        XschedQueue *xq = q ? q->xq : NULL;
        if (!xq)
                return;
        /* In flight and tracked: first the bound, then the gate. A launch must not be let through and then wait. */
        uint64_t kind = 0;
        if (unlikely(atomic_load_explicit(&q->in_flight, memory_order_relaxed) > 0))
                kind = cuda_kind(w->what, w->blocks);
        int r = !wait                                                 ? xsched_queue_begin_nowait(xq)
                        : kind != 0 && cuda_bound_is_reached(q, kind) ? cuda_bound_begin(q, kind)
                                                                      : xsched_queue_begin(xq);
        if (likely(r != XSCHED_TRACKED))
                return;

        PROTECT_ERRNO;
        ret->queue = q;
        ret->xq = xq;
        ret->kind = kind ?: cuda_kind(w->what, w->blocks);
        if (wait)
                ret->timed = sample_begin(q, ret->stream, ret->kind);
}

void cuda_launch_begin(const CudaWork *w, CudaLaunch *ret) {
        launch_begin(w, true, ret);
}

void cuda_launch_begin_nowait(const CudaWork *w, CudaLaunch *ret) {
        launch_begin(w, false, ret);
}

/* Under the lock of the queue. */
static void launch_count(CudaQueue *q, const CudaLaunch *l) {
        uint64_t expected = cuda_kind_expected(&q->kinds, l->kind);

        if (q->seq++ == q->done_seq)
                atomic_store(&q->since_ns, now_ns());
        atomic_fetch_add(&q->in_flight, 1);
        atomic_fetch_add(&q->flying_ns, expected);
        q->unmarked_ns += expected;
        if (l->timed < CUDA_TIMED && q->n_marks < CUDA_MARKS &&
                        event_record(q->timed[l->timed].end, l->stream)) {
                CudaMark *m = mark_push(q, q->timed[l->timed].end);
                m->kind = l->kind;
                m->timed = l->timed;
                return;
        }
        if (l->timed < CUDA_TIMED)
                q->timed[l->timed].used = false;
        /* Of what cannot be asked, and has no mark, nobody would ever learn the end. */
        if (mark_is_due(q, l->kind) && !mark_record(q, l->stream) && q->own_default)
                queue_done(q, q->seq);
}

void cuda_launch_end_slow(CudaLaunch *l, CudaResult result) {
        PROTECT_ERRNO;
        CudaQueue *q = l->queue;

        (void) pthread_mutex_lock(&q->lock);
        bool counts = result == CUDA_RESULT_SUCCESS && q->xq == l->xq && !q->gone && !q->lost;
        if (counts)
                launch_count(q, l);
        else if (l->timed < CUDA_TIMED && q->xq == l->xq)
                q->timed[l->timed].used = false;
        (void) pthread_mutex_unlock(&q->lock);
        if (counts)
                xsched_queue_look(l->xq);
        else
                xsched_queue_complete(l->xq, 1, 0);
}
