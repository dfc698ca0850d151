/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds from the queues' indices when they become ready and idle
 *
 * The hardware reports no idle queue, so a thread polls: while the service watches a queue with outstanding launches,
 * for a queue whose doorbell we do not see (kfd-hsa.c) while the service watches it, and while a held queue may have to
 * be lent (kfd-loan.c). Otherwise the thread sleeps until it is kicked. It polls often while an index moves, and ever
 * more rarely while none does.
 *
 * Counting. A doorbell that we see is one launch; a launch is counted before its doorbell is rung, and its packets are
 * in the write index before that. So of `pending` launches, read before the indices, no more than `write - read` can be
 * under way: each has at least one packet, and all of them are below the write index. For an intercepted queue this
 * holds when no thread is inside any more, and a drain waits for that, too. On a queue that is only polled, a packet is
 * a launch.
 */

#include <pthread.h>
#include <sys/prctl.h>

#include "common/futex.h"
#include "common/macro.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "kfd-libc.h"
#include "kfd-loan.h"
#include "kfd-poll.h"
#include "shim/kfd/kfd-queue.h"

#define INTERVAL_MIN_NS (50 * NSEC_PER_USEC)
#define INTERVAL_MAX_NS (500 * NSEC_PER_USEC)
#define ASK_NS          NSEC_PER_SEC
#define STACK_SIZE      ((size_t) 128 * 1024)

static struct {
        bool started;
        _Atomic uint32_t kicks; /* futex */
        _Atomic bool sleeps;    /* without a timeout */
        uint64_t asked_ns;      /* for faults */
} poll;

typedef struct Turn {
        uint64_t now_ns;
        bool active; /* some queue has to be polled again */
        bool moved;
} Turn;

void kfd_poll_kick(void) {
        PROTECT_ERRNO;

        atomic_fetch_add(&poll.kicks, 1);
        (void) futex(&poll.kicks, FUTEX_WAKE_PRIVATE, 1, NULL, 0);
}

void kfd_poll_launched(void) {
        if (unlikely(atomic_load(&poll.sleeps)))
                kfd_poll_kick();
}

void kfd_poll_drain(KfdQueue *q) {
        q->draining++;
        q->drain_open = atomic_load(&q->intercepted);
        q->drain_to = q->seen_write = atomic_load(q->hal.write_index);
        q->tracking = !q->hooked;
        q->mark_ns = now_ns();
        kfd_poll_kick();
}

/* --- one queue --- */

/* What was in flight when libxsched asked for drains has ended. */
static void end_drains(KfdQueue *q) {
        for (; q->draining > 0; q->draining--)
                xsched_queue_drained(q->xsched);
}

void kfd_poll_end_launches(KfdQueue *q) {
        uint32_t n = atomic_exchange(&q->pending, 0);

        if (n > 0)
                xsched_queue_complete(q->xsched, n, 0);
        end_drains(q);
}

/* Counts new packets of a queue that is only polled. */
static void queue_see(KfdQueue *q, uint64_t write, Turn *t) {
        if (write > q->seen_write && atomic_load(&q->pending) == 0 && !q->draining)
                q->mark_ns = t->now_ns;
        for (; q->seen_write < write && q->tracking; q->seen_write++) {
                if (xsched_queue_begin_nowait(q->xsched) == XSCHED_TRACKED)
                        atomic_fetch_add(&q->pending, 1);
                else
                        q->tracking = false;
                t->moved = true;
        }
}

/* It was between the look before and this one: the middle is the best estimate. */
static void queue_complete(KfdQueue *q, uint32_t n, Turn *t) {
        uint64_t mark = atomic_load(&q->mark_ns), before = MAX(mark, q->looked_ns);
        uint64_t end = before + ns_sub(t->now_ns, before) / 2;
        uint64_t ns = q->hal.hal.held ? 0 : ns_sub(end, mark);

        atomic_fetch_sub(&q->pending, n);
        xsched_queue_complete(q->xsched, n, ns);
        if (ns > 0)
                atomic_store(&q->mean_ns, hal_learn_cost(atomic_load(&q->mean_ns), ns / n));
        q->mark_ns = end;
        t->moved = true;
}

/* The queue is no longer watched: marks launches from now on as uncounted. If it is watched again meanwhile, the mark
 * counted as a launch. */
static void queue_stop_tracking(KfdQueue *q) {
        if (xsched_queue_begin_nowait(q->xsched) == XSCHED_TRACKED)
                xsched_queue_complete(q->xsched, 1, 0);
        else
                q->tracking = false;
}

/* Looks for packets that the device has taken although no doorbell that we saw announced them. Packets that are only
 * written may still be announced. A doorbell is noted before it is rung, so the first one may come in between: then it
 * counts. */
static void queue_look_past(KfdQueue *q, uint64_t read) {
        if (q->past_us || read == q->first_read || atomic_load(&q->hooked))
                return;
        q->past_us = true;
        xsched_queue_set_hooked(q->xsched, XSCHED_HOOKED_POLL);
        if (atomic_load(&q->hooked))
                xsched_queue_set_hooked(q->xsched, XSCHED_HOOKED_DOORBELL);
}

void kfd_poll_set_lost(KfdQueue *q, bool lost) {
        XschedHooked hooked = atomic_load(&q->hooked) ? XSCHED_HOOKED_DOORBELL
                        : q->past_us                  ? XSCHED_HOOKED_POLL
                                                      : kfd_queue_hooked(q);

        if (q->hal.lost == lost)
                return;
        q->hal.lost = lost;
        if (q->xsched)
                xsched_queue_set_hooked(q->xsched, lost ? XSCHED_HOOKED_CALLS : hooked);
}

