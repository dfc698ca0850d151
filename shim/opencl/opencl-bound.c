/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The wait for the in-flight bound: a launch above the bound waits until fewer are in flight
 *
 * It waits until half of the bound is in flight, and not just until one launch has completed. So one wake-up lets half
 * a bound of launches through, and the device works on the other half meanwhile.
 *
 * The wait must never deadlock. First, no thread waits for a launch that is not safe (see opencl-launch.c), and no
 * thread of the runtime waits at all. Second, a launch that looks safe may still wait for the host: a kernel can spin
 * on memory that the program writes next. So a wait without any progress ends after a second. Until a launch completes,
 * the bound is then twice as high, and the next wait half as long. So a program that needs n launches to get on is
 * delayed by two seconds in all, and not by n.
 *
 * With a small bound, the wait for the last launch ends a little early: when, by the mean of earlier launches, the
 * device is about to finish it. The next launch is then on its way when the device becomes free.
 *
 * How to wait depends on the device. A device that computes on our CPUs calls back at once, and polling would take CPUs
 * from it. Any other device calls back late, from a thread of its driver: it is polled, after a sleep if the end is far
 * off.
 *
 * A sleep that is too long leaves the device idle, and makes the launch look as long as the sleep, so that the estimate
 * would stay too high. Therefore, after a launch that was over when the sleep ended, sleeps are half as long for some
 * launches, and short ones are left out: from these launches the true time is learned.
 */

#include <sched.h>

#include "common/futex.h"
#include "common/nap.h"
#include "common/time-util.h"
#include "shim/opencl/opencl-bound.h"
#include "shim/opencl/opencl-close.h"
#include "shim/opencl/opencl-delay.h"
#include "shim/opencl/opencl-limit.h"
#include "shim/opencl/opencl-tail.h"
#include "shim/opencl/opencl-thread.h"
#include "shim/opencl/opencl-track.h"

#define GIVE_UP_NS       (1 * NSEC_PER_SEC)
#define GRACE_MAX        16U
#define LOOK_ANYWAY_NS   (2 * NSEC_PER_MSEC)
#define SLEEP_MIN_NS     (300 * NSEC_PER_USEC)
#define WAKE_UP_EARLY_NS (150 * NSEC_PER_USEC) /* twice the timer slack, and the way back to a CPU */
#define DOUBT_MAX        8U                    /* as many samples as a mean is made of */
#define SPINS_PER_LOOK   32U
#define UNBOUND_LOOK     64U /* look at unbounded queues each time so many more are in flight */

/* Whether any launch in flight completes without the application's help. */
static bool wait_would_end(OpenclQueue *q) {
        bool found = false;
        (void) pthread_mutex_lock(&q->lock);
        size_t last = atomic_load(&q->in_order) ? MIN(q->head + 1, q->n) : q->n;
        for (size_t i = q->head; i < last && !found; i++)
                found = q->tracked[i].safe;
        (void) pthread_mutex_unlock(&q->lock);
        return found;
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ __volatile__("yield");
#else
        (void) sched_yield();
#endif
}

/* How long the oldest `n` launches take, by their kinds, as far as it is known. */
static uint64_t expected_of_oldest(OpenclQueue *q, uint32_t n) {
        uint64_t sum = 0;

        (void) pthread_mutex_lock(&q->lock);
        for (size_t i = q->head; i < q->n && i < q->head + n; i++)
                sum += q->tracked[i].expected_ns;
        (void) pthread_mutex_unlock(&q->lock);
        return sum;
}

/* Remaining time of the launches that the caller waits for, as far as it is known. */
static uint64_t time_left(OpenclQueue *q, uint32_t n, uint64_t since) {
        uint64_t head_since = atomic_load(&q->head_since_ns);

        return ns_sub(expected_of_oldest(q, n), ns_sub(now_ns(), head_since ?: since));
}

/* How long a thread waits without progress: longer if the oldest launch may just be running. */
static uint64_t give_up_ns(OpenclQueue *q) {
        return CLAMP(2 * expected_of_oldest(q, 1), GIVE_UP_NS >> atomic_load(&q->grace), GIVE_UP_NS);
}

/* Returns whether it has slept. */
static bool wait_a_little(OpenclQueue *q, uint32_t seen, uint64_t expected_ns) {
        if (q->callbacks_prompt) {
                struct timespec ts = ns_to_timespec(LOOK_ANYWAY_NS);
                (void) futex(&q->progress, FUTEX_WAIT_PRIVATE, seen, &ts, 0);
                return false;
        }
        bool doubt = atomic_load(&q->doubt) > 0;
        if (expected_ns >= (doubt ? 2 * SLEEP_MIN_NS : SLEEP_MIN_NS)) {
                uint64_t most = doubt ? expected_ns / 2 : expected_ns - WAKE_UP_EARLY_NS;
                nap(MIN(most, LOOK_ANYWAY_NS));
                return true;
        }
        for (unsigned i = 0; i < SPINS_PER_LOOK; i++)
                relax();
        return false;
}

