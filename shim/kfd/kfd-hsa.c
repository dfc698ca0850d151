/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate in front of doorbells, between a program and the HSA runtime
 *
 * Every ROCm language launches by storing to a doorbell signal. When the signal belongs to a queue that the kernel made
 * for this process, the store waits at that queue's gate, and is counted; every other store passes. Without contention
 * that costs a look at a small table, and at the queue's slot.
 *
 * The doorbell signals are not found by the function that makes a queue, because there are several, and there will be
 * more: they are found when the kernel is asked for the queue (kfd-aql.h).
 *
 * A queue counts as hooked with the first doorbell that we see. A queue whose doorbells we do not see (the runtime's
 * own queues, a program that stores to the hardware's doorbell itself, or that has looked up the runtime's functions by
 * dlsym()) is polled instead: kfd-poll.c.
 *
 * The definition behind ours is that of the caller's own runtime: kfd-next.h.
 *
 * Two kinds of callers must not wait, and do not: a signal handler, because the code that it interrupted may hold a
 * lock that the service's verdict depends on; and the runtime's own thread, which calls the program back, because all
 * others wait for it. Their launches are counted, and pass.
 *
 * A launch waits for the bound in front of the gate, so that a verdict that changes meanwhile counts. It is counted
 * before that wait, so that the queue does not seem idle between two launches. The wait ends when nothing moves for a
 * while: launches in flight may wait for what this launch, or a later one of this thread, would signal.
 */

#include "kfd-hsa.h"
#include "common/macro.h"
#include "common/nap.h"
#include "common/time-util.h"
#include "common/unwind-util.h"
#include "kfd-poll.h"
#include "shim/kfd/kfd-doorbell.h"
#include "shim/kfd/kfd-next.h"
#include "shim/kfd/kfd-queue.h"

static _Thread_local struct {
        bool is_runtimes;
        unsigned forwarded; /* calls of this thread that passed here, and are in the runtime now */
        bool in_gate;
} thread __attribute__((tls_model("initial-exec")));

void kfd_hsa_after_fork(void) {
        thread.forwarded = 0;
        thread.in_gate = thread.is_runtimes = false;
}

/* --- launches --- */

#define PATIENCE_MIN_NS (10 * NSEC_PER_MSEC)
#define PATIENCE_MAX_NS (200 * NSEC_PER_MSEC)
#define PATIENCE_MEANS  8U
#define NAP_MIN_NS      (20 * NSEC_PER_USEC)
#define NAP_MAX_NS      (200 * NSEC_PER_USEC)

static bool is_over_limit(KfdQueue *q, uint64_t *ret_read) {
        uint32_t limit = xsched_queue_limit(q->xsched);
        uint64_t read = atomic_load(q->hal.read_index);
        uint64_t end = atomic_load(&q->intercepted) ? atomic_load(q->hal.write_index) : atomic_load(&q->rung);

        *ret_read = read;
        return limit != 0 && end > read && end - read >= limit;
}

static void wait_for_room(void *userdata) {
        KfdQueue *q = userdata;
        uint64_t read, seen,
                        patience = CLAMP(PATIENCE_MEANS * atomic_load(&q->mean_ns), (uint64_t) PATIENCE_MIN_NS,
                                        (uint64_t) PATIENCE_MAX_NS);

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
        if (thread.is_runtimes)
                return false;
        return likely(!(xsched_queue_get_state(q->xsched) & XSCHED_QUEUE_HELD)) || !in_signal_handler();
}

/* Notes the index that a doorbell announces. Called behind the gate and before the store, because the queue may be
 * released in between. */
static void note_rung(KfdQueue *q, int64_t value) {
        uint64_t next = (uint64_t) value + 1, rung = atomic_load_explicit(&q->rung, memory_order_relaxed);

        while (next > rung && !atomic_compare_exchange_weak(&q->rung, &rung, next))
                ;
        /* Another thread has found the proxy meanwhile. */
        if (unlikely(atomic_load(&q->intercepted)))
                atomic_store(&q->rung, 0);
}

/* A thread that rings has reserved the index before. When the queue's own index says otherwise, the ring is for another
 * index: a profiler keeps indices of its own, and puts the packets into the queue on the way. */
