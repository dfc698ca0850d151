/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The registry of streams
 */

#include <ctype.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/signal-mask.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "cuda-others.h"
#include "shim/cuda/cuda-capture.h"
#include "shim/cuda/cuda-next.h"
#include "shim/cuda/cuda-queue.h"
#include "shim/cuda/cuda-stack.h"
#include "shim/cuda/cuda-stop.h"
#include "shim/cuda/cuda-table.h"
#include "shim/cuda/cuda-version.h"
#include "shim/late/late.h"

#define END_WAIT_NS (100 * NSEC_PER_MSEC)
#define LEAVER_LAST (UINT32_C(1) << 31)

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER; /* taken with signals blocked: see signal-mask.h */
static CudaQueue *free_queues, *all_queues;
static uint32_t leavers; /* bits that are taken */
static void (*last_look)(CudaQueue *q);
_Atomic bool cuda_ended;
static _Atomic bool off;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The child can use no CUDA object of the parent, and has none of the threads that held our locks. */
static void fork_child(void) {
        cuda_table_forget();
        cuda_capture_forget();
        registry_lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        free_queues = all_queues = NULL;
        leavers = 0;
}

/* --- the lock of a queue --- */

/* A lock that this thread takes, has or gives back. It is noted before the lock is taken, and until it is given back.
 */
typedef struct Holding {
        CudaQueue *queue;  /* NULL: free */
        const void *frame; /* of the function that has it */
} Holding;

/* Handlers of signals nest. Initial-exec, because dynamic TLS is allocated on first use. */
static _Thread_local Holding holdings[4] __attribute__((tls_model("initial-exec")));

/* How many of them are not the first one, which is nearly always enough. */
static _Thread_local unsigned n_nested __attribute__((tls_model("initial-exec")));

static void holding_free(Holding *h) {
        h->queue = NULL;
        n_nested -= h != holdings;
}

static Holding *holding_of(const CudaQueue *q) {
        if (likely(holdings[0].queue == q))
                return &holdings[0];
        for (size_t i = 0; i < ELEMENTSOF(holdings); i++)
                if (holdings[i].queue == q)
                        return &holdings[i];
        return NULL;
}

bool cuda_queue_is_mine(const CudaQueue *q) {
        return holding_of(q);
}

CudaQueue *cuda_queue_left(const void *frame) {
        for (size_t i = 0; i < ELEMENTSOF(holdings); i++)
                if (unlikely(holdings[i].queue) && (uintptr_t) holdings[i].frame <= (uintptr_t) frame &&
                                !cuda_on_other_stack())
                        return holdings[i].queue;
        return NULL;
}

/* Uses CLOCK_REALTIME, because pthread_mutex_clocklock() is newer than some systems that we run on. */
static int wait_within(CudaQueue *q, uint64_t ns) {
        struct timespec now;
        PROTECT_ERRNO;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        struct timespec until = ns_to_timespec(timespec_to_ns(&now) + ns);
        return pthread_mutex_timedlock(&q->lock, &until);
}

/* Stacks grow down: a frame at a lower or equal address has ended, by a jump. A handler that interrupts the holder is
 * at a lower one. pthread_mutex_trylock() says EBUSY, too, when this thread has the lock. */
static bool lock_within(CudaQueue *q, uint64_t ns, const void *frame) {
        Holding *h = holding_of(NULL), *mine = h == holdings && n_nested == 0 ? NULL : holding_of(q);
        bool was_left = mine && (uintptr_t) mine->frame <= (uintptr_t) frame && !cuda_on_other_stack();

        if (mine)
                h = was_left ? mine : NULL;
        if (!h)
                return false;
        n_nested += !was_left && h != holdings;
        h->frame = frame;
        atomic_signal_fence(memory_order_seq_cst);
        h->queue = q;
        atomic_signal_fence(memory_order_seq_cst);
        int r = pthread_mutex_trylock(&q->lock);
        if (r == EBUSY && (was_left || ns > 0))
                r = wait_within(q, ns);
        if (r == EDEADLK)
                q->left = true;
        else if (r != 0) {
                holding_free(h);
                return false;
        }
        if (unlikely(atomic_load_explicit(&q->stuck, memory_order_relaxed)))
                atomic_store(&q->stuck, false);
        return true;
}

