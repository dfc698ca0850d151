/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer under Debian's own HSA runtime: doorbells are found, counted, and wait at the gate
 *
 * A module, loaded privately by load-local together with the runtime that it is linked to. To be run with
 * libxsched-kfd.so and libkfdsim.so preloaded; the service does what the test says.
 */

#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <pthread.h>
#include <signal.h>

#include "aql.h"
#include "hsa-queue.h"
#include "include/xsched/xsched.h"
#include "kfdsim.h"
#include "tests/lib/bus-cases.h"
#include "tests/lib/fake-scheduler.h"
#include "tests/lib/threads.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)
#define PROOF_MAX 4096U
#define POLLER    "xsched-kfd"

static FakeScheduler *s;
static FakeClient *client;
static hsa_queue_t *queue;
static AqlKernel kernel = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 300 * NSEC_PER_USEC};
static AqlProof *proof;
static uint64_t n_dispatched;

static XschedCounters counters(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c;
}

/* With HSA_BY_HANDLE the functions are looked up by dlsym() on the runtime's handle, past the preloaded layer. */
static struct {
        typeof(&hsa_signal_store_relaxed) store_relaxed, store_screlease, store_release, silent;
        typeof(&hsa_queue_add_write_index_relaxed) add;
        typeof(&hsa_amd_signal_async_handler) async_handler;
        typeof(&hsa_amd_async_function) async_function;
} calls;

