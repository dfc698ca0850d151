/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sentinels
 */

#include "shim/opencl/opencl-sentinel.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-own.h"
#include "shim/opencl/opencl-record.h"
#include "shim/opencl/opencl-track.h"

static void CL_CALLBACK sentinel_fired(cl_event event, cl_int status, void *userdata) {
        PROTECT_ERRNO;
        OpenclSentinel *s = userdata;
        OpenclQueue *q = atomic_exchange(&s->queue, NULL);
        if (q) {
                (void) pthread_mutex_lock(&q->lock);
                if (q->idle == s)
                        q->idle = NULL;
                if (q->wake == s)
                        q->wake = NULL;
                (void) pthread_mutex_unlock(&q->lock);
                if (opencl_own_begin()) {
                        opencl_harvest(q, status == CL_COMPLETE ? s->covers : 0);
                        opencl_own_end();
                }
                opencl_queue_unref(q);
                free(s);
        }
}

/* Sentinels whose callback may never come, or may still come. */
static _Atomic(OpenclSentinel *) lost_sentinels;

void opencl_sentinel_give_up(OpenclSentinel **sentinel) {
        OpenclSentinel *s = *sentinel;
        OpenclQueue *q = s ? atomic_exchange(&s->queue, NULL) : NULL;
        if (!q)
                return;
        *sentinel = NULL;
        opencl_queue_unref(q);

        s->next_lost = atomic_load(&lost_sentinels);
        while (!atomic_compare_exchange_weak(&lost_sentinels, &s->next_lost, s))
                ;
}

/* Some runtimes start nothing without a flush: launches that count as outstanding have to be on their way. */
static void flush(OpenclQueue *q) {
        if (opencl_queue_pin(q)) {
                (void) opencl_next.clFlush(q->handle);
                opencl_queue_unpin(q);
        }
}

/* Hangs a sentinel on the launch at `index`. Called and left with the lock held; the event stays ours meanwhile,
 * because we are the harvester. The callback may come from inside the call. */
static void sentinel_arm(OpenclQueue *q, OpenclSentinel **sentinel, size_t index) {
        OpenclSentinel *s = malloc(sizeof(*s));
        if (!s) {
                xsched_queue_look(q->xq);
                return;
        }
        cl_event event = q->tracked[index].event;
        *s = (OpenclSentinel){.queue = q, .seq = q->tracked[index].seq, .covers = q->tracked[index].covers};
        *sentinel = s;
        opencl_queue_ref(q);
        (void) pthread_mutex_unlock(&q->lock);

        bool armed = opencl_next.clSetEventCallback(event, CL_COMPLETE, sentinel_fired, s) == CL_SUCCESS;

        flush(q);

        (void) pthread_mutex_lock(&q->lock);
        if (!armed) {
                opencl_sentinel_give_up(sentinel);
                xsched_queue_look(q->xq); /* in its place */
        }
}

/* --- polling --- */

#define POLL_MIN_NS    (30 * NSEC_PER_USEC)  /* a sleeping CPU needs about as long to come back */
#define POLL_OPEN_NS   (200 * NSEC_PER_USEC) /* while nobody waits for the end of a held queue */
#define POLL_MAX_NS    (500 * NSEC_PER_USEC)
#define POLLS_ALIKE    8U /* then half as often, after each such number */
#define POLL_SHIFT_MAX 5U
#define POLLS_OVERDUE  32U /* some milliseconds late */

/* Asks for the next look: at the expected end, and after that less and less often. Under the lock. */
static void poll_ask(OpenclQueue *q) {
        bool held = xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;
        uint64_t left = ns_sub(q->polled_until_ns, now_ns()), least = held ? POLL_MIN_NS : POLL_OPEN_NS;

        if (left < least) {
                uint32_t n = q->n_polls++ / POLLS_ALIKE;
                left = least << MIN(n, POLL_SHIFT_MAX);
        }
        xsched_queue_look_in(q->xq, MIN(left, POLL_MAX_NS));
}

/* The end of the newest launch is polled for from now on. Called and left with the lock held. */
static void poll_arm(OpenclQueue *q) {
        q->polled_seq = q->tracked[q->n - 1].seq;
        q->polled_until_ns = now_ns() + atomic_load_explicit(&q->flying_ns, memory_order_relaxed);
        q->n_polls = 0;
        poll_ask(q);
        if (opencl_own_is_here())
                return;
        (void) pthread_mutex_unlock(&q->lock);
        flush(q);
        (void) pthread_mutex_lock(&q->lock);
}

void opencl_sentinel_poll_again(OpenclQueue *q) {
        (void) pthread_mutex_lock(&q->lock);
        bool is_open = !q->idle && opencl_sentinel_seq(q) != 0, overdue = is_open && q->n_polls == POLLS_OVERDUE;
        if (is_open)
                poll_ask(q);
        (void) pthread_mutex_unlock(&q->lock);

        if (overdue)
                flush(q);
}

/* Puts a sentinel on the newest launch, so that the last end is reported. A queue with a tail is polled instead, unless
 * a caller has asked for more (opencl-tail.h). */
static void arm_idle(OpenclQueue *q) {
        if (opencl_record_n(q) == 0 || opencl_sentinel_seq(q) != 0)
                return;
        bool wanted = q->arm || !atomic_load(&q->tail);
        if (!wanted || !q->tracked[q->n - 1].event) {
                xsched_queue_look(q->xq);
                return;
        }
        q->arm = false;
        if (q->callbacks_spin)
                poll_arm(q);
        else
                sentinel_arm(q, &q->idle, q->n - 1);
}

/* A thread at the bound goes on when `keep` launches are left, so it needs the end of the launch before those, or of
 * the next one with an event. */
static void arm_wake(OpenclQueue *q) {
        /* `keep` is read once, because waiters with another bound may come meanwhile. */
        size_t keep = atomic_load(&q->keep);
        if (atomic_load(&q->bound_waiters) == 0 || !q->callbacks_prompt || opencl_record_n(q) <= keep || q->wake)
                return;
        size_t index = q->n - keep - 1;
        while (index < q->n && !q->tracked[index].event)
                index++;
        if (index < q->n && (!q->idle || q->idle->seq > q->tracked[index].seq))
                sentinel_arm(q, &q->wake, index);
}

void opencl_sentinels_arm(OpenclQueue *q) {
        arm_idle(q);
        arm_wake(q);
}
