/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Between a program and the HSA runtime: the gate in front of doorbells
 *
 * Every ROCm language launches by storing to a doorbell signal. When the signal belongs to a queue that the kernel has
 * made for this process, the store waits at that queue's gate, and is counted; everything else passes. While nobody
 * contends that is a look at a small table, and at the queue's slot.
 *
 * A queue counts as hooked with the first doorbell that comes this way. One whose doorbells do not (the runtime's own
 * queues, a program that stores to the hardware's doorbell itself, or that has looked up the runtime's functions by
 * dlsym()) is looked at instead: kfd-poll.c.
 *
 * The definition behind ours is the loaded runtime's, by its handle: one that came in by dlopen(RTLD_LOCAL) is none of
 * RTLD_NEXT's.
 *
 * Who must not wait does not: a signal handler, because what it has interrupted may hold what the service's word
 * depends on; and the runtime's own thread, in its callbacks, because everybody waits for that. Their launches are
 * counted, and pass.
 *
 * The bound of launches in flight is waited for in front of the gate, so that a verdict that changes meanwhile counts,
 * by a launch that counts already, so that the queue does not seem idle between two. It ends when nothing moves for a
 * while: what is in flight may wait for what this launch, or a later one of this thread, would signal.
 */

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unwind.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "shim/kfd/kfd-queue.h"

/* What is used of hsa/hsa.h: no program here is built against a runtime. */
typedef struct HsaSignal {
        uint64_t handle;
} HsaSignal;

typedef struct HsaQueue {
        uint32_t type;
        uint32_t features;
        void *base_address;
        HsaSignal doorbell_signal;
        uint32_t size;
        uint32_t reserved1;
        uint64_t id;
} HsaQueue;

_Static_assert(offsetof(HsaQueue, doorbell_signal) == 16 && sizeof(HsaQueue) == 40, "hsa_queue_t");

#define HSA_SUCCESS 0
#define HSA_ERROR   0x1000

typedef bool HsaHandler(int64_t value, void *arg);
typedef void HsaQueueCallback(int status, HsaQueue *queue, void *arg);

static _Thread_local struct {
        unsigned in_callback;
        bool in_gate;
} thread __attribute__((tls_model("initial-exec")));

/* --- what is next --- */

typedef void (*Function)(void);

static int find_runtime(struct dl_phdr_info *info, size_t size, void *userdata) {
        const char *slash = strrchr(strempty(info->dlpi_name), '/');
        if (!startswith(slash ? slash + 1 : strempty(info->dlpi_name), "libhsa-runtime64"))
                return 0;
        *(char **) userdata = strdup(info->dlpi_name);
        return 1;
}

/* A reference to it is kept for ever: our functions lead there. */
static void *runtime_handle(void) {
        static _Atomic(void *) known;
        void *handle = atomic_load(&known);
        if (handle)
                return handle;

        handle = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD);
        if (!handle) {
                _cleanup_free_ char *path = NULL;
                (void) dl_iterate_phdr(find_runtime, &path);
                handle = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        }
        atomic_store(&known, handle);
        return handle;
}

static Function next_function(_Atomic(Function) *cell, const char *name) {
        Function f = atomic_load_explicit(cell, memory_order_acquire);

        if (unlikely(!f)) {
                PROTECT_ERRNO;
                void *handle = runtime_handle();
                f = (Function) (uintptr_t) ((handle ? dlsym(handle, name) : NULL) ?: dlsym(RTLD_NEXT, name));
                atomic_store_explicit(cell, f, memory_order_release);
        }
        return f;
}