static void find_calls(void) {
        bool by_handle = getenv("HSA_BY_HANDLE");
        void *handle = by_handle ? dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;

        CHECK(!by_handle || handle);
#define FIND(member, name)                                                                                             \
        calls.member = by_handle ? (typeof(calls.member)) (uintptr_t) dlsym(handle, #name) : name;                     \
        CHECK(calls.member)
        FIND(store_relaxed, hsa_signal_store_relaxed);
        FIND(store_screlease, hsa_signal_store_screlease);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        FIND(store_release, hsa_signal_store_release); /* an old name of the second */
#pragma GCC diagnostic pop
        FIND(silent, hsa_signal_silent_store_screlease);
        FIND(add, hsa_queue_add_write_index_relaxed);
        FIND(async_handler, hsa_amd_signal_async_handler);
        FIND(async_function, hsa_amd_async_function);
}

static void (*store)(hsa_signal_t, hsa_signal_value_t);

/* A thread that reuses a place of the ring comes after the thread that had it before, because the device is in between;
 * the thread sanitizer does not see that. */
#define PLACES 256U
static _Atomic uint64_t places[PLACES];

/* The packet's number goes by its index, as its execution does. */
static void dispatch_at(uint64_t index) {
        (void) atomic_load(&places[index % PLACES]);
        AqlPacket *p = (AqlPacket *) queue->base_address + index % queue->size;

        p->setup = 1;
        p->dispatch.workgroup[0] = p->dispatch.workgroup[1] = p->dispatch.workgroup[2] = 1;
        p->dispatch.grid[0] = p->dispatch.grid[1] = p->dispatch.grid[2] = 1;
        p->dispatch.kernel_object = (uintptr_t) &kernel;
        p->dispatch.kernarg = (uintptr_t) proof;
        p->dispatch.reserved2 = index + 1;
        proof->seen[(index + 1) % PROOF_MAX] = 0;
        (void) __atomic_add_fetch(&n_dispatched, 1, __ATOMIC_SEQ_CST);
        p->completion_signal = 0;
        __atomic_store_n(&p->header, AQL_DISPATCH, __ATOMIC_RELEASE);
        atomic_store(&places[index % PLACES], index);
        /* NOLINTNEXTLINE(bugprone-signal-handler) */
        store(queue->doorbell_signal, (int64_t) index);
}

/* From a signal handler, too: ROCr's stores are atomic, and that a launch there works is what is tested. */
static void dispatch(void) {
        /* NOLINTNEXTLINE(bugprone-signal-handler) */
        dispatch_at(calls.add(queue, 1));
}

static bool is_done(void) {
        return __atomic_load_n(&proof->n_executed, __ATOMIC_ACQUIRE) ==
                        __atomic_load_n(&n_dispatched, __ATOMIC_SEQ_CST);
}

static void finish(void) {
        CHECK(poll_until(is_done()));
        CHECK(proof->n_doubled == 0 && proof->n_late == 0);
}

static uint32_t our_slot;

static PageSlot *slot(void) {
        return fake_slot(client->f, our_slot);
}

/* Each queue counts one launch that may have been there before it was known. */
static bool find_slot(uint64_t submitted) {
        for (our_slot = 0; s->n_clients > 0 && our_slot < 16; our_slot++)
                if (atomic_load(&slot()->submitted) == submitted)
                        return true;
        return false;
}

static void start_queue(void) {
        find_calls();
        store = calls.store_screlease;
        s = fake_scheduler_new(bus.address);
        fake_scheduler_own(s);
        client = s->clients;
        proof = calloc(1, sizeof(AqlProof) + PROOF_MAX);
        CHECK(proof);
        proof->capacity = PROOF_MAX;
        queue = hsa_queue_make(PLACES);
}

static void start(void) {
        start_queue();
        /* The runtime has queues of its own, too: ours is the one whose doorbell passes. */
        dispatch();
        finish();
        CHECK(scheduler_until(s, find_slot(2)));
}

static void watch(void) {
        (void) page_slot_set_watch(slot(), WATCH_ALL);
        fake_client_nudge(client);
        CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
}

static void start_watched(void) {
        start();
        watch();
}

/* --- cases --- */

#define LAUNCHER "launcher"

static void *dispatch_thread(void *unused) {
        CHECK(pthread_setname_np(pthread_self(), LAUNCHER) == 0);
        dispatch();
        return NULL;
}

static void hold(void) {
        atomic_store(&slot()->level, LEVEL_GATE);
        fake_hold(client->f, our_slot, NSEC_INFINITY);
}

/* Without contention launches pass, and none is tracked. */
static void case_open(void) {
        start();
        for (int i = 0; i < 20; i++)
                dispatch();
        finish();
        CHECK(atomic_load(&slot()->submitted) == 22);
        CHECK(counters().tracked == 0);
        CHECK(hsa_queue_destroy(queue) == HSA_STATUS_SUCCESS);
        CHECK(scheduler_until(s, client->n_gone == 1));
}

/* While the service does not watch, the layer does not look. Where doorbells bypass the layer, it looks only while
 * launches are outstanding. */
static void case_polling(void) {
        start();
        /* The kernel says that a thread sleeps a moment before it counts the sleep. */
        CHECK(poll_until(thread_is_asleep(POLLER) && thread_sleeps(POLLER) > 0));
        uint64_t before = thread_sleeps(POLLER);
        for (int i = 0; i < 100; i++)
                dispatch();
        finish();
        CHECK(thread_sleeps(POLLER) <= before + 3);

        watch();
        CHECK(poll_until(thread_is_asleep(POLLER)));
        hold();
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, dispatch_thread, NULL) == 0);
        CHECK(poll_until(atomic_load(&slot()->waiters) == 1));
        fake_run(client->f, our_slot);
        CHECK(pthread_join(thread, NULL) == 0);
        before = thread_sleeps(POLLER);
        kernel.duration_ns = 500 * NSEC_PER_MSEC; /* a busy machine keeps threads from running for most of 100 */
        dispatch();
        CHECK(poll_until(thread_sleeps(POLLER) > before + 10));
        finish();
        CHECK(poll_until(thread_is_asleep(POLLER)));
}

/* Each function that rings makes the edge, counts, and passes the gate. */
static void case_stores(void) {
        pthread_t thread;
        start_watched();
        void (*const stores[])(hsa_signal_t, hsa_signal_value_t) = {
                        calls.store_relaxed, calls.store_screlease, calls.store_release, calls.silent};

        for (size_t i = 0; i < ELEMENTSOF(stores); i++) {
                store = stores[i];
                uint64_t completed = atomic_load(&slot()->completed);
                (void) fake_take_edge(client->f, our_slot);
                dispatch();
                CHECK(fake_take_edge(client->f, our_slot));
                CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
                CHECK(is_done() && atomic_load(&slot()->completed) == completed + 1);

                hold();
                CHECK(pthread_create(&thread, NULL, dispatch_thread, NULL) == 0);
                CHECK(poll_until(atomic_load(&slot()->waiters) == 1));
                CHECK(!is_done());
                fake_run(client->f, our_slot);
                CHECK(pthread_join(thread, NULL) == 0);
                finish();
                CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
        }
}