/* `slept`: the launches were complete when the thread woke. */
static void note_sleep(OpenclQueue *q, bool slept) {
        uint32_t doubt = atomic_load(&q->doubt);

        if (slept)
                atomic_store(&q->doubt, DOUBT_MAX);
        else if (doubt > 0)
                atomic_store(&q->doubt, doubt - 1);
}

/* Whether the device has almost finished the oldest launch. Returns false for an overdue launch, whose end is not
 * known. */
static bool is_almost_done(OpenclQueue *q, uint64_t lead_ns) {
        if (lead_ns == 0)
                return false;

        uint64_t since = atomic_load(&q->head_since_ns), expected = expected_of_oldest(q, 1);
        if (since == 0 || expected <= lead_ns)
                return false;
        uint64_t elapsed = ns_sub(now_ns(), since);
        return elapsed >= expected - lead_ns && elapsed < expected + lead_ns;
}

static void bound_wait_slow(OpenclQueue *q, uint32_t limit) {
        uint64_t start = now_ns(), progress_at = start;
        uint32_t keep = limit / 2, before = atomic_load(&q->n_tracked);
        uint64_t lead = xsched_queue_lead(q->xq);
        bool slept = false;

        opencl_tail_close_bound(q, keep);
        (void) opencl_next.clFlush(q->handle);
        atomic_store(&q->keep, keep);
        atomic_fetch_add(&q->bound_waiters, 1);
        for (;;) {
                uint32_t seen = atomic_load(&q->progress);
                opencl_harvest_some(q);
                uint32_t n = atomic_load(&q->n_tracked);
                if (n <= keep)
                        note_sleep(q, slept);
                if (n <= keep || !wait_would_end(q))
                        break;
                if (n == keep + 1 && !q->callbacks_prompt && is_almost_done(q, lead))
                        break;

                uint64_t now = now_ns();
                if (n < before)
                        progress_at = now;
                before = n;
                if (now - progress_at >= give_up_ns(q)) {
                        uint32_t grace = atomic_load(&q->grace);
                        atomic_store(&q->grace, MIN(grace + 1, GRACE_MAX));
                        break;
                }
                /* With a lead, two launches are in flight for a moment: the second one begins when the first one
                 * ends. */
                slept = wait_a_little(q, seen, time_left(q, keep == 0 ? 1 : n - keep, progress_at));
        }
        atomic_fetch_sub(&q->bound_waiters, 1);
}

/* 0: there is none. */
static uint32_t bound_now(OpenclQueue *q, uint64_t kind) {
        uint64_t bound = (uint64_t) opencl_limit(q, kind) << atomic_load(&q->grace);
        return (uint32_t) MIN(bound, (uint64_t) INT32_MAX);
}

/* Where callbacks come late, a thread that waits at the gate looks for completed launches. */
static bool looks_at_gate(OpenclQueue *q) {
        return !q->callbacks_prompt && xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD;
}

typedef struct BoundWait {
        OpenclQueue *queue;
        uint64_t kind;
} BoundWait;

static void bound_wait(void *userdata) {
        PROTECT_ERRNO;
        const BoundWait *w = userdata;
        OpenclQueue *q = w->queue;
        uint32_t bound = bound_now(q, w->kind);

        if (xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD) {
                atomic_store(&q->was_held, true);
                opencl_delay_note_held(q);
        }
        if (bound != 0 && atomic_load(&q->n_tracked) >= bound)
                bound_wait_slow(q, bound);
        else if (looks_at_gate(q))
                opencl_harvest_some(q);
}

int opencl_bound_begin(OpenclQueue *q, uint64_t kind) {
        BoundWait w = {.queue = q, .kind = kind};

        return xsched_queue_begin_bounded(q->xq, bound_wait, &w);
}

bool opencl_bound_is_reached(OpenclQueue *q, uint64_t kind) {
        if (opencl_thread.in_callback || opencl_tail_goes_on(q, kind))
                return false;
        PROTECT_ERRNO;
        uint32_t limit = opencl_limit(q, kind), n = atomic_load_explicit(&q->n_tracked, memory_order_relaxed);
        opencl_tail_close_held(q);
        if (looks_at_gate(q))
                return true;
        if (n < (limit ?: atomic_load_explicit(&q->look_at, memory_order_relaxed) + UNBOUND_LOOK))
                return false;

        opencl_harvest_some(q);
        atomic_store_explicit(&q->look_at, atomic_load(&q->n_tracked), memory_order_relaxed);
        uint32_t bound = bound_now(q, kind);
        return bound != 0 && atomic_load(&q->n_tracked) >= bound;
}
