/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A queue error: a kernel faults, the device stops the queue and tells the runtime, and the runtime takes the queue off
 * the device and calls the program's error callback
 *
 * That comes while the queue runs, while it is held, and while it is being held and released. The program has to hear
 * of it once, the queue is not to come back, nothing of it may count as running for ever, and other queues go on. A
 * module as test-shim-hsa.c is, under the same runtime.
 */

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "aql.h"
#include "hsa-queue.h"
#include "include/xsched/xsched.h"
#include "kfdsim.h"
#include "tests/lib/bus-cases.h"
#include "tests/lib/fake-scheduler.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)
#define PLACES    64U
#define SLOTS_MAX 128U
#define ROUNDS    20U
#define BAD_GRID  2 /* "invalid dimensions", in the words of the inactive signal */

typedef struct Tested {
        hsa_queue_t *queue;
        AqlProof *proof;
        uint64_t n_dispatched;
        uint32_t slot;
        _Atomic unsigned n_errors;
        _Atomic int status;
} Tested;

static FakeScheduler *s;
static FakeClient *client;
static const AqlKernel good = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 100 * NSEC_PER_USEC},
                       bad = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 100 * NSEC_PER_USEC, .fault = BAD_GRID},
                       bad_and_long = {
                                       .magic = AQL_KERNEL_MAGIC,
                                       .duration_ns = 50 * NSEC_PER_MSEC,
                                       .fault = BAD_GRID,
};

static void on_error(int status, void *queue, void *userdata) {
        Tested *t = userdata;

        CHECK(queue == t->queue);
        atomic_store(&t->status, status);
        atomic_fetch_add(&t->n_errors, 1);
}

static void dispatch(Tested *t, const AqlKernel *kernel) {
        uint64_t index = hsa_queue_add_write_index_relaxed(t->queue, 1);
        AqlPacket *p = (AqlPacket *) t->queue->base_address + index % t->queue->size;

        p->setup = 1;
        p->dispatch.workgroup[0] = p->dispatch.workgroup[1] = p->dispatch.workgroup[2] = 1;
        p->dispatch.grid[0] = p->dispatch.grid[1] = p->dispatch.grid[2] = 1;
        p->dispatch.kernel_object = (uintptr_t) kernel;
        p->dispatch.kernarg = (uintptr_t) t->proof;
        p->dispatch.reserved2 = index + 1;
        p->completion_signal = 0;
        t->n_dispatched += !kernel->fault;
        __atomic_store_n(&p->header, AQL_DISPATCH, __ATOMIC_RELEASE);
        hsa_signal_store_screlease(t->queue->doorbell_signal, (int64_t) index);
}

static bool is_done(const Tested *t) {
        return __atomic_load_n(&t->proof->n_executed, __ATOMIC_ACQUIRE) == t->n_dispatched;
}

static PageSlot *slot(uint32_t i) {
        return fake_slot(client->f, i);
}

static bool is_idle(const Tested *t) {
        return atomic_load(&slot(t->slot)->outstanding) == 0;
}

/* Counts this process's queues that are in this state. */
static unsigned count(bool (*is)(const KfdsimQueue *q)) {
        unsigned n = 0;
        KfdsimQueue q;

        for (uint32_t id = 0; id < SLOTS_MAX; id++)
                n += kfdsim_queue(id, &q) && is(&q);
        return n;
}

static bool is_any(const KfdsimQueue *q) {
        return true;
}

static bool has_stalled(const KfdsimQueue *q) {
        return q->stalled;
}

static bool is_stopped(const KfdsimQueue *q) {
        return q->percentage == 0;
}

static uint64_t n_registered(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c.queues;
}

static uint32_t grown(const uint64_t *before, uint32_t n) {
        uint32_t i = 0;

        while (i < n && atomic_load(&slot(i)->submitted) <= before[i])
                i++;
        return i;
}

/* Makes a queue, and finds its slot by what a dispatch adds to. */
static void make(Tested *t) {
        uint64_t before[SLOTS_MAX];

        *t = (Tested){.proof = calloc(1, sizeof(AqlProof) + PLACES), .slot = SLOTS_MAX};
        CHECK(t->proof);
        t->proof->capacity = PLACES;
        t->queue = hsa_queue_make_with(PLACES, on_error, t);
        /* The runtime may make one of its own, too. */
        CHECK(scheduler_until(s, client->n_queues == count(is_any) && n_registered() == client->n_queues));
        uint32_t n_slots = client->n_queues + client->n_gone;
        CHECK(n_slots <= SLOTS_MAX);
        for (uint32_t i = 0; i < n_slots; i++) {
                (void) page_slot_set_watch(slot(i), WATCH_ALL);
                before[i] = atomic_load(&slot(i)->submitted);
        }
        fake_client_nudge(client);
        dispatch(t, &good);
        CHECK(poll_until(is_done(t)));
        CHECK(scheduler_until(s, (t->slot = grown(before, n_slots)) < n_slots));
        CHECK(poll_until(is_idle(t)));
}