static void case_edges(void) {
        start();
        dispatch();
        watch();
        finish();
        (void) fake_take_edge(client->f, our_slot);
        for (int i = 0; i < 10; i++) {
                uint64_t completed = atomic_load(&slot()->completed);
                dispatch();
                CHECK(fake_take_edge(client->f, our_slot)); /* by the doorbell, not by looking */
                dispatch();
                CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
                CHECK(is_done() && atomic_load(&slot()->completed) == completed + 2);
        }
        finish();
        CHECK(atomic_load(&slot()->mean_ns) >= kernel.duration_ns / 2);
}

static void case_gate(void) {
        pthread_t threads[4];
        start_watched();
        hold();
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_create(threads + i, NULL, dispatch_thread, NULL) == 0);
        CHECK(poll_until(atomic_load(&slot()->waiters) == ELEMENTSOF(threads) &&
                        threads_asleep(LAUNCHER) == ELEMENTSOF(threads)));
        CHECK(proof->n_executed == 1);
        fake_run(client->f, our_slot);
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_join(threads[i], NULL) == 0);
        /* The simulator's doorbell is a cell of memory: of stores at the same time it sees the last, which is not
         * always the highest. */
        hsa_signal_store_screlease(queue->doorbell_signal, (int64_t) hsa_queue_load_write_index_relaxed(queue) - 1);
        finish();
        CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
        CHECK(counters().waited == ELEMENTSOF(threads));
}

static void start_held(void) {
        start_watched();
        hold();
}

static void finish_at_once(void) {
        CHECK(poll_until(__atomic_load_n(&n_dispatched, __ATOMIC_SEQ_CST) == 2));
        finish();
        CHECK(counters().waited == 0);
}

static void on_signal(int unused) {
        dispatch();
}

static void case_signal_handler(void) {
        start_held();
        CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
        CHECK(raise(SIGUSR1) == 0); /* returns */
        finish_at_once();
}

static _Atomic bool handled;

static void on_signal_at_gate(int unused) {
        dispatch();
        atomic_store(&handled, true);
}

/* Recursion: a thread that waits at the gate launches from a handler. That passes, uncounted, and the thread goes on
 * waiting. */
static void case_handler_at_gate(void) {
        pthread_t thread;
        start_watched();
        CHECK(signal(SIGUSR1, on_signal_at_gate) != SIG_ERR);
        hold();
        uint64_t submitted = atomic_load(&slot()->submitted);
        CHECK(pthread_create(&thread, NULL, dispatch_thread, NULL) == 0);
        CHECK(poll_until(atomic_load(&slot()->waiters) == 1));
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        CHECK(poll_until(atomic_load(&handled)));
        finish(); /* the later doorbell announces the earlier packet, too */
        CHECK(poll_until(atomic_load(&slot()->waiters) == 1));
        fake_run(client->f, our_slot);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(atomic_load(&slot()->submitted) == submitted + 1);
        CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
}

static bool on_callback(hsa_signal_value_t value, void *userdata) {
        dispatch();
        return false;
}

static void on_function(void *userdata) {
        dispatch();
}

static void case_callback(void) {
        hsa_signal_t signal;
        start_held();
        CHECK(hsa_signal_create(1, 0, NULL, &signal) == HSA_STATUS_SUCCESS);
        CHECK(calls.async_handler(signal, HSA_SIGNAL_CONDITION_EQ, 0, on_callback, NULL) == HSA_STATUS_SUCCESS);
        hsa_signal_store_relaxed(signal, 0);
        finish_at_once();
}

static void case_function(void) {
        start_held();
        CHECK(calls.async_function(on_function, NULL) == HSA_STATUS_SUCCESS);
        finish_at_once();
}

/* Writes n packets that wait for a signal. */
static hsa_signal_t block(uint64_t n) {
        uint64_t index = calls.add(queue, n);
        hsa_signal_t signal;

        CHECK(hsa_signal_create(1, 0, NULL, &signal) == HSA_STATUS_SUCCESS);
        for (uint64_t i = index; i < index + n; i++) {
                AqlPacket *p = (AqlPacket *) queue->base_address + i % queue->size;
                memset(&p->barrier, 0, sizeof(p->barrier));
                p->barrier.dependency[0] = signal.handle;
                p->completion_signal = 0;
                __atomic_store_n(&p->header, AQL_BARRIER_AND, __ATOMIC_RELEASE);
                hsa_signal_store_screlease(queue->doorbell_signal, (int64_t) i);
        }
        return signal;
}

