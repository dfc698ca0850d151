/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long launches take: see opencl-time.h
 */

#include <stdlib.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-stamps.h"
#include "shim/opencl/opencl-time.h"

/* On average one launch in so many is measured. A measurement costs two callbacks, so fewer are made where launches are
 * short: about one in SHORT_APART_NS of their time, which is enough to notice a change soon. */
#define EVERY_LONG     1U
#define EVERY_MIDDLE   3U
#define EVERY_SHORT    32U
#define EVERY_TINY     1024U
#define LONG_NS        (500 * NSEC_PER_USEC)
#define MIDDLE_NS      (50 * NSEC_PER_USEC)
#define SHORT_APART_NS (2 * NSEC_PER_MSEC)

struct OpenclSample {
        _Atomic(OpenclQueue *) queue; /* taken by the thread that ends the sample */
        cl_event event;               /* not ours; only compared */
        uint64_t kind;
        _Atomic uint64_t began_ns; /* 0: not yet */
        bool early;                /* the launch had begun before we asked */
        _Atomic bool kept;         /* the event has a reference of ours: see sample_keep_event() */
        struct OpenclSample *prev, *next;
};

/* --- kinds --- */

uint64_t opencl_time_kind(const void *what, cl_uint dim, const size_t *global) {
        uint64_t items = 1;

        if (global && dim >= 1 && dim <= 3)
                for (cl_uint i = 0; i < dim; i++)
                        if (__builtin_mul_overflow(items, global[i], &items))
                                items = UINT64_MAX;
        return launch_kind(what, items);
}

uint64_t opencl_time_expected(const OpenclQueue *q, uint64_t kind) {
        const LaunchKinds *k = atomic_load_explicit(&q->kinds, memory_order_acquire);

        return k ? launch_kind_expected(k, kind) : 0;
}

/* Readers take no lock: they find a complete table, or none. */
static void kind_learn(OpenclQueue *q, uint64_t kind, uint64_t ns) {
        LaunchKinds *k = atomic_load_explicit(&q->kinds, memory_order_relaxed);

        if (!k) {
                k = calloc(1, sizeof(*k));
                if (!k)
                        return;
                atomic_store_explicit(&q->kinds, k, memory_order_release);
        }
        launch_kind_learn(k, kind, ns);
}

void opencl_time_learn(OpenclQueue *q, uint64_t kind, uint64_t ns) {
        uint64_t sample = MIN(ns, (uint64_t) UINT32_MAX); /* what the page holds */

        uint64_t mean = atomic_load_explicit(&q->mean_ns, memory_order_relaxed);
        atomic_store_explicit(&q->mean_ns, launch_mean_next(mean, &q->n_mean, sample), memory_order_relaxed);
        q->learned_ns += sample;
        q->n_learned++;
        if (kind != 0)
                kind_learn(q, kind, sample);
}

uint64_t opencl_time_take(OpenclQueue *q) {
        uint64_t ns = q->n_learned > 0 ? q->learned_ns / q->n_learned : 0;

        q->learned_ns = 0;
        q->n_learned = 0;
        return ns;
}

void opencl_time_reset(OpenclQueue *q) {
        LaunchKinds *k = atomic_load_explicit(&q->kinds, memory_order_relaxed);

        /* The memory is kept for the next queue of this record, because a reader may still use it. */
        if (k)
                memset(k, 0, sizeof(*k));
        atomic_store(&q->mean_ns, 0);
        q->learned_ns = 0;
        q->n_mean = q->n_learned = 0;
        q->samples = NULL;
        atomic_store(&q->no_samples, false);
        atomic_store(&q->skip, 0);
        atomic_store(&q->random, (uint64_t) (uintptr_t) q | 1);
}

/* --- samples --- */

/* Samples whose callbacks may never come, or may still come. */
static _Atomic(OpenclSample *) lost_samples;

static void sample_lose(OpenclSample *s) {
        s->next = atomic_load(&lost_samples);
        while (!atomic_compare_exchange_weak(&lost_samples, &s->next, s))
                ;
}

static void sample_unlink(OpenclQueue *q, OpenclSample *s) {
        if (s->prev)
                s->prev->next = s->next;
        else
                q->samples = s->next;
        if (s->next)
                s->next->prev = s->prev;
}

/* The sample for which this thread registers a callback: a callback inside of that call comes too late to be
 * measured. */
static __thread OpenclSample *asking __attribute__((tls_model("initial-exec")));

static void CL_CALLBACK sample_runs(cl_event event, cl_int status, void *userdata) {
        OpenclSample *s = userdata;

        if (asking == s) {
                s->early = true;
                return;
        }
        if (atomic_exchange(&s->kept, false))
                (void) opencl_next.clReleaseEvent(event);
        atomic_store(&s->began_ns, now_ns()); /* and nothing more: the other callback frees it */
}

/*
 * PoCL 7.1 at times ends an event without having called back for CL_RUNNING, as where a launch fails before it runs. It
 * keeps that callback in a list that has to be empty when the event is freed: an assertion ends the process. So the
 * event stays, by a reference that only a late call for CL_RUNNING gives back.
 */