static void end(Tested *t) {
        unsigned n = client->n_gone;

        CHECK(hsa_queue_destroy(t->queue) == HSA_STATUS_SUCCESS);
        CHECK(scheduler_until(s, client->n_gone > n));
        free(t->proof);
}

static void start(Tested *t, Tested *other) {
        s = fake_scheduler_new(bus.address);
        fake_scheduler_own(s);
        client = s->clients;
        CHECK(hsa_init() == HSA_STATUS_SUCCESS);
        make(t);
        make(other);
}

static bool is_applied(const Tested *t) {
        return atomic_load(&slot(t->slot)->applied) == atomic_load(&slot(t->slot)->verdict);
}

static void order(const Tested *t, bool held) {
        atomic_store(&slot(t->slot)->level, LEVEL_INTERRUPT);
        if (held)
                fake_hold(client->f, t->slot, NSEC_INFINITY);
        else
                fake_run(client->f, t->slot);
        fake_client_nudge(client);
}

static void verdict(const Tested *t, bool held) {
        order(t, held);
        CHECK(poll_until(is_applied(t)));
}

static void *dispatch_good(void *t) {
        dispatch(t, &good);
        return NULL;
}

/* The program has heard of the error, once, and the service of the end of what was in flight. */
static void expect_end(Tested *t, Tested *other) {
        CHECK(poll_until(atomic_load(&t->n_errors) == 1));
        CHECK(atomic_load(&t->status) == HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
        CHECK(poll_until(is_idle(t)));

        /* The other queue is held and let go as ever. */
        pthread_t thread;
        verdict(other, true);
        CHECK(pthread_create(&thread, NULL, dispatch_good, other) == 0);
        CHECK(poll_until(atomic_load(&slot(other->slot)->waiters) == 1));
        verdict(other, false);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(poll_until(is_done(other) && is_idle(other)));
        CHECK(atomic_load(&t->n_errors) == 1 && is_idle(t));
}

/* --- cases --- */

static void case_running(void) {
        Tested t, other;

        start(&t, &other);
        dispatch(&t, &good);
        dispatch(&t, &bad);
        expect_end(&t, &other);
        CHECK(is_done(&t));

        /* What a program launches after that does not run, and is not waited for. */
        (void) fake_take_edge(client->f, t.slot);
        dispatch(&t, &good);
        CHECK(fake_take_edge(client->f, t.slot));
        CHECK(poll_until(is_idle(&t)));
        CHECK(count(is_stopped) == 1);
        verdict(&t, true);
        verdict(&t, false);
        CHECK(count(is_stopped) == 1 && atomic_load(&t.n_errors) == 1);
        end(&t);
        end(&other);
}

/* The kernel is under way when the queue is held, and faults when it is let go. */
static void case_held(void) {
        Tested t, other;

        start(&t, &other);
        dispatch(&t, &bad_and_long);
        dispatch(&t, &good);
        verdict(&t, true);
        CHECK(atomic_load(&t.n_errors) == 0 && !is_idle(&t));
        verdict(&t, false);
        expect_end(&t, &other);
        end(&t);
        end(&other);
}

static sem_t entered, left;

static bool keep_busy(hsa_signal_value_t value, void *userdata) {
        (void) sem_post(&entered);
        while (sem_wait(&left) < 0)
                ;
        return false;
}

/* The runtime hears of the error when the queue is held already: its thread was busy. */
static void case_told_while_held(void) {
        Tested t, other;
        hsa_signal_t signal;

        start(&t, &other);
        CHECK(sem_init(&entered, 0, 0) == 0 && sem_init(&left, 0, 0) == 0);
        CHECK(hsa_signal_create(1, 0, NULL, &signal) == HSA_STATUS_SUCCESS);
        CHECK(hsa_amd_signal_async_handler(signal, HSA_SIGNAL_CONDITION_EQ, 0, keep_busy, NULL) == HSA_STATUS_SUCCESS);
        hsa_signal_store_screlease(signal, 0);
        while (sem_wait(&entered) < 0)
                ;
        dispatch(&t, &bad);
        CHECK(poll_until(count(has_stalled) == 1));
        verdict(&t, true);
        CHECK(count(is_stopped) == 1 && atomic_load(&t.n_errors) == 0);

        (void) sem_post(&left);
        CHECK(poll_until(atomic_load(&t.n_errors) == 1));
        CHECK(poll_until(is_idle(&t)));
        verdict(&t, false); /* and yet it is not back */
        CHECK(count(is_stopped) == 1);
        expect_end(&t, &other);
        CHECK(hsa_signal_destroy(signal) == HSA_STATUS_SUCCESS);
        end(&t);
        end(&other);
}

/* --- memory --- */

static const AqlKernel wild = {
                .magic = AQL_KERNEL_MAGIC,
                .duration_ns = 5 * NSEC_PER_MSEC,
                .fault = AQL_FAULT_MEMORY,
};

static _Atomic unsigned n_memory_faults;

static hsa_status_t on_event(const hsa_amd_event_t *event, void *userdata) {
        CHECK(event->event_type == HSA_AMD_GPU_MEMORY_FAULT_EVENT);
        CHECK(event->memory_fault.virtual_address == AQL_FAULT_ADDRESS);
        atomic_fetch_add(&n_memory_faults, 1);
        return HSA_STATUS_SUCCESS; /* and the process goes on */
}

/* A kernel uses an address that is not mapped, and the program wants to be told of that. The driver has all queues of
 * the process off the GPU: none counts as running, or waits for one that does. */
static void case_memory(void) {
        Tested t, other;

        start(&t, &other);
        CHECK(hsa_amd_register_system_event_handler(on_event, NULL) == HSA_STATUS_SUCCESS);
        dispatch(&t, &wild);
        dispatch(&other, &bad_and_long);
        CHECK(poll_until(atomic_load(&n_memory_faults) == 1));
        CHECK(poll_until(is_idle(&t) && is_idle(&other)));

        dispatch(&other, &good);
        CHECK(poll_until(is_idle(&other)));
        verdict(&t, true);
        verdict(&other, true);
        verdict(&other, false);
        verdict(&t, false);
        CHECK(poll_until(is_idle(&t) && is_idle(&other)));
        CHECK(atomic_load(&n_memory_faults) == 1 && atomic_load(&t.n_errors) == 0);
        end(&t);
        end(&other);
}

/* Nobody wants to be told: the runtime ends the process by itself, held or not, and nothing of ours makes it wait. */
static void case_memory_aborts(void) {
        for (unsigned held = 0; held < 2; held++) {
                int status;
                pid_t child = fork();

                CHECK(child >= 0);
                if (child == 0) {
                        Tested t, other;
                        (void) alarm(60);
                        start(&t, &other);
                        dispatch(&t, &wild);
                        if (held)
                                order(&other, true);
                        for (;;)
                                (void) pause();
                }
                CHECK(waitpid(child, &status, 0) == child);
                CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        }
}

static _Atomic bool ends;

static void *move(void *userdata) {
        const Tested *t = userdata;

        for (bool held = true; !atomic_load(&ends); held = !held) {
                order(t, held);
                while (!is_applied(t) && !atomic_load(&ends))
                        ;
        }
        return NULL;
}

/* It faults at any moment of holds and releases. */
static void case_moved(void) {
        Tested t, other;
        pthread_t thread;

        start(&t, &other);
        end(&t);
        for (unsigned i = 0; i < ROUNDS; i++) {
                make(&t);
                atomic_store(&ends, false);
                CHECK(pthread_create(&thread, NULL, move, &t) == 0);
                const AqlKernel kernel = {
                                .magic = AQL_KERNEL_MAGIC,
                                .duration_ns = 1 + i * (20 * NSEC_PER_USEC),
                                .fault = BAD_GRID,
                };
                dispatch(&t, &good);
                dispatch(&t, &kernel);
                CHECK(poll_until(atomic_load(&t.n_errors) > 0));
                atomic_store(&ends, true);
                CHECK(pthread_join(thread, NULL) == 0);
                verdict(&t, false);
                expect_end(&t, &other);
                end(&t);
        }
        end(&other);
}

int test_main(int argc, char *argv[]);

/* argv[1] is this module. */
_public_
int test_main(int argc, char *argv[]) {
        static const BusCase cases[] = {CASE(running), CASE(held), CASE(told_while_held), CASE(memory),
                        CASE(memory_aborts), CASE(moved)};
        const char *self[] = {argv[0], argv[1], NULL};

        return bus_cases_run(cases, ELEMENTSOF(cases), self, argc > 2 ? argv[2] : NULL);
}