/* Packets that a profiler has not yet put into the queue may still run: the drain does not end before. */
static void case_drain_inside(void) {
        const char *tool = getenv("HSA_TOOL") ? getenv("HSA_TOOLS_LIB") : NULL;
        if (!tool)
                return; /* the layer is not in between */
        start();
        void *handle = dlopen(tool, RTLD_LAZY | RTLD_NOLOAD);
        CHECK(handle);
        _Atomic bool *stops = dlsym(handle, "hsa_tool_stops");
        _Atomic unsigned *inside = dlsym(handle, "hsa_tool_inside");
        CHECK(stops && inside);
        pthread_t thread;

        atomic_store(stops, true);
        CHECK(pthread_create(&thread, NULL, dispatch_thread, NULL) == 0);
        CHECK(poll_until(atomic_load(inside) == 1));
        (void) page_slot_set_watch(slot(), WATCH_ALL);
        fake_client_nudge(client);
        uint64_t before = thread_sleeps(POLLER);
        CHECK(poll_until(thread_sleeps(POLLER) > before + 20));
        CHECK(atomic_load(&slot()->outstanding) == 1); /* adopted, and not over */
        atomic_store(stops, false);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
        CHECK(is_done());
}

static void case_bound(void) {
        start_watched();
        atomic_store(&slot()->threshold, 3);
        for (int i = 0; i < 40; i++) {
                uint64_t begun = now_ns();
                dispatch();
                uint64_t write = hsa_queue_load_write_index_scacquire(queue);
                /* The bound may also have given way, because nothing moved for long. */
                CHECK(write - hsa_queue_load_read_index_scacquire(queue) <= 3 ||
                                now_ns() - begun >= 10 * NSEC_PER_MSEC);
        }
        finish();

        /* A barrier waits for a later launch of this same thread: the bound gives way. */
        hsa_signal_t signal = block(3);
        dispatch();
        hsa_signal_store_relaxed(signal, 0);
        finish();

        /* An empty queue has room at once: no launch waits for as long as the bound allows. */
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < 20; i++) {
                uint64_t begun = now_ns();
                dispatch();
                least = MIN(least, now_ns() - begun);
                finish();
        }
        CHECK(least < 10 * NSEC_PER_MSEC);
}

static void *dispatch_and_say(void *ret_done) {
        dispatch();
        atomic_store((_Atomic bool *) ret_done, true);
        return NULL;
}

/* Whether the launch that waited for room was seen to count while it waited; it gives up soon. */
static bool counts_in_front_of_the_bound(void) {
        _Atomic bool done = false;
        bool seen = false;
        pthread_t thread;

        hsa_signal_t signal = block(1);
        CHECK(pthread_create(&thread, NULL, dispatch_and_say, &done) == 0);
        while (!atomic_load(&done) && !seen)
                seen = atomic_load(&slot()->waiters) == 1 && fake_counted(client->f, our_slot) == 2;
        hsa_signal_store_relaxed(signal, 0);
        CHECK(pthread_join(thread, NULL) == 0);
        finish();
        CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
        return seen;
}

static void case_room(void) {
        start_watched();
        atomic_store(&slot()->threshold, 1);
        CHECK(poll_until(counts_in_front_of_the_bound()));
}

/* --- releases --- */

#define THREADS_MAX   8U
#define SUSPENSIONS   60U
#define SLOTS_MAX     16U
#define NAP_NS_MAX    (100U * NSEC_PER_USEC)
#define WAIT_FOR_ROOM 20U /* us */

/* Limit of packets in flight, by known executions. A profiler's proxy takes packets off its own ring at once, and
 * Debian 12's ends the process when the real ring has no room for them. */
#define IN_FLIGHT_MAX (PLACES / 4)

static bool has_room(void) {
        return __atomic_load_n(&n_dispatched, __ATOMIC_SEQ_CST) -
                        __atomic_load_n(&proof->n_executed, __ATOMIC_ACQUIRE) <
                        IN_FLIGHT_MAX;
}

static _Atomic bool ends;