bool cuda_queue_try_lock_at(CudaQueue *q, const void *frame) {
        return lock_within(q, 0, frame);
}

bool cuda_queue_lock_at(CudaQueue *q, const void *frame) {
        if (likely(lock_within(q, atomic_load(&q->stuck) ? 0 : CUDA_LOCK_NS, frame)))
                return true;
        if (!cuda_queue_is_mine(q))
                atomic_store(&q->stuck, true);
        return false;
}

void cuda_queue_unlock(CudaQueue *q) {
        Holding *h = holding_of(q);

        (void) pthread_mutex_unlock(&q->lock);
        atomic_signal_fence(memory_order_seq_cst);
        if (h)
                holding_free(h);
}

/* --- the end of the process --- */

/* Registered after libcuda was initialised, so called before libcuda's own. Asks each queue once more; after that no
 * queue is asked. A thread that is asking just now holds the lock of a queue, and a driver that does not answer must
 * not keep the process from ending. */
static void process_ends(void) {
        uint64_t until = now_ns() + END_WAIT_NS;

        cuda_stop_end();
        for (CudaQueue *q = all_queues; q; q = q->all_next)
                if (lock_within(q, ns_sub(until, now_ns()), __builtin_frame_address(0)))
                        last_look(q);
        atomic_store(&cuda_ended, true);
        for (CudaQueue *q = all_queues; q; q = q->all_next)
                if (lock_within(q, ns_sub(until, now_ns()), __builtin_frame_address(0)))
                        last_look(q);
}

static void register_once(void) {
        (void) thread_atfork(NULL, NULL, fork_child);
        (void) atexit(process_ends);
}

/* --- queues --- */

/* Describes the device: the same in every process, and the same as the OpenCL layer's. */
static bool device_describe(CudaDevice device, char *ret_id, size_t id_size, char *ret_name, size_t name_size) {
        char pci[32] = "";

        if (CUDA_CALL(cuDeviceGetPCIBusId, CudaResult(*)(char *, int, CudaDevice), pci, sizeof(pci) - 1, device) !=
                        CUDA_RESULT_SUCCESS)
                return false;
        for (char *p = pci; *p; p++)
                *p = (char) tolower((unsigned char) *p);
        (void) snprintf(ret_id, id_size, "pci:%s", pci);
        if (CUDA_CALL(cuDeviceGetName, CudaResult(*)(char *, int, CudaDevice), ret_name, (int) name_size, device) !=
                        CUDA_RESULT_SUCCESS)
                ret_name[0] = '\0';
        ret_name[name_size - 1] = '\0';
        return true;
}

static CudaQueue *queue_alloc(void) {
        CudaQueue *q = free_queues;
        if (q) {
                free_queues = q->next_free;
                return q;
        }
        q = aligned_alloc(_Alignof(CudaQueue), sizeof(CudaQueue));
        if (!q)
                return NULL;
        memset(q, 0, sizeof(CudaQueue));
        /* This kind of mutex reports a second lock by the same thread. */
        q->lock = (pthread_mutex_t) PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
        q->all_next = all_queues;
        all_queues = q;
        return q;
}