#define NEXT(name, ret, type)                                                                               \
        static ret(*next_##name(void)) type {                                                               \
                static _Atomic(Function) cell;                                                              \
                return (ret(*) type) next_function(&cell, #name);                                           \
        }

NEXT(hsa_signal_store_relaxed, void, (HsaSignal, int64_t))
NEXT(hsa_signal_store_release, void, (HsaSignal, int64_t))
NEXT(hsa_signal_store_screlease, void, (HsaSignal, int64_t))
NEXT(hsa_queue_create, int,
                (uint64_t, uint32_t, uint32_t, HsaQueueCallback *, void *, uint32_t, uint32_t, HsaQueue **) )
NEXT(hsa_amd_signal_async_handler, int, (HsaSignal, int, int64_t, HsaHandler *, void *) )

/* --- which signals are doorbells --- */

#define DOORBELLS_MAX 4096U /* half of it is used at most */
#define DOORBELL_GONE 1U    /* no handle: those are pointers */

static struct {
        _Atomic uint64_t handle; /* 0: never used */
        _Atomic(KfdQueue *) queue;
} doorbells[DOORBELLS_MAX];
static _Atomic unsigned n_doorbells;

static unsigned doorbell_hash(uint64_t handle) {
        return (unsigned) (handle * UINT64_C(0x9e3779b97f4a7c15) >> 52) % DOORBELLS_MAX;
}

static inline KfdQueue *doorbell_find(uint64_t handle) {
        if (atomic_load_explicit(&n_doorbells, memory_order_relaxed) == 0)
                return NULL;
        for (unsigned i = doorbell_hash(handle), n = 0; n < DOORBELLS_MAX;
                        i = (i + 1) % DOORBELLS_MAX, n++) {
                uint64_t h = atomic_load_explicit(&doorbells[i].handle, memory_order_acquire);
                if (h == handle)
                        return atomic_load_explicit(&doorbells[i].queue, memory_order_relaxed);
                if (h == 0)
                        break;
        }
        return NULL;
}

/* Under kfd_lock(). A place that was used stays a link of the chains that lead over it, until none does. */
static void doorbell_add(uint64_t handle, KfdQueue *q) {
        if (handle <= DOORBELL_GONE || atomic_load(&n_doorbells) >= DOORBELLS_MAX / 2)
                return;

        unsigned i = doorbell_hash(handle), n = 0;
        while (n++ < DOORBELLS_MAX && atomic_load(&doorbells[i].handle) > DOORBELL_GONE)
                i = (i + 1) % DOORBELLS_MAX;
        if (atomic_load(&doorbells[i].handle) > DOORBELL_GONE)
                return;
        atomic_store(&doorbells[i].queue, q);
        atomic_store(&doorbells[i].handle, handle);
        atomic_fetch_add(&n_doorbells, 1);
}

static void doorbell_remove(unsigned i) {
        atomic_store(&doorbells[i].handle, DOORBELL_GONE);
        atomic_fetch_sub(&n_doorbells, 1);
        if (atomic_load(&doorbells[(i + 1) % DOORBELLS_MAX].handle) != 0)
                return;
        for (; atomic_load(&doorbells[i].handle) == DOORBELL_GONE;
                        i = (i + DOORBELLS_MAX - 1) % DOORBELLS_MAX)
                atomic_store(&doorbells[i].handle, 0);
}

void kfd_hsa_forget(const KfdQueue *q) {
        for (unsigned i = 0; atomic_load(&n_doorbells) > 0 && i < DOORBELLS_MAX; i++)
                if (atomic_load(&doorbells[i].handle) > DOORBELL_GONE &&
                                atomic_load(&doorbells[i].queue) == q)
                        doorbell_remove(i);
}

void kfd_hsa_after_fork(void) {
        for (unsigned i = 0; i < DOORBELLS_MAX; i++)
                if (atomic_load(&doorbells[i].handle) != 0)
                        atomic_store(&doorbells[i].handle, 0);
        atomic_store(&n_doorbells, 0);
        thread.in_callback = 0;
        thread.in_gate = false;
}

/* --- launches --- */

#define PATIENCE_MIN_NS (10 * NSEC_PER_MSEC)
#define PATIENCE_MAX_NS (200 * NSEC_PER_MSEC)
#define PATIENCE_MEANS  8U
#define NAP_MIN_NS      (20 * NSEC_PER_USEC)
#define NAP_MAX_NS      (200 * NSEC_PER_USEC)
#define FRAMES_MAX      128U

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *userdata) {
        unsigned *left = userdata;
        int is_signal_frame = 0;

        (void) _Unwind_GetIPInfo(context, &is_signal_frame);
        if (is_signal_frame) {
                *left = 0;
                return _URC_END_OF_STACK;
        }
        return --*left > 1 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Whether the kernel has put a signal's frame under us. Asked only by who is about to wait; the unwinder of GCC 12 and
 * glibc 2.35 takes no lock. Code without unwind tables ends the search early. */
static bool in_signal_handler(void) {
        unsigned left = FRAMES_MAX;

        (void) _Unwind_Backtrace(look_at_frame, &left);
        return left == 0;
}

/* Not nanosleep(): that is a cancellation point. */
static void nap(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);
        (void) syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL);
}

static bool is_over_limit(KfdQueue *q, uint64_t *ret_read) {
        uint32_t limit = xsched_queue_limit(q->xsched);
        uint64_t read = atomic_load(q->hal.read_index), rung = atomic_load(&q->rung);

        *ret_read = read;
        return limit != 0 && rung > read && rung - read >= limit;
}

static void wait_for_room(void *userdata) {
        KfdQueue *q = userdata;
        uint64_t read, seen,
                        patience = CLAMP(PATIENCE_MEANS * atomic_load(&q->mean_ns),
                                        (uint64_t) PATIENCE_MIN_NS, (uint64_t) PATIENCE_MAX_NS);

        if (!is_over_limit(q, &seen) || in_signal_handler())
                return;
        uint64_t until = now_ns() + patience;
        for (uint64_t ns = NAP_MIN_NS; is_over_limit(q, &read) && now_ns() < until;
                        ns = MIN(ns * 2, (uint64_t) NAP_MAX_NS)) {
                if (read != seen) {
                        seen = read;
                        until = now_ns() + patience;
                        ns = NAP_MIN_NS;
                }
                nap(ns);
        }
}

