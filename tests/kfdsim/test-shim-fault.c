/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A queue error: a kernel faults, the device stops the queue and tells the runtime, and the runtime takes the queue off
 * the device and calls the program's error callback
 *
 * That comes while the queue runs, while it is held, and while it is being held and released. The program has to hear
 * of it once, the queue is not to come back, nothing of it may count as running for ever, and other queues go on. And
 * faults of memory, after which the driver has taken all queues of the process off the GPU.
 */

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

#include "abi.h"
#include "tested-queue.h"

#define ROUNDS   20U
#define BAD_GRID 2 /* "invalid dimensions", in the words of the inactive signal */

static AqlKernel bad = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 100 * NSEC_PER_USEC},
                 bad_and_long = {.magic = AQL_KERNEL_MAGIC, .duration_ns = 50 * NSEC_PER_MSEC};
static int bad_status;

/* The driver tells a runtime that wants to know of an exception by the payload and the event that the queue's save area
 * names. Otherwise the device writes into the queue's inactive signal. */
static void choose_fault(void) {
        bool by_exception = runtime_is_new();

        bad.fault = bad_and_long.fault =
                        by_exception ? AQL_FAULT_EXCEPTION(KFD_EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION) : BAD_GRID;
        bad_status = by_exception ? HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION : HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
}

static bool has_stalled(const KfdsimQueue *q) {
        return q->stalled;
}

static void *dispatch_good(void *t) {
        tested_dispatch(t, &tested_good);
        return NULL;
}

/* The program has heard of the error, once, and the service of the end of what was in flight. */
static void expect_end(Tested *t, Tested *other) {
        CHECK(poll_until(atomic_load(&t->n_errors) == 1));
        CHECK(atomic_load(&t->status) == bad_status);
        CHECK(poll_until(tested_is_idle(t)));

        /* The other queue is held and let go as ever. */
        pthread_t thread;
        tested_verdict(other, true);
        CHECK(pthread_create(&thread, NULL, dispatch_good, other) == 0);
        CHECK(poll_until(atomic_load(&tested_slot(other->slot)->waiters) == 1));
        tested_verdict(other, false);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(poll_until(tested_is_done(other) && tested_is_idle(other)));
        CHECK(atomic_load(&t->n_errors) == 1 && tested_is_idle(t));
}

/* --- cases --- */

static void case_running(void) {
        Tested t, other;

        tested_start(&t, &other);
        tested_dispatch(&t, &tested_good);
        tested_dispatch(&t, &bad);
        expect_end(&t, &other);
        CHECK(tested_is_done(&t));

        /* What a program launches after that does not run, and is not waited for. */
        (void) fake_take_edge(tested_client->f, t.slot);
        tested_dispatch(&t, &tested_good);
        CHECK(fake_take_edge(tested_client->f, t.slot));
        CHECK(poll_until(tested_is_idle(&t)));
        CHECK(count_queues(queue_is_stopped) == 1);
        tested_verdict(&t, true);
        tested_verdict(&t, false);
        CHECK(count_queues(queue_is_stopped) == 1 && atomic_load(&t.n_errors) == 1);
        tested_end(&t);
        tested_end(&other);
}

/* The kernel is under way when the queue is held, and faults when it is let go. */
static void case_held(void) {
        Tested t, other;

        tested_start(&t, &other);
        tested_dispatch(&t, &bad_and_long);
        tested_dispatch(&t, &tested_good);
        tested_verdict(&t, true);
        CHECK(atomic_load(&t.n_errors) == 0 && !tested_is_idle(&t));
        tested_verdict(&t, false);
        expect_end(&t, &other);
        tested_end(&t);
        tested_end(&other);
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

        tested_start(&t, &other);
        CHECK(sem_init(&entered, 0, 0) == 0 && sem_init(&left, 0, 0) == 0);
        CHECK(hsa_signal_create(1, 0, NULL, &signal) == HSA_STATUS_SUCCESS);
        CHECK(hsa_amd_signal_async_handler(signal, HSA_SIGNAL_CONDITION_EQ, 0, keep_busy, NULL) == HSA_STATUS_SUCCESS);
        hsa_signal_store_screlease(signal, 0);
        while (sem_wait(&entered) < 0)
                ;
        tested_dispatch(&t, &bad);
        CHECK(poll_until(count_queues(has_stalled) == 1));
        tested_verdict(&t, true);
        CHECK(count_queues(queue_is_stopped) == 1 && atomic_load(&t.n_errors) == 0);

        (void) sem_post(&left);
        CHECK(poll_until(atomic_load(&t.n_errors) == 1));
        CHECK(poll_until(tested_is_idle(&t)));
        tested_verdict(&t, false); /* and yet it is not back */
        CHECK(count_queues(queue_is_stopped) == 1);
        expect_end(&t, &other);
        CHECK(hsa_signal_destroy(signal) == HSA_STATUS_SUCCESS);
        tested_end(&t);
        tested_end(&other);
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

        tested_start(&t, &other);
        CHECK(hsa_amd_register_system_event_handler(on_event, NULL) == HSA_STATUS_SUCCESS);
        tested_dispatch(&t, &wild);
        tested_dispatch(&other, &bad_and_long);
        CHECK(poll_until(atomic_load(&n_memory_faults) == 1));
        CHECK(poll_until(tested_is_idle(&t) && tested_is_idle(&other)));

        tested_dispatch(&other, &tested_good);
        CHECK(poll_until(tested_is_idle(&other)));
        tested_verdict(&t, true);
        tested_verdict(&other, true);
        tested_verdict(&other, false);
        tested_verdict(&t, false);
        CHECK(poll_until(tested_is_idle(&t) && tested_is_idle(&other)));
        CHECK(atomic_load(&n_memory_faults) == 1 && atomic_load(&t.n_errors) == 0);
        tested_end(&t);
        tested_end(&other);
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
                        tested_start(&t, &other);
                        tested_dispatch(&t, &wild);
                        if (held)
                                tested_order(&other, true);
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
                tested_order(t, held);
                while (!tested_is_applied(t) && !atomic_load(&ends))
                        ;
        }
        return NULL;
}

/* It faults at any moment of holds and releases. */
static void case_moved(void) {
        Tested t, other;
        pthread_t thread;

        tested_start(&t, &other);
        tested_end(&t);
        for (unsigned i = 0; i < ROUNDS; i++) {
                tested_make(&t);
                atomic_store(&ends, false);
                CHECK(pthread_create(&thread, NULL, move, &t) == 0);
                const AqlKernel kernel = {
                                .magic = AQL_KERNEL_MAGIC,
                                .duration_ns = 1 + i * (20 * NSEC_PER_USEC),
                                .fault = bad.fault,
                };
                tested_dispatch(&t, &tested_good);
                tested_dispatch(&t, &kernel);
                CHECK(poll_until(atomic_load(&t.n_errors) > 0));
                atomic_store(&ends, true);
                CHECK(pthread_join(thread, NULL) == 0);
                tested_verdict(&t, false);
                expect_end(&t, &other);
                tested_end(&t);
        }
        tested_end(&other);
}

int test_main(int argc, char *argv[]);

/* argv[1] is this module. */
_public_
int test_main(int argc, char *argv[]) {
        static const BusCase cases[] = {CASE(running), CASE(held), CASE(told_while_held), CASE(memory),
                        CASE(memory_aborts), CASE(moved)};
        const char *self[] = {argv[0], argv[1], NULL};

        choose_fault();
        return bus_cases_run(cases, ELEMENTSOF(cases), self, argc > 2 ? argv[2] : NULL);
}
