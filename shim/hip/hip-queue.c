/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Streams that an XQueue is in front of
 */

#include "shim/hip/hip-queue.h"

#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "include/xsched/local.h"
#include "shim/hip/hip-next.h"
#include "shim/late/late.h"

#define BUCKETS      256U
#define MARKS        32U
#define GIVE_UP_NS   (1 * NSEC_PER_SEC) /* a kernel may wait for what the program does next */
#define GRACE_MAX    16U
#define SPINS        64U
#define SLEEP_MAX_NS (200 * NSEC_PER_USEC)
#define END_WAIT_NS  (100 * NSEC_PER_MSEC)

typedef struct HipMark {
        HipEvent event; /* made with the first use of the place */
        uint64_t seq;   /* the launch that it is behind */
} HipMark;

struct HipQueue {
        HipStream stream;
        int device;
        XschedQueue *xq;        /* frees this record after its own end */
        _Atomic unsigned users; /* the table, or launches of a stream that is gone; and threads that use it */
        HipQueue *next;         /* in its bucket */

        pthread_mutex_t lock; /* of what follows */
        HipMark marks[MARKS];
        uint64_t n_made, n_over; /* marks; those that are not over are the last ones, in order */
        uint64_t seq, done_seq;  /* launches */
        bool gone, leaving;      /* no more launches; launches in flight are a user */
        _Atomic uint32_t in_flight, grace;
};

static HipQueue *buckets[BUCKETS];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned n_queues;
static _Atomic unsigned n_asking;
static _Atomic bool ended;
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

/* --- HIP's functions --- */

#define FUNCTIONS(X)                                                                                                   \
        X(hipDeviceGetPCIBusId, HipResult (*)(char *, int, int))                                                       \
        X(hipEventCreateWithFlags, HipResult (*)(HipEvent *, unsigned))                                                \
        X(hipEventDestroy, HipResult (*)(HipEvent))                                                                    \
        X(hipEventQuery, HipResult (*)(HipEvent))                                                                      \
        X(hipEventRecord, HipResult (*)(HipEvent, HipStream))                                                          \
        X(hipGetDevice, HipResult (*)(int *))                                                                          \
        X(hipGetLastError, HipResult (*)(void))                                                                        \
        X(hipPeekAtLastError, HipResult (*)(void))                                                                     \
        X(hipSetDevice, HipResult (*)(int))                                                                            \
        X(hipStreamIsCapturing, HipResult (*)(HipStream, int *))                                                       \
        X(hipThreadExchangeStreamCaptureMode, HipResult (*)(int *))

static struct {
#define DECLARE(call, type) typeof((type) NULL) call;
        FUNCTIONS(DECLARE)
#undef DECLARE
} hip;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

/* The child can use nothing of the parent's device, and has none of the threads that had the lock. */
static void fork_child(void) {
        table_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        memset(buckets, 0, sizeof(buckets));
        atomic_store(&n_queues, 0);
        atomic_store(&n_asking, 0);
        inside = false;
}

/* Registered after the runtime was initialised, so called before its own. After that no event is asked for. A driver
 * that does not answer must not keep the process from ending. */
static void process_ends(void) {
        uint64_t until = now_ns() + END_WAIT_NS;

        atomic_store(&ended, true);
        while (atomic_load(&n_asking) > 0 && now_ns() < until)
                (void) sched_yield();
}