static bool may_wait(const KfdQueue *q) {
        if (thread.in_callback > 0)
                return false;
        return likely(!(xsched_queue_get_state(q->xsched) & XSCHED_QUEUE_HELD)) || !in_signal_handler();
}

/* Behind the gate, and before the store: a release that comes in between may announce it. */
static void note_rung(KfdQueue *q, int64_t value) {
        uint64_t next = (uint64_t) value + 1, rung = atomic_load_explicit(&q->rung, memory_order_relaxed);

        while (next > rung && !atomic_compare_exchange_weak(&q->rung, &rung, next))
                ;
}

static int begin(KfdQueue *q) {
        uint64_t read;

        if (!may_wait(q))
                return xsched_queue_begin_nowait(q->xsched);
        if (unlikely(xsched_queue_limit(q->xsched) != 0) && is_over_limit(q, &read))
                return xsched_queue_begin_bounded(q->xsched, wait_for_room, q);
        return xsched_queue_begin(q->xsched);
}

/* In front of the store: the packets are written, and their indices taken. */
static void launch(KfdQueue *q) {
        PROTECT_ERRNO;

        if (unlikely(!atomic_load_explicit(&q->hooked, memory_order_relaxed)))
                atomic_store(&q->hooked, true);

        int begun = begin(q);
        if (likely(begun == XSCHED_UNTRACKED))
                return;
        if (atomic_fetch_add(&q->pending, 1) == 0)
                atomic_store_explicit(&q->mark_ns, now_ns(), memory_order_relaxed);
        kfd_poll_launched();
}

static inline void store(HsaSignal signal, int64_t value, void (*next)(HsaSignal, int64_t)) {
        KfdQueue *q = doorbell_find(signal.handle);

        if (unlikely(q) && !thread.in_gate) {
                thread.in_gate = true;
                launch(q);
                thread.in_gate = false;
        }
        if (unlikely(q))
                note_rung(q, value);
        if (likely(next))
                next(signal, value);
}

void hsa_signal_store_relaxed(HsaSignal signal, int64_t value);
void hsa_signal_store_release(HsaSignal signal, int64_t value);
void hsa_signal_store_screlease(HsaSignal signal, int64_t value);
int hsa_queue_create(uint64_t agent, uint32_t size, uint32_t type, HsaQueueCallback *callback, void *data,
                uint32_t private_size, uint32_t group_size, HsaQueue **queue);
int hsa_amd_signal_async_handler(
                HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg);

_public_
void hsa_signal_store_relaxed(HsaSignal signal, int64_t value) {
        store(signal, value, next_hsa_signal_store_relaxed());
}

_public_
void hsa_signal_store_release(HsaSignal signal, int64_t value) {
        store(signal, value, next_hsa_signal_store_release());
}

_public_
void hsa_signal_store_screlease(HsaSignal signal, int64_t value) {
        store(signal, value, next_hsa_signal_store_screlease());
}

/* --- queues --- */

/* The kernel has heard of it by its ring. */
static void queue_created(const HsaQueue *queue) {
        PROTECT_ERRNO;
        _cleanup_(kfd_unlockp)
        bool locked = kfd_lock();
        KfdQueue *q = locked ? kfd_queue_by_ring((uintptr_t) queue->base_address) : NULL;

        if (q && q->xsched && q->hal.type == KFD_QUEUE_COMPUTE_AQL)
                doorbell_add(queue->doorbell_signal.handle, q);
}

_public_
int hsa_queue_create(uint64_t agent, uint32_t size, uint32_t type, HsaQueueCallback *callback, void *data,
                uint32_t private_size, uint32_t group_size, HsaQueue **queue) {
        typeof(&hsa_queue_create) next = next_hsa_queue_create();
        if (!next)
                return HSA_ERROR;

        /* The first doorbell may come in a signal handler. */
        (void) next_hsa_signal_store_relaxed();
        (void) next_hsa_signal_store_release();
        (void) next_hsa_signal_store_screlease();
        int r = next(agent, size, type, callback, data, private_size, group_size, queue);
        if (r == HSA_SUCCESS)
                queue_created(*queue);
        return r;
}

/* --- the runtime's callbacks --- */

typedef struct Closure {
        HsaHandler *handler;
        void *arg;
} Closure;

static bool call_handler(int64_t value, void *userdata) {
        Closure *c = userdata;

        thread.in_callback++;
        bool again = c->handler(value, c->arg);
        thread.in_callback--;
        if (!again)
                free(c);
        return again;
}

_public_
int hsa_amd_signal_async_handler(
                HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg) {
        typeof(&hsa_amd_signal_async_handler) next = next_hsa_amd_signal_async_handler();
        if (!next)
                return HSA_ERROR;

        Closure *c = handler ? malloc(sizeof(Closure)) : NULL;
        if (!c)
                return next(signal, condition, value, handler, arg);
        *c = (Closure){.handler = handler, .arg = arg};
        int r = next(signal, condition, value, call_handler, c);
        if (r != HSA_SUCCESS)
                free(c);
        return r;
}