static bool is_intercepted(KfdQueue *q, int64_t value) {
        if (unlikely((uint64_t) value >= atomic_load_explicit(q->hal.write_index, memory_order_relaxed)) &&
                        !atomic_load(&q->intercepted)) {
                atomic_store(&q->intercepted, true);
                atomic_store(&q->rung, 0);
        }
        return unlikely(atomic_load_explicit(&q->intercepted, memory_order_relaxed));
}

static int begin(KfdQueue *q) {
        uint64_t read;

        if (!may_wait(q))
                return xsched_queue_begin_nowait(q->xsched);
        if (unlikely(xsched_queue_limit(q->xsched) != 0) && is_over_limit(q, &read))
                return xsched_queue_begin_bounded(q->xsched, wait_for_room, q);
        return xsched_queue_begin(q->xsched);
}

/* In front of the store: the packets are written, and their indices taken. Returns whether the queue is watched. */
static bool launch(KfdQueue *q) {
        PROTECT_ERRNO;

        if (unlikely(!atomic_load_explicit(&q->hooked, memory_order_relaxed))) {
                atomic_store(&q->hooked, true);
                xsched_queue_set_hooked(q->xsched, XSCHED_HOOKED_DOORBELL);
        }
        return unlikely(begin(q) != XSCHED_UNTRACKED);
}

static void note_launch(KfdQueue *q) {
        PROTECT_ERRNO;

        if (atomic_fetch_add(&q->pending, 1) == 0)
                atomic_store_explicit(&q->mark_ns, now_ns(), memory_order_relaxed);
        kfd_poll_launched();
}

/* The launch's packets are not in the queue before the store returns. If the queue has become watched since the gate
 * let the launch pass, the threads inside may have been counted already. Then the launch counts after all, though twice
 * among those let through. */
static bool enter(KfdQueue *q, bool watched) {
        PROTECT_ERRNO;

        atomic_fetch_add(&q->inside, 1);
        if (watched || thread.in_gate || !(xsched_queue_get_state(q->xsched) & XSCHED_QUEUE_WATCHED))
                return watched;
        return xsched_queue_begin_nowait(q->xsched) == XSCHED_TRACKED;
}

/* Returns whether after_store() is to be called. */
static inline bool before_store(KfdQueue *q, int64_t value) {
        bool intercepted = is_intercepted(q, value), watched = false;

        if (!thread.in_gate) {
                thread.in_gate = true;
                watched = launch(q);
                thread.in_gate = false;
        }
        if (unlikely(intercepted))
                watched = enter(q, watched);
        if (unlikely(watched))
                note_launch(q);
        if (likely(!intercepted))
                note_rung(q, value);
        return intercepted;
}

static void after_store(KfdQueue *q) {
        atomic_fetch_sub(&q->inside, 1);
}

/* Stores to the hardware's doorbell, as every runtime does for a signal of this kind. */
static bool store_to_hardware(const KfdQueue *q, HsaSignal signal, int64_t value) {
        const AmdSignal *s = (const AmdSignal *) (uintptr_t) signal.handle;

        if (!q || atomic_load(&q->intercepted) || s->kind != AMD_SIGNAL_DOORBELL || !s->hardware_doorbell)
                return false;
        __atomic_store_n(s->hardware_doorbell, (uint64_t) value, __ATOMIC_SEQ_CST);
        return true;
}

/* Handles the first doorbell from a call site. In a signal handler the dynamic linker is not asked, because the
 * interrupted thread may hold its lock. If the linker finds nothing (it has no memory left), the doorbell is rung all
 * the same. */
static _noinline_ void store_unknown(
                const void *caller, const KfdQueue *q, HsaSignal signal, int64_t value, size_t function) {
        KfdRuntime spare;

        if (q && in_signal_handler() && store_to_hardware(q, signal, value))
                return;
        const KfdRuntime *next = kfd_runtime(caller, &spare);
        typeof(&hsa_signal_store_relaxed) store;
        memcpy(&store, (const char *) next + function, sizeof(store));
        if (store)
                store(signal, value);
        else
                (void) store_to_hardware(q, signal, value);
}