static void sample_keep_event(OpenclSample *s, cl_event event) {
        if (opencl_next.clRetainEvent(event) == CL_SUCCESS)
                atomic_store(&s->kept, true);
}

static void CL_CALLBACK sample_complete(cl_event event, cl_int status, void *userdata) {
        PROTECT_ERRNO;
        uint64_t now = now_ns();
        OpenclSample *s = userdata;
        uint64_t began = atomic_load(&s->began_ns);
        OpenclQueue *q;

        if (began == 0)
                sample_keep_event(s, event);
        q = atomic_exchange(&s->queue, NULL);
        if (!q)
                return;

        (void) pthread_mutex_lock(&q->lock);
        sample_unlink(q, s);
        if (began != 0 && began < now && asking != s && status == CL_COMPLETE)
                opencl_time_learn(q, s->kind, now - began);
        (void) pthread_mutex_unlock(&q->lock);

        /* A runtime that does not report the start may still call. */
        if (began == 0) {
                if (asking != s && status == CL_COMPLETE)
                        atomic_store(&q->no_samples, true);
                sample_lose(s);
        } else
                free(s);
        opencl_queue_unref(q);
}

void opencl_time_give_up(OpenclQueue *q, cl_event event) {
        for (OpenclSample *s = q->samples, *next; s; s = next) {
                next = s->next;
                if (s->event != event || !atomic_exchange(&s->queue, NULL))
                        continue;
                sample_unlink(q, s);
                sample_lose(s);
                opencl_queue_unref(q); /* the caller has another */
        }
}

bool opencl_time_is_due(const OpenclQueue *q, uint64_t kind) {
        if (q->callbacks_prompt ? atomic_load_explicit(&q->no_samples, memory_order_relaxed)
                                : !opencl_stamps_are_kept(q))
                return false;
        return opencl_time_expected(q, kind) == 0 || atomic_load_explicit(&q->skip, memory_order_relaxed) == 0 ||
                        (!q->callbacks_prompt && opencl_stamps_are_late(q));
}

/* One launch in so many is a sample. */
static uint32_t sample_every(const OpenclQueue *q) {
        uint64_t mean = atomic_load_explicit(&q->mean_ns, memory_order_relaxed);

        if (!q->callbacks_prompt)
                return opencl_stamps_every(mean);
        if (mean >= MIDDLE_NS)
                return mean >= LONG_NS ? EVERY_LONG : EVERY_MIDDLE;
        return mean == 0 ? EVERY_SHORT : (uint32_t) CLAMP(SHORT_APART_NS / mean, EVERY_SHORT, EVERY_TINY);
}

/* At random, because programs repeat patterns of launches. */
static bool sample_is_taken(OpenclQueue *q, uint64_t kind) {
        if (!opencl_time_is_due(q, kind))
                return false;

        uint64_t r = atomic_load_explicit(&q->random, memory_order_relaxed);
        r ^= r << 13;
        r ^= r >> 7;
        r ^= r << 17;
        atomic_store_explicit(&q->random, r, memory_order_relaxed);
        atomic_store_explicit(&q->skip, (uint32_t) (r >> 32) % (2 * sample_every(q) - 1), memory_order_relaxed);
        return true;
}

static void sample_link(OpenclQueue *q, OpenclSample *s) {
        opencl_queue_ref(q);
        atomic_store(&s->queue, q);
        (void) pthread_mutex_lock(&q->lock);
        s->next = q->samples;
        if (s->next)
                s->next->prev = s;
        q->samples = s;
        (void) pthread_mutex_unlock(&q->lock);
}

static void sample_start(OpenclQueue *q, cl_event event, OpenclSample *s) {
        if (opencl_next.clSetEventCallback(event, CL_RUNNING, sample_runs, s) != CL_SUCCESS) {
                atomic_store(&q->no_samples, true);
                free(s);
                return;
        }
        if (s->early) {
                free(s);
                return;
        }
        sample_link(q, s);
        if (opencl_next.clSetEventCallback(event, CL_COMPLETE, sample_complete, s) == CL_SUCCESS)
                return;
        (void) pthread_mutex_lock(&q->lock);
        opencl_time_give_up(q, event);
        (void) pthread_mutex_unlock(&q->lock);
}

void opencl_time_skipped(OpenclQueue *q) {
        uint32_t skip = atomic_load_explicit(&q->skip, memory_order_relaxed);
        if (skip > 0)
                atomic_store_explicit(&q->skip, skip - 1, memory_order_relaxed);
}

bool opencl_time_submitted(OpenclQueue *q, cl_event event, uint64_t kind) {
        if (!sample_is_taken(q, kind)) {
                opencl_time_skipped(q);
                return false;
        }
        if (!q->callbacks_prompt) {
                atomic_store_explicit(&q->sampled_ns, now_ns(), memory_order_relaxed);
                return true;
        }
        OpenclSample *s = malloc(sizeof(*s));
        if (!s)
                return false;
        *s = (OpenclSample){.event = event, .kind = kind};
        asking = s;
        sample_start(q, event, s);
        asking = NULL;
        return false;
}