/* Newer drivers may reset single queues, and tell of that as of a reset of the whole GPU. A queue that takes packets
 * after that is not stopped: its verdict is applied, which was done without a call meanwhile. */
static void queue_look_after_fault(KfdQueue *q, uint64_t read) {
        if (q->survives || !kfd_queue_has_faulted(q))
                return;
        q->survives = q->faulted && read != q->faulted_read;
        q->faulted = true;
        q->faulted_read = read;
        kfd_poll_set_lost(q, !q->survives);
        if (q->survives)
                (void) kfd_hal_reapply(&q->hal);
}

/* Returns whether the queue is stopped. What is in it stays there, perhaps for ever, and is counted anew when the queue
 * goes on, as one launch. */
static bool queue_rests(KfdQueue *q, Turn *t) {
        uint64_t read = atomic_load(q->hal.read_index);

        queue_look_after_fault(q, read);
        if (kfd_queue_is_stopped(q)) {
                q->rests = true;
                kfd_poll_end_launches(q);
                return true;
        }
        if (!q->rests)
                return false;
        q->rests = false;
        q->mark_ns = t->now_ns;
        q->seen_write = read;
        if (!q->tracking && atomic_load(q->hal.write_index) > q->seen_write &&
                        xsched_queue_begin_nowait(q->xsched) == XSCHED_TRACKED)
                atomic_fetch_add(&q->pending, 1);
        return false;
}

static void queue_look(KfdQueue *q, Turn *t) {
        if (unlikely(queue_rests(q, t)))
                return;
        uint32_t pending = atomic_load(&q->pending);

        if (q->hooked)
                q->tracking = false;
        if (pending == 0 && !q->tracking && !q->draining)
                return;

        bool inside = atomic_load(&q->inside) > 0; /* if so, packets of pending launches may still come */
        uint64_t write = atomic_load(q->hal.write_index), read = atomic_load(q->hal.read_index);
        queue_look_past(q, read);
        if (q->tracking) {
                queue_see(q, write, t);
                pending = atomic_load(&q->pending);
        }
        if (q->draining && q->drain_open && !inside) {
                q->drain_open = false;
                q->drain_to = write;
        }
        if (q->draining && !q->drain_open && read >= q->drain_to) {
                q->mark_ns = t->now_ns;
                t->moved = true;
                end_drains(q);
        }
        uint64_t left = ns_sub(write, read);
        if (pending > left && !inside)
                queue_complete(q, pending - (uint32_t) left, t);
        if (q->tracking && !(xsched_queue_get_state(q->xsched) & XSCHED_QUEUE_WATCHED))
                queue_stop_tracking(q);
        t->moved |= read != q->seen_read;
        q->seen_read = read;
        q->looked_ns = t->now_ns;
        t->active |= q->tracking || q->draining || atomic_load(&q->pending) > 0;
}

/* --- the thread --- */

static Turn poll_turn(void) {
        Turn t = {.now_ns = now_ns()};

        if (!kfd_lock())
                return t;
        t.active = !kfd_release_followers();
        if (t.now_ns >= poll.asked_ns + ASK_NS) {
                poll.asked_ns = t.now_ns;
                kfd_fault_ask(kfd_context_ioctl);
        }
        for (KfdQueue *q = kfd_queues(), *next; q; q = next) {
                next = q->next;
                if (unlikely(q->adopted))
                        kfd_queue_check_adopted(q);
        }
        for (KfdQueue *q = kfd_queues(); q; q = q->next)
                if (q->xsched && q->hal.type == KFD_QUEUE_COMPUTE_AQL) {
                        queue_look(q, &t);
                        t.active |= !kfd_hal_ring_rest(&q->hal);
                        t.active |= kfd_loan_look(q, t.now_ns);
                }
        kfd_unlock();
        return t;
}

/* A thread that counts a launch looks whether this thread sleeps. So look for launches once more after setting
 * `sleeps`. */
static void poll_sleep(uint32_t kicks) {
        atomic_store(&poll.sleeps, true);
        if (!poll_turn().active)
                (void) futex(&poll.kicks, FUTEX_WAIT_PRIVATE, kicks, NULL, 0);
        atomic_store(&poll.sleeps, false);
}

static void *poll_main(void *unused) {
        uint64_t interval = INTERVAL_MIN_NS;

        (void) pthread_setname_np(pthread_self(), "xsched-kfd");
        (void) prctl(PR_SET_TIMERSLACK, 1000UL);
        for (;;) {
                uint32_t kicks = atomic_load(&poll.kicks);
                Turn t = poll_turn();
                if (!t.active) {
                        poll_sleep(kicks);
                        interval = INTERVAL_MIN_NS;
                        continue;
                }
                interval = t.moved ? INTERVAL_MIN_NS : MIN(interval * 5 / 4, INTERVAL_MAX_NS);
                struct timespec ts = ns_to_timespec(interval);
                (void) futex(&poll.kicks, FUTEX_WAIT_PRIVATE, kicks, &ts, 0);
        }
        return NULL;
}

/* Starts the thread. Called with the first queue, because the first launch may be in a signal handler. */
void kfd_poll_start(void) {
        if (poll.started)
                return;
        poll.started = thread_start(poll_main, NULL, STACK_SIZE) >= 0;
}

void kfd_poll_after_fork(void) {
        poll.started = false;
        atomic_store(&poll.sleeps, false);
}
