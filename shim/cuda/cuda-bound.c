/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The in-flight bound
 *
 * A GPU does not tell when a launch is over. A thread that waits asks for it, and sleeps first if the end is far off.
 */

#include <sched.h>
#include <stdatomic.h>

#include "common/nap.h"
#include "common/time-util.h"
#include "shim/cuda/cuda-bound.h"
#include "shim/cuda/cuda-mark.h"
#include "shim/cuda/cuda-track.h"

#define GIVE_UP_NS     (1 * NSEC_PER_SEC)
#define GRACE_MAX      16U
#define SLEEP_MAX_NS   (2 * NSEC_PER_MSEC)
#define SLEEP_MIN_NS   (300 * NSEC_PER_USEC)
#define OVERDUE_NS     (1 * NSEC_PER_MSEC)
#define SPINS_PER_LOOK 32U
#define UNBOUND_LOOK   1024U /* unbounded queues are looked at when this many are in flight */

uint32_t cuda_bound_limit(CudaQueue *q, uint64_t kind) {
        uint64_t each = launch_kind_expected(&q->kinds, kind);
        uint64_t flying = atomic_load_explicit(&q->flying_ns, memory_order_relaxed);
        uint32_t n = atomic_load_explicit(&q->in_flight, memory_order_relaxed);
        XschedQueue *xq = q->xq;

        if (each != 0 && n > 0) {
                uint64_t now = now_ns();
                uint64_t elapsed = ns_sub(now, atomic_load_explicit(&q->since_ns, memory_order_relaxed));
                atomic_store_explicit(&q->launched_ns, now, memory_order_relaxed);
                each = MAX(each, flying / n);
                /* The oldest launch has taken twice the expected time of all in flight: the learned times are wrong. */
                if (elapsed > 2 * flying)
                        each = MAX(each, elapsed / n);
        }
        uint64_t limit = xq ? xsched_queue_limit_for(xq, each) : 0;
        /* Nearly all of them have ended by now, and nobody has asked. What counts is the time of the others. */
        if (limit > 0 && each != 0 && atomic_load_explicit(&q->keeps_up, memory_order_relaxed) &&
                        limit > xsched_queue_limit_for(xq, 0))
                limit *= CUDA_MARKS_BOUND;
        return (uint32_t) MIN(limit << atomic_load(&q->grace), (uint64_t) INT32_MAX);
}

/* Remaining time of the oldest `n` launches in flight, as far as it is known. */
static uint64_t time_left(CudaQueue *q, uint32_t n) {
        uint32_t all = MAX(atomic_load(&q->in_flight), 1U);
        return ns_sub(atomic_load(&q->flying_ns) / all * n, ns_sub(now_ns(), atomic_load(&q->since_ns)));
}

/* Whether the device has almost finished the oldest launch, so that the next one may be submitted meanwhile. Returns
 * false for an overdue launch, whose end is not known. */
static bool is_almost_done(CudaQueue *q, uint64_t lead_ns) {
        uint64_t left = lead_ns > 0 ? time_left(q, 1) : 0;

        return left > 0 && left < lead_ns;
}

/* How long a thread waits without progress. The next launch waits half as long, since these seem to wait for what the
 * program does only later; unless they are so long that they may just be running. */
static uint64_t give_up_ns(const CudaQueue *q) {
        uint64_t each = atomic_load(&q->flying_ns) / MAX(atomic_load(&q->in_flight), 1U);

        return CLAMP(2 * each, GIVE_UP_NS >> atomic_load(&q->grace), GIVE_UP_NS);
}

/* Sleeps for half of the remaining time, because sleeping too long leaves the device idle. A launch that takes longer
 * than expected is polled less and less often. */
static void wait_a_little(CudaQueue *q, uint32_t n, uint64_t waited_ns) {
        uint64_t left = time_left(q, n);

        if (left >= SLEEP_MIN_NS || (left == 0 && waited_ns >= OVERDUE_NS)) {
                nap(MIN(left > 0 ? left / 2 : waited_ns / 16, SLEEP_MAX_NS));
                return;
        }
        for (unsigned i = 0; i < SPINS_PER_LOOK; i++) {
#if defined(__x86_64__)
                __builtin_ia32_pause();
#else
                (void) sched_yield();
#endif
        }
}

static void bound_wait_slow(CudaQueue *q, uint32_t limit) {
        uint64_t start = now_ns(), progress_at = start, lead = xsched_queue_lead(q->xq);
        uint32_t keep = limit / 2, before = atomic_load(&q->in_flight);

        cuda_track_close_tail(q);
        /* Without the lock no completion would be found. */
        while (!cuda_queue_is_mine(q)) {
                cuda_track_harvest(q);
                uint32_t n = atomic_load(&q->in_flight);
                uint64_t now = now_ns();
                if (n < before)
                        progress_at = now;
                before = n;
                if (n <= keep || (n == keep + 1 && is_almost_done(q, lead)))
                        return;
                if (now - progress_at >= give_up_ns(q)) {
                        atomic_store(&q->grace, MIN(atomic_load(&q->grace) + 1, GRACE_MAX));
                        return;
                }
                wait_a_little(q, n - keep, now - progress_at);
        }
}

typedef struct BoundWait {
        CudaQueue *queue;
        uint64_t kind;
} BoundWait;

static void bound_wait(void *userdata) {
        PROTECT_ERRNO;
        const BoundWait *w = userdata;
        CudaQueue *q = w->queue;

        uint32_t limit = cuda_bound_limit(q, w->kind);
        bool reached = limit != 0 && atomic_load(&q->in_flight) + cuda_ride_count(&q->ride) >= limit;
        cuda_track_harvest(q);
        if (reached) {
                atomic_store(&q->keeps_up, atomic_load(&q->in_flight) <= limit / 2);
                limit = cuda_bound_limit(q, w->kind);
        }
        if (limit != 0 && atomic_load(&q->in_flight) >= limit)
                bound_wait_slow(q, limit);
}

int cuda_bound_begin(CudaQueue *q, uint64_t kind) {
        BoundWait w = {.queue = q, .kind = kind};

        return xsched_queue_begin_bounded(q->xq, bound_wait, &w);
}

/* Does not look for completions itself: the launch has to be counted first, or a queue whose device keeps up with it
 * would be idle for a moment at each look. */
bool cuda_bound_is_reached(const CudaQueue *q, uint32_t limit) {
        uint32_t n = atomic_load_explicit(&q->in_flight, memory_order_relaxed) + cuda_ride_count(&q->ride);

        if (xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD)
                return true;
        /* Nothing tells when launches are complete. */
        if (unlikely(atomic_load_explicit(&q->stuck, memory_order_relaxed)))
                return false;
        return n >= (limit ?: UNBOUND_LOOK);
}