static void queue_reset(CudaQueue *q) {
        q->generation++;
        q->xq = NULL;
        open_gate_clear(&q->open);
        cuda_ride_reset(&q->ride);
        q->gone = q->lost = q->left = false;
        q->seq = q->done_seq = q->marked_seq = q->unknown_seq = q->unmarked_ns = 0;
        q->n_moving = q->head = q->n_marks = q->n_drains = q->n_ended = q->n_spare = 0;
        atomic_store(&q->to_sample, 0);
        memset(q->timed, 0, sizeof(q->timed));
        memset(&q->kinds, 0, sizeof(q->kinds));
        atomic_store(&q->drain_requests, 0);
        atomic_store(&q->dropped, false);
        atomic_store(&q->in_use, false);
        atomic_store(&q->leaves, 0);
        atomic_store(&q->hidden, false);
        atomic_store(&q->n_unsure, 0);
        q->unsure_seq = UINT64_MAX;
        atomic_store(&q->in_flight, 0);
        atomic_store(&q->flying_ns, 0);
        atomic_store(&q->since_ns, 0);
        atomic_store(&q->grace, 0);
        atomic_store(&q->keeps_up, false);
        atomic_store(&q->launched_ns, 0);
}

static int queue_register(CudaQueue *q, const CudaQueueOps *ops) {
        char id[64], name[128];

        if (!device_describe(q->device, id, sizeof(id), name, sizeof(name)))
                return -ENODEV;
        XschedQueueInfo info = {
                        .size = sizeof(info),
                        .device = id,
                        .device_name = name,
                        .backend = "cuda",
                        .label = q->own_default     ? "per-thread"
                                        : q->stream ? "stream"
                                                    : "default",
                        /* The per-thread streams of other threads cannot be queried. */
                        .drain = q->own_default ? NULL : ops->drain,
                        .look = ops->look,
                        .userdata = q,
                        .native = (uintptr_t) q->stream, /* 0 of default streams */
        };
        XschedQueue *xq;
        int r = cuda_stop_queue_new(&info, &xq);
        if (r < 0)
                return r;
        /* A look that was asked for by the record's former queue may be under way. */
        bool locked = CUDA_QUEUE_LOCK(q);
        q->xq = xq;
        open_gate_set(&q->open, q->xq);
        if (locked)
                cuda_queue_unlock(q);
        return r;
}

/* Makes a record that is in no table yet. Takes only the locks that are named here, and none while the driver is
 * asked. */
static CudaQueue *queue_new(uint64_t key, CudaStream stream, CudaContext context, CudaDevice device, bool own_default,
                const CudaQueueOps *ops) {
        (void) pthread_mutex_lock(&registry_lock);
        CudaQueue *q = queue_alloc();
        last_look = ops->last_look;
        (void) pthread_mutex_unlock(&registry_lock);
        if (!q)
                return NULL;

        if (!CUDA_QUEUE_LOCK(q))
                return NULL; /* a launch on a destroyed stream has it */
        queue_reset(q);
        q->key = key;
        q->stream = stream;
        q->device = device;
        q->own_default = own_default;
        cuda_queue_unlock(q);
        int r = queue_register(q, ops);
        if (r >= 0) {
                q->context = context;
                return q;
        }
        /* There is no libxsched, so there will not be one later. */
        if (r == -ENOSYS)
                atomic_store(&off, true);
        cuda_queue_free(q);
        return NULL;
}

/* The stream's context need not be the current one. That of a default stream is. It is asked for by the stream, as only
 * that tells of a green context that it is destroyed; such a one must not be pushed. */
static bool find_context(CudaStream stream, CudaContext *ret_context, CudaDevice *ret_device) {
        CudaContext context = NULL, popped;

        if (CUDA_CALL(cuStreamGetCtx, CudaResult(*)(CudaStream, CudaContext *), stream, &context) !=
                                        CUDA_RESULT_SUCCESS ||
                        !context ||
                        (stream &&
                                        CUDA_CALL(cuCtxPushCurrent_v2, CudaResult(*)(CudaContext), context) !=
                                                        CUDA_RESULT_SUCCESS))
                return false;
        CudaResult r = CUDA_CALL(cuCtxGetDevice, CudaResult(*)(CudaDevice *), ret_device);
        if (stream)
                (void) CUDA_CALL(cuCtxPopCurrent_v2, CudaResult(*)(CudaContext *), &popped);
        *ret_context = context;
        return r == CUDA_RESULT_SUCCESS;
}