/* Between taking an index and writing the packet other threads, and the service, have time. */
static void *dispatch_slowly(void *seed) {
        uint64_t random = (uintptr_t) seed;

        while (!atomic_load(&ends)) {
                while (!has_room())
                        (void) usleep(WAIT_FOR_ROOM);
                uint64_t index = calls.add(queue, 1);
                while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size)
                        (void) usleep(WAIT_FOR_ROOM);
                random = random * UINT64_C(6364136223846793005) + 1;
                struct timespec ts = ns_to_timespec((random >> 33) % NAP_NS_MAX);
                (void) nanosleep(&ts, NULL);
                dispatch_at(index);
        }
        return NULL;
}

static uint32_t n_made(void) {
        KfdsimQueue q;
        uint32_t n = 0;

        for (uint32_t id = 0; id < SLOTS_MAX; id++)
                n += kfdsim_queue(id, &q);
        return n;
}

/* Queues that were made and ended before, as those that a profiler replaces, have had slots, too. */
#define FOREACH_SEATED(i)                                                                                              \
        for (uint32_t i = 0; i < SLOTS_MAX; i++)                                                                       \
                if (client->seated & (UINT64_C(1) << i))

static void hold_in_driver(void) {
        FOREACH_SEATED(i) {
                atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                fake_hold(client->f, i, NSEC_INFINITY);
        }
        fake_client_nudge(client);
        FOREACH_SEATED(i) {
                const PageSlot *p = fake_slot(client->f, i);
                CHECK(poll_until(atomic_load(&p->applied) == atomic_load(&p->verdict)));
        }
}

/* The simulator ends a process that announces packets that no thread has written, and loses doorbells that were rung
 * while a queue was held. */
static void suspend_and_resume(void) {
        pthread_t threads[THREADS_MAX];
        start_queue();
        kernel.duration_ns = 20 * NSEC_PER_USEC;
        dispatch();
        finish();
        CHECK(scheduler_until(s, client->n_queues == n_made() && counters().queues == n_made()));
        for (uintptr_t i = 0; i < THREADS_MAX; i++)
                CHECK(pthread_create(threads + i, NULL, dispatch_slowly, (void *) (i + 1)) == 0);

        for (unsigned i = 0; i < SUSPENSIONS; i++) {
                uint64_t before = __atomic_load_n(&proof->n_executed, __ATOMIC_ACQUIRE);
                CHECK(poll_until(__atomic_load_n(&proof->n_executed, __ATOMIC_ACQUIRE) >= before + THREADS_MAX));
                hold_in_driver();
                FOREACH_SEATED(k)
                fake_run(client->f, k);
                fake_client_nudge(client);
        }
        atomic_store(&ends, true);
        for (unsigned i = 0; i < THREADS_MAX; i++)
                CHECK(pthread_join(threads[i], NULL) == 0);
        finish();
}

static void case_release(void) {
        suspend_and_resume();
}

/* Stores to the doorbell past every function, as with DEBUG_CLR_DIRECT_DOORBELL. */
static void store_directly(hsa_signal_t signal, hsa_signal_value_t value) {
        const uint64_t *words = (const uint64_t *) (uintptr_t) signal.handle;

        CHECK(words[0] == UINT64_MAX || words[0] == UINT64_MAX - 1); /* amd_signal_t: a doorbell's kind */
        __atomic_store_n((uint64_t *) (uintptr_t) words[1], (uint64_t) value, __ATOMIC_RELEASE);
}

static void case_release_unseen(void) {
        if (getenv("HSA_TOOL"))
                return; /* only the hardware reads its doorbell */
        store = store_directly;
        suspend_and_resume();
}

int test_main(int argc, char *argv[]);

/* argv[1] is this module. */
_public_
int test_main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(open),
                        CASE(polling),
                        CASE(stores),
                        CASE(edges),
                        CASE(gate),
                        CASE(signal_handler),
                        CASE(handler_at_gate),
                        CASE(callback),
                        CASE(function),
                        CASE(drain_inside),
                        CASE(bound),
                        CASE(room),
                        CASE(release),
                        CASE(release_unseen),
        };
        const char *self[] = {argv[0], argv[1], NULL};
        /* With these the runtime calls libc past the preloaded layer: a queue is known by the runtime's table alone,
         * and only has a gate. The last two cases, which take it off the device, are left out. */
        size_t n = ELEMENTSOF(cases) - (getenv("HSA_DEEPBIND") || getenv("HSA_NAMESPACE") ? 2 : 0);

        return bus_cases_run(cases, n, self, argc > 2 ? argv[2] : NULL);
}