static void find_functions(void) {
        usable = late_load();
#define FIND(call, type)                                                                                               \
        static HipCell cell_##call = {.name = #call};                                                                  \
        hip.call = (typeof(hip.call)) (uintptr_t) hip_next(&cell_##call, __builtin_return_address(0));                 \
        usable = usable && (hip.call || streq(#call, "hipThreadExchangeStreamCaptureMode"));
        FUNCTIONS(FIND)
#undef FIND
        if (!usable)
                return;
        (void) thread_atfork(NULL, NULL, fork_child);
        (void) atexit(process_ends);
}

static bool ask_begin(void) {
        atomic_fetch_add(&n_asking, 1);
        if (!atomic_load(&ended))
                return true;
        atomic_fetch_sub(&n_asking, 1);
        return false;
}

static void ask_end(void) {
        atomic_fetch_sub(&n_asking, 1);
}

/* --- the table --- */

static HipQueue **bucket_of(HipStream stream) {
        return buckets + ((uint64_t) (uintptr_t) stream * UINT64_C(0x9E3779B97F4A7C15) >> 56) % BUCKETS;
}

static void destroy_events(HipQueue *q) {
        if (!ask_begin())
                return;
        for (size_t i = 0; i < MARKS; i++)
                if (q->marks[i].event)
                        (void) hip.hipEventDestroy(TAKE_PTR(q->marks[i].event));
        ask_end();
}

static void queue_leave(HipQueue *q) {
        if (atomic_fetch_sub(&q->users, 1) > 1)
                return;
        destroy_events(q);
        (void) xsched_queue_unref(q->xq);
}

static void queue_leavep(HipQueue **q) {
        if (*q)
                queue_leave(*q);
}

/* Makes the control thread a user of a queue that it was asked to look at. Returns false when the last user left. */
static bool queue_try_use(HipQueue *q) {
        unsigned n = atomic_load(&q->users);

        while (n > 0 && !atomic_compare_exchange_weak(&q->users, &n, n + 1))
                ;
        return n > 0;
}

/* Makes the caller a user. */
static HipQueue *queue_find(HipStream stream) {
        (void) pthread_mutex_lock(&table_lock);
        HipQueue *q = *bucket_of(stream);
        while (q && q->stream != stream)
                q = q->next;
        if (q)
                atomic_fetch_add(&q->users, 1);
        (void) pthread_mutex_unlock(&table_lock);
        return q;
}

/* Makes the caller the user that the table was, of the stream's queue; for NULL, of any queue of the device. */
static HipQueue *queue_take(HipStream stream, int device) {
        HipQueue *q = NULL;

        (void) pthread_mutex_lock(&table_lock);
        for (size_t i = 0; i < BUCKETS && !q; i++)
                for (HipQueue **p = buckets + i; *p && !q;)
                        if (stream ? (*p)->stream == stream : (*p)->device == device) {
                                q = *p;
                                *p = q->next;
                                atomic_fetch_sub(&n_queues, 1);
                        } else
                                p = &(*p)->next;
        (void) pthread_mutex_unlock(&table_lock);
        return q;
}

/* Returns false when another thread was first. */
static bool queue_put(HipQueue *q) {
        HipQueue **first = bucket_of(q->stream), *other;

        (void) pthread_mutex_lock(&table_lock);
        for (other = *first; other && other->stream != q->stream; other = other->next)
                ;
        if (!other) {
                q->next = *first;
                *first = q;
                atomic_fetch_add(&n_queues, 1);
        }
        (void) pthread_mutex_unlock(&table_lock);
        return !other;
}

/* --- completion --- */

/* All launches up to `seq` are complete. Called with the lock; it is released meanwhile. */
static void queue_done(HipQueue *q, uint64_t seq) {
        uint32_t n = seq > q->done_seq ? (uint32_t) (seq - q->done_seq) : 0;
        XschedQueue *xq = q->xq;

        if (n == 0)
                return;
        q->done_seq = seq;
        while (q->n_over < q->n_made && q->marks[q->n_over % MARKS].seq <= seq)
                q->n_over++;
        atomic_fetch_sub(&q->in_flight, n);
        atomic_store(&q->grace, 0);
        (void) pthread_mutex_unlock(&q->lock);
        xsched_queue_complete(xq, n, 0);
        (void) pthread_mutex_lock(&q->lock);
}

/* In this mode calls do not disturb captures of other threads. */
static void capture_mode_exchange(int *mode) {
        if (hip.hipThreadExchangeStreamCaptureMode)
                (void) hip.hipThreadExchangeStreamCaptureMode(mode);
}

/* Asks for the oldest marks until one is not over. The runtime is asked without the lock. A mark may be recorded anew
 * meanwhile, for a later launch: its event says then that this launch is over, too, or that it is not yet. */
static void queue_harvest(HipQueue *q) {
        int mode = HIP_CAPTURE_MODE_RELAXED;

        if (atomic_load(&q->in_flight) == 0 || !ask_begin())
                return;
        capture_mode_exchange(&mode);
        (void) pthread_mutex_lock(&q->lock);
        while (q->n_over < q->n_made) {
                const HipMark m = q->marks[q->n_over % MARKS];
                (void) pthread_mutex_unlock(&q->lock);
                /* After an error nothing is known of the launch any more: it counts as complete. */
                bool over = hip.hipEventQuery(m.event) != HIP_RESULT_NOT_READY;
                (void) pthread_mutex_lock(&q->lock);
                if (!over)
                        break;
                queue_done(q, m.seq);
        }
        (void) pthread_mutex_unlock(&q->lock);
        capture_mode_exchange(&mode);
        ask_end();
}

/* Ends the use by the launches of a stream that is gone, when none is in flight. */
static void queue_settle(HipQueue *q) {
        (void) pthread_mutex_lock(&q->lock);
        bool left = q->leaving && q->done_seq == q->seq;
        q->leaving = q->leaving && !left;
        (void) pthread_mutex_unlock(&q->lock);
        if (left)
                queue_leave(q);
}

static void queue_look(XschedQueue *xq, void *userdata) {
        HipQueue *q = userdata;

        if (!queue_try_use(q))
                return;
        queue_harvest(q);
        if (atomic_load(&q->in_flight) > 0 && !atomic_load(&ended))
                xsched_queue_look(xq);
        queue_settle(q);
        queue_leave(q);
}

static void queue_free(void *userdata) {
        HipQueue *q = userdata;

        (void) pthread_mutex_destroy(&q->lock);
        free(q);
}

/* --- queues --- */

static int queue_register(HipQueue *q) {
        char id[48] = "pci:", name[32];

        if (hip.hipDeviceGetPCIBusId(id + strlen(id), (int) (sizeof(id) - strlen(id) - 1), q->device) !=
                        HIP_RESULT_SUCCESS)
                (void) snprintf(id, sizeof(id), "hip:%d", q->device);
        for (char *p = id; *p; p++)
                *p = (char) tolower((unsigned char) *p);
        (void) snprintf(name, sizeof(name), "HIP device %d", q->device);
        const XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = id,
                        .device_name = name,
                        .backend = "hip",
                        .label = "xqueue",
                        .look = queue_look,
                        .destroy = queue_free,
                        .userdata = q,
                        .native = (uintptr_t) q->stream,
        };
        return xsched_queue_new(&info, &q->xq);
}

static HipQueue *queue_new(HipStream stream, int device) {
        HipQueue *q = calloc(1, sizeof(HipQueue));

        if (!q)
                return NULL;
        q->stream = stream;
        q->device = device;
        q->users = 1;
        (void) pthread_mutex_init(&q->lock, NULL);
        if (queue_register(q) >= 0)
                return q;
        queue_free(q);
        return NULL;
}

void hip_queue_make(HipStream stream) {
        PROTECT_ERRNO;
        int device = 0;

        (void) pthread_once(&once, find_functions);
        if (!usable || atomic_load(&ended) || (uintptr_t) stream <= HIP_STREAM_PER_THREAD ||
                        hip.hipGetDevice(&device) != HIP_RESULT_SUCCESS)
                return;
        HipQueue *q = queue_find(stream);
        if (!q) {
                q = queue_new(stream, device);
                if (!q || queue_put(q))
                        return;
        }
        queue_leave(q);
}

/* Ends the caller's use, which was the table's. The launches in flight become a user of their own, whom the control
 * thread may end at any time. `lost`: the runtime reports nothing of them any more. */
static void queue_drop(HipQueue *q, bool lost) {
        atomic_fetch_add(&q->users, 1);
        (void) pthread_mutex_lock(&q->lock);
        q->gone = q->leaving = true;
        if (lost)
                queue_done(q, q->seq);
        (void) pthread_mutex_unlock(&q->lock);
        queue_settle(q);
        queue_leave(q);
}

void hip_queue_drop(HipStream stream) {
        PROTECT_ERRNO;
        HipQueue *q = atomic_load(&n_queues) > 0 && stream ? queue_take(stream, 0) : NULL;

        if (q)
                queue_drop(q, false);
}

void hip_queue_drop_device(void) {
        PROTECT_ERRNO;
        int device = 0;

        if (atomic_load(&n_queues) == 0 || hip.hipGetDevice(&device) != HIP_RESULT_SUCCESS)
                return;
        for (HipQueue *q; (q = queue_take(NULL, device));)
                queue_drop(q, true);
}

/* --- launches --- */

static void wait_a_little(uint64_t waited_ns) {
        if (waited_ns < 20 * NSEC_PER_USEC) {
                for (unsigned i = 0; i < SPINS; i++)
                        atomic_signal_fence(memory_order_seq_cst);
                return;
        }
        /* Not nanosleep(): that is a cancellation point, and a launch is none. */
        struct timespec ts = ns_to_timespec(MIN(waited_ns / 8, SLEEP_MAX_NS));
        (void) syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* The answer "not ready" becomes the thread's last error. An error that is there already stays: the control thread asks
 * then. */
static void harvest_here(HipQueue *q) {
        if (hip.hipPeekAtLastError() != HIP_RESULT_SUCCESS)
                return;
        queue_harvest(q);
        (void) hip.hipGetLastError();
}

static bool has_room(const HipQueue *q, uint32_t limit) {
        return limit == 0 || atomic_load(&q->in_flight) < (uint64_t) limit << atomic_load(&q->grace);
}

static void bound_wait(void *userdata) {
        PROTECT_ERRNO;
        HipQueue *q = userdata;
        uint32_t limit = xsched_queue_limit(q->xq), before = atomic_load(&q->in_flight);
        uint64_t since = now_ns();

        if (xsched_queue_get_state(q->xq) & XSCHED_QUEUE_HELD)
                harvest_here(q);
        while (!has_room(q, limit)) {
                harvest_here(q);
                uint32_t n = atomic_load(&q->in_flight);
                uint64_t now = now_ns();
                if (n < before)
                        since = now;
                before = n;
                if (now - since >= GIVE_UP_NS) {
                        atomic_store(&q->grace, MIN(atomic_load(&q->grace) + 1, GRACE_MAX));
                        return;
                }
                if (!has_room(q, limit))
                        wait_a_little(now - since);
        }
}

/* A launch into a capture is none. */
static bool is_captured(HipStream stream) {
        int status = HIP_CAPTURE_NONE;

        return hip.hipStreamIsCapturing(stream, &status) != HIP_RESULT_SUCCESS || status != HIP_CAPTURE_NONE;
}

static _noinline_ void launch_begin_slow(HipStream stream, HipLaunch *ret) {
        PROTECT_ERRNO;
        /* A thread that waits at the gate may be cancelled. */
        _cleanup_(queue_leavep)
        HipQueue *q = queue_find(stream);

        if (!q || is_captured(stream))
                return;
        ret->tracked = xsched_queue_begin_bounded(q->xq, bound_wait, q) == XSCHED_TRACKED;
        ret->queue = TAKE_PTR(q);
        inside = true;
}

void hip_launch_begin(HipStream stream, HipLaunch *ret) {
        *ret = (HipLaunch){};
        if (unlikely(atomic_load_explicit(&n_queues, memory_order_relaxed) > 0) && !inside)
                launch_begin_slow(stream, ret);
}

/* Makes an event of the stream's device. */
static HipEvent event_new(int device) {
        HipEvent event = NULL;
        int current = device;

        if (hip.hipGetDevice(&current) != HIP_RESULT_SUCCESS)
                return NULL;
        if (current != device && hip.hipSetDevice(device) != HIP_RESULT_SUCCESS)
                return NULL;
        if (hip.hipEventCreateWithFlags(&event, HIP_EVENT_DISABLE_TIMING) != HIP_RESULT_SUCCESS)
                event = NULL;
        if (current != device)
                (void) hip.hipSetDevice(current);
        return event;
}

/* Records a mark behind the launch; where all are in use, the last one anew. Called with the lock. */
static bool queue_mark(HipQueue *q) {
        bool is_full = q->n_made - q->n_over == MARKS;
        HipMark *m = q->marks + (is_full ? q->n_made - 1 : q->n_made) % MARKS;

        if (!m->event)
                m->event = event_new(q->device);
        if (!m->event || hip.hipEventRecord(m->event, q->stream) != HIP_RESULT_SUCCESS)
                return false;
        m->seq = ++q->seq;
        q->n_made += !is_full;
        atomic_fetch_add(&q->in_flight, 1);
        return true;
}

void hip_launch_end(HipLaunch *l, HipResult result) {
        HipQueue *q = l->queue;
        if (likely(!q))
                return;

        PROTECT_ERRNO;
        bool marked = false;
        if (l->tracked && result == HIP_RESULT_SUCCESS) {
                (void) pthread_mutex_lock(&q->lock);
                marked = !q->gone && queue_mark(q);
                (void) pthread_mutex_unlock(&q->lock);
        }
        inside = false;
        if (marked)
                xsched_queue_look(q->xq);
        else if (l->tracked)
                xsched_queue_complete(q->xq, 1, 0);
        queue_leave(q);
}

/* --- waits of the application --- */

void hip_wait_begin(HipStream stream, HipWait *ret) {
        *ret = (HipWait){};
        if (likely(atomic_load_explicit(&n_queues, memory_order_relaxed) == 0))
                return;
        PROTECT_ERRNO;
        HipQueue *q = queue_find(stream);
        if (!q)
                return;
        (void) pthread_mutex_lock(&q->lock);
        *ret = (HipWait){.queue = q, .seq = q->seq};
        (void) pthread_mutex_unlock(&q->lock);
}

void hip_wait_end(HipWait *w, HipResult result) {
        HipQueue *q = w->queue;
        if (likely(!q))
                return;

        PROTECT_ERRNO;
        (void) pthread_mutex_lock(&q->lock);
        if (result == HIP_RESULT_SUCCESS)
                queue_done(q, w->seq);
        (void) pthread_mutex_unlock(&q->lock);
        queue_leave(q);
}