static bool is_off(void) {
        return atomic_load(&off) || cuda_is_disabled();
}

static _noinline_ CudaQueue *queue_first_launch(
                uint64_t key, CudaStream stream, bool own_default, const CudaQueueOps *ops) {
        PROTECT_ERRNO;
        CudaContext context;
        CudaDevice device;

        if (cuda_has_ended() || is_off() || !find_context(stream, &context, &device))
                return NULL;
        SIGNALS_BLOCKED;
        if (cuda_others_are_there())
                atomic_store(&off, true);
        if (is_off() || !late_load())
                return NULL;
        (void) pthread_once(&once, register_once);
        CudaQueue *q = queue_new(key, stream, context, device, own_default, ops), *other;
        if (!q)
                return NULL;

        (void) pthread_mutex_lock(&registry_lock);
        other = cuda_table_put(key, q);
        (void) pthread_mutex_unlock(&registry_lock);
        if (other == q)
                return q;
        /* Another thread was first, or there is no memory. */
        cuda_stop_leave(q->xq);
        open_gate_clear(&q->open);
        xsched_queue_unref(TAKE_PTR(q->xq));
        cuda_queue_free(q);
        return other;
}

/* Handles of streams are never odd. Returns 0 when there is no context. */
static uint64_t stream_key(CudaStream stream, bool per_thread, bool *ret_own_default) {
        uint64_t key = (uintptr_t) stream;
        CudaContext context = NULL;

        *ret_own_default = key == CUDA_STREAM_PER_THREAD || (key == 0 && per_thread);
        if (likely(key > CUDA_STREAM_PER_THREAD))
                return key;
        if (CUDA_CALL(cuCtxGetCurrent, CudaResult(*)(CudaContext *), &context) != CUDA_RESULT_SUCCESS || !context)
                return 0;
        return (uintptr_t) context + (*ret_own_default ? 3 : 1);
}

CudaQueue *cuda_queue_find(CudaStream stream, bool per_thread) {
        bool own_default;
        uint64_t key = stream_key(stream, per_thread, &own_default);

        return key != 0 ? cuda_table_find(key) : NULL;
}

static _noinline_ CudaQueue *queue_get_slow(CudaStream stream, bool per_thread, const CudaQueueOps *ops) {
        bool own_default;
        uint64_t key = stream_key(stream, per_thread, &own_default);
        CudaQueue *q = likely(key != 0) ? cuda_table_find(key) : NULL;

        if (likely(q) || key == 0 || atomic_load_explicit(&off, memory_order_relaxed))
                return q;
        return queue_first_launch(key, key & 1 ? NULL : stream, own_default, ops);
}

CudaQueue *cuda_queue_get(CudaStream stream, bool per_thread, const CudaQueueOps *ops) {
        uint64_t key = (uintptr_t) stream;
        CudaQueue *q = likely(key > CUDA_STREAM_PER_THREAD) ? cuda_table_find(key) : NULL;

        return likely(q) ? q : queue_get_slow(stream, per_thread, ops);
}

/* --- ends --- */

bool cuda_queue_request_drain(CudaQueue *q, const XschedQueue *xq) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        bool ours = q->xq == xq;
        if (ours)
                atomic_fetch_add(&q->drain_requests, 1);
        (void) pthread_mutex_unlock(&registry_lock);
        return ours;
}

XschedQueue *cuda_queue_part(CudaQueue *q, uint32_t *ret_drains) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        XschedQueue *xq = TAKE_PTR(q->xq);
        *ret_drains = atomic_exchange(&q->drain_requests, 0);
        (void) pthread_mutex_unlock(&registry_lock);
        return xq;
}

void cuda_queue_free(CudaQueue *q) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        q->context = NULL;
        q->next_free = free_queues;
        free_queues = q;
        (void) pthread_mutex_unlock(&registry_lock);
}