#define STORE(name)                                                                                                    \
        _public_                                                                                                       \
        void name(HsaSignal signal, int64_t value) {                                                                   \
                const KfdRuntime *next = kfd_runtime_known(__builtin_return_address(0));                               \
                KfdQueue *q = kfd_doorbell_find(signal.handle);                                                        \
                bool inside = unlikely(q) && before_store(q, value);                                                   \
                                                                                                                       \
                thread.forwarded++;                                                                                    \
                if (likely(next && next->name))                                                                        \
                        next->name(signal, value);                                                                     \
                else                                                                                                   \
                        store_unknown(__builtin_return_address(0), q, signal, value, offsetof(KfdRuntime, name));      \
                thread.forwarded--;                                                                                    \
                if (unlikely(inside))                                                                                  \
                        after_store(q);                                                                                \
        }

HSA_STORES(STORE)

void kfd_hsa_store(HsaSignal signal, int64_t value, typeof(&hsa_signal_store_relaxed) next) {
        KfdQueue *q = thread.forwarded == 0 ? kfd_doorbell_find(signal.handle) : NULL;
        bool inside = unlikely(q) && before_store(q, value);

        next(signal, value);
        if (unlikely(inside))
                after_store(q);
}

/* --- reservations --- */

/* Finds the queue of an unknown hsa_queue_t. A signal handler does not wait for the lock: the next use of the queue
 * then finds it. */
static _noinline_ void meet_slow(const HsaQueue *queue) {
        if (!kfd_queue_meet(queue, false) && !in_signal_handler())
                (void) kfd_queue_meet(queue, true);
}

/* Called by functions that name the queue, as a program does before each launch: so a profiler's proxy becomes
 * known. */
static inline void meet(const HsaQueue *queue, KfdQueue **ret) {
        if (kfd_has_doorbells() && unlikely(!kfd_doorbell_look((uintptr_t) queue, ret)))
                meet_slow(queue);
}

#define MOVE_WAIT_NS (10 * NSEC_PER_MSEC)

static _noinline_ void wait_for_move(KfdQueue *q) {
        const _Atomic bool *moving = &q->gpu->hal.moving;
        PROTECT_ERRNO;

        if (thread.is_runtimes || in_signal_handler())
                return;
        for (uint64_t until = now_ns() + MOVE_WAIT_NS; atomic_load(moving) && now_ns() < until;) {
                atomic_fetch_sub(&q->hal.reserving, 1);
                nap(NAP_MIN_NS);
                atomic_fetch_add(&q->hal.reserving, 1);
        }
}

/* Waits while queues are moved on the device. A reserved place has no packet for a moment, and the firmware may hang
 * when it finds such a place during a move. A move takes less than a millisecond, unless the device has to finish
 * running work. That work may wait for this launch, so the wait gives up after a time. */
static inline void begin_reserving(KfdQueue *q) {
        if (!q)
                return;
        atomic_fetch_add(&q->hal.reserving, 1);
        if (unlikely(atomic_load(&q->gpu->hal.moving)))
                wait_for_move(q);
}

static inline void end_reserving(KfdQueue *q) {
        if (q)
                atomic_fetch_sub(&q->hal.reserving, 1);
}

static bool reserve_in_memory(const KfdQueue *q, uint64_t n, uint64_t *ret) {
        if (!q || atomic_load(&q->intercepted))
                return false;
        *ret = __atomic_fetch_add((uint64_t *) (uintptr_t) &q->aql->write_index, n, __ATOMIC_SEQ_CST);
        return true;
}

/* As store_unknown(). */
static _noinline_ uint64_t reserve_unknown(
                const void *caller, const KfdQueue *q, const HsaQueue *queue, uint64_t n, size_t function) {
        uint64_t index = 0;
        KfdRuntime spare;

        if (q && in_signal_handler() && reserve_in_memory(q, n, &index))
                return index;
        const KfdRuntime *next = kfd_runtime(caller, &spare);
        typeof(&hsa_queue_add_write_index_relaxed) add;
        memcpy(&add, (const char *) next + function, sizeof(add));
        if (add)
                return add(queue, n);
        (void) reserve_in_memory(q, n, &index);
        return index;
}