CudaQueue *cuda_queue_take(CudaStream stream) {
        uint64_t key = (uintptr_t) stream;

        if (key <= CUDA_STREAM_PER_THREAD)
                return NULL;
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        CudaQueue *q = cuda_table_take(key);
        (void) pthread_mutex_unlock(&registry_lock);
        return q;
}

/* The last one is shared if there are too many. */
uint32_t cuda_queue_leaver(void) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        uint32_t by = (~leavers & (leavers + 1)) ?: LEAVER_LAST;
        leavers |= by;
        (void) pthread_mutex_unlock(&registry_lock);
        return by;
}

void cuda_queue_leaver_free(uint32_t by) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        leavers &= ~by;
        (void) pthread_mutex_unlock(&registry_lock);
}

static bool hide(CudaQueue *q) {
        atomic_store(&q->hidden, true);
        return true;
}

void cuda_queue_hide_all(CudaContext context) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        cuda_table_take_all(context, hide);
        (void) pthread_mutex_unlock(&registry_lock);
}

/* A launch of another thread's may have made a queue meanwhile. */
static void show_all(CudaContext context) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        for (CudaQueue *q = all_queues; q; q = q->all_next)
                if (q->context == context && atomic_load(&q->leaves) == 0 && atomic_exchange(&q->hidden, false))
                        (void) cuda_table_put(q->key, q);
        (void) pthread_mutex_unlock(&registry_lock);
}

static CudaQueue *newest_queue(void) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        CudaQueue *q = all_queues;
        (void) pthread_mutex_unlock(&registry_lock);
        return q;
}

static bool is_of(const CudaQueue *q, CudaContext context) {
        return context ? q->context == context : q->context != NULL;
}

static bool is_left(const CudaQueue *q, CudaContext context, uint32_t by) {
        return is_of(q, context) && atomic_load(&q->leaves) & by;
}

static void take(CudaQueue *q, CudaContext context) {
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&registry_lock);
        if (is_of(q, context)) {
                if (cuda_table_find(q->key) == q)
                        (void) cuda_table_take(q->key);
                atomic_store(&q->hidden, false);
        }
        (void) pthread_mutex_unlock(&registry_lock);
}

void cuda_queue_take_all(CudaContext context, uint32_t by, void (*f)(CudaQueue *q, uint32_t by)) {
        for (CudaQueue *q = newest_queue(); q; q = q->all_next) {
                if (!is_left(q, context, by))
                        continue;
                take(q, context);
                f(q, by);
        }
}

void cuda_queue_leave_all(CudaContext context, uint32_t by, void (*f)(CudaQueue *q)) {
        for (CudaQueue *q = newest_queue(); q; q = q->all_next) {
                if (q->context != context)
                        continue;
                /* A thread that asks just now has the lock: wait for it. The record may be another queue's by then. */
                bool locked = CUDA_QUEUE_LOCK(q);
                if (q->context == context) {
                        if (locked && f)
                                f(q);
                        atomic_fetch_or(&q->leaves, by);
                }
                if (locked)
                        cuda_queue_unlock(q);
        }
}

void cuda_queue_stay_all(CudaContext context, uint32_t by) {
        for (CudaQueue *q = newest_queue(); q; q = q->all_next)
                if (q->context == context)
                        atomic_fetch_and(&q->leaves, ~by);
        show_all(context);
}

void cuda_queue_pass_all(CudaContext context, uint32_t by, CudaContext to, uint32_t leaves) {
        for (CudaQueue *q = newest_queue(); q; q = q->all_next) {
                if (!is_left(q, context, by) || !CUDA_QUEUE_LOCK(q))
                        continue;
                if (is_left(q, context, by) && q->xq && q->gone) {
                        atomic_store(&q->context, to);
                        atomic_store(&q->leaves, leaves);
                }
                cuda_queue_unlock(q);
        }
}