#define RESERVE(name)                                                                                                  \
        _public_                                                                                                       \
        uint64_t name(const HsaQueue *queue, uint64_t n) {                                                             \
                const KfdRuntime *next = kfd_runtime_known(__builtin_return_address(0));                               \
                KfdQueue *q = NULL;                                                                                    \
                                                                                                                       \
                meet(queue, &q);                                                                                       \
                begin_reserving(q);                                                                                    \
                thread.forwarded++;                                                                                    \
                uint64_t index = likely(next && next->name) ? next->name(queue, n)                                     \
                                                            : reserve_unknown(__builtin_return_address(0), q, queue,   \
                                                                              n, offsetof(KfdRuntime, name));          \
                thread.forwarded--;                                                                                    \
                end_reserving(q);                                                                                      \
                return index;                                                                                          \
        }

HSA_RESERVATIONS(RESERVE)

static bool exchange_in_memory(const KfdQueue *q, uint64_t expected, uint64_t index, uint64_t *ret) {
        if (!q || atomic_load(&q->intercepted))
                return false;
        *ret = expected;
        (void) __atomic_compare_exchange_n((uint64_t *) (uintptr_t) &q->aql->write_index, ret, index, false,
                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return true;
}

/* As store_unknown(). Says that another has been quicker where nothing can be done. */
static _noinline_ uint64_t exchange_unknown(const void *caller, const KfdQueue *q, const HsaQueue *queue,
                uint64_t expected, uint64_t index, size_t function) {
        uint64_t found = ~expected;
        KfdRuntime spare;

        if (q && in_signal_handler() && exchange_in_memory(q, expected, index, &found))
                return found;
        const KfdRuntime *next = kfd_runtime(caller, &spare);
        typeof(&hsa_queue_cas_write_index_relaxed) cas;
        memcpy(&cas, (const char *) next + function, sizeof(cas));
        if (cas)
                return cas(queue, expected, index);
        (void) exchange_in_memory(q, expected, index, &found);
        return found;
}

#define EXCHANGE(name)                                                                                                 \
        _public_                                                                                                       \
        uint64_t name(const HsaQueue *queue, uint64_t expected, uint64_t index) {                                      \
                const KfdRuntime *next = kfd_runtime_known(__builtin_return_address(0));                               \
                KfdQueue *q = NULL;                                                                                    \
                                                                                                                       \
                meet(queue, &q);                                                                                       \
                begin_reserving(q);                                                                                    \
                thread.forwarded++;                                                                                    \
                uint64_t found = likely(next && next->name)                                                            \
                                ? next->name(queue, expected, index)                                                   \
                                : exchange_unknown(__builtin_return_address(0), q, queue, expected, index,             \
                                                  offsetof(KfdRuntime, name));                                         \
                thread.forwarded--;                                                                                    \
                end_reserving(q);                                                                                      \
                return found;                                                                                          \
        }

HSA_EXCHANGES(EXCHANGE)

/* As store_unknown(). */
static _noinline_ void set_unknown(
                const void *caller, const KfdQueue *q, const HsaQueue *queue, uint64_t index, size_t function) {
        bool in_memory = q && !atomic_load(&q->intercepted);
        typeof(&hsa_queue_store_write_index_relaxed) set = NULL;
        KfdRuntime spare;

        if (!in_memory || !in_signal_handler()) {
                const KfdRuntime *next = kfd_runtime(caller, &spare);
                memcpy(&set, (const char *) next + function, sizeof(set));
        }
        if (set)
                set(queue, index);
        else if (in_memory)
                __atomic_store_n((uint64_t *) (uintptr_t) &q->aql->write_index, index, __ATOMIC_SEQ_CST);
}

#define SET(name)                                                                                                      \
        _public_                                                                                                       \
        void name(const HsaQueue *queue, uint64_t index) {                                                             \
                const KfdRuntime *next = kfd_runtime_known(__builtin_return_address(0));                               \
                KfdQueue *q = NULL;                                                                                    \
                                                                                                                       \
                meet(queue, &q);                                                                                       \
                begin_reserving(q);                                                                                    \
                thread.forwarded++;                                                                                    \
                if (likely(next && next->name))                                                                        \
                        next->name(queue, index);                                                                      \
                else                                                                                                   \
                        set_unknown(__builtin_return_address(0), q, queue, index, offsetof(KfdRuntime, name));         \
                thread.forwarded--;                                                                                    \
                end_reserving(q);                                                                                      \
        }

HSA_INDEX_STORES(SET)

/* Adopts a queue whose creation was seen neither at the kernel's driver nor at hsa_queue_create() (kfd-tool.c). */
static _noinline_ void adopt_slow(const HsaQueue *queue, KfdHsaFindNode *find_node, const void *userdata) {
        uint32_t node;
        PROTECT_ERRNO;

        if (!in_signal_handler() && find_node(userdata, queue, &node))
                kfd_queue_adopt(node, queue);
}

uint64_t kfd_hsa_reserve(const HsaQueue *queue, uint64_t n, typeof(&hsa_queue_add_write_index_relaxed) next,
                KfdHsaFindNode *find_node, const void *userdata) {
        KfdQueue *q = NULL;

        if (thread.forwarded == 0 && unlikely(!kfd_doorbell_look((uintptr_t) queue, &q))) {
                adopt_slow(queue, find_node, userdata);
                meet(queue, &q);
        }
        begin_reserving(q);
        uint64_t index = next(queue, n);
        end_reserving(q);
        return index;
}

/* --- the runtime's callbacks --- */

/* A callback of the program, as the runtime is given it. The thread that calls one is the runtime's own. The same
 * thread also makes callbacks that the layer does not see, when a queue or memory fails. So from its first call on, it
 * never waits at a gate. */
typedef struct Closure {
        union {
                HsaHandler *handler;
                HsaFunction *function;
        };
        void *arg;
} Closure;

static bool call_handler(int64_t value, void *userdata) {
        Closure *c = userdata;

        thread.is_runtimes = true;
        bool again = c->handler(value, c->arg);
        if (!again)
                free(c);
        return again;
}

int kfd_hsa_async_handler(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg,
                typeof(&hsa_amd_signal_async_handler) next) {
        Closure *c = handler && thread.forwarded == 0 ? malloc(sizeof(Closure)) : NULL;
        if (!c)
                return next(signal, condition, value, handler, arg);

        *c = (Closure){.handler = handler, .arg = arg};
        thread.forwarded++;
        int r = next(signal, condition, value, call_handler, c);
        thread.forwarded--;
        if (r != HSA_SUCCESS)
                free(c);
        return r;
}

_public_
int hsa_amd_signal_async_handler(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg) {
        const void *caller = __builtin_return_address(0);
        KfdRuntime spare;
        typeof(&hsa_amd_signal_async_handler) next =
                        (kfd_runtime_known(caller) ?: kfd_runtime(caller, &spare))->hsa_amd_signal_async_handler;

        return next ? kfd_hsa_async_handler(signal, condition, value, handler, arg, next) : HSA_ERROR;
}

static void call_function(void *userdata) {
        Closure c = *(Closure *) userdata;

        thread.is_runtimes = true;
        free(userdata);
        c.function(c.arg);
}

int kfd_hsa_async_function(HsaFunction *function, void *arg, typeof(&hsa_amd_async_function) next) {
        Closure *c = function && thread.forwarded == 0 ? malloc(sizeof(Closure)) : NULL;
        if (!c)
                return next(function, arg);

        *c = (Closure){.function = function, .arg = arg};
        thread.forwarded++;
        int r = next(call_function, c);
        thread.forwarded--;
        if (r != HSA_SUCCESS)
                free(c);
        return r;
}

_public_
int hsa_amd_async_function(HsaFunction *function, void *arg) {
        const void *caller = __builtin_return_address(0);
        KfdRuntime spare;
        typeof(&hsa_amd_async_function) next =
                        (kfd_runtime_known(caller) ?: kfd_runtime(caller, &spare))->hsa_amd_async_function;

        return next ? kfd_hsa_async_function(function, arg, next) : HSA_ERROR;
}
