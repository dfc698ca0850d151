/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The conformance suite of HAL backends: holds that come from a service, by way of libxsched
 *
 * A worker has the queues, and is libxsched's client; the suite itself is the service. Held queues run again when the
 * service does not renew the lease, as when it is stopped, and when it is gone.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "unit.h"

#include "common/macro.h"
#include "common/time-util.h"
#include "hal-bench.h"
#include "include/xsched/xsched.h"
#include "tests/lib/deadline.h"
#include "tests/lib/fake-scheduler.h"
#include "tests/lib/private-bus.h"

#define QUEUES    2U
#define UNDER_WAY 2U /* of each queue */
#define WORK_NS   (100 * NSEC_PER_USEC)

/* --- the worker --- */

/* Calls of a backend are serialised, and nothing changes while time passes: the driver's run() waits for what is not
 * held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int apply(XschedQueue *const *unused, void *const *userdata, uint32_t n, int held) {
        HalQueue *batch[QUEUES];

        for (uint32_t i = 0; i < n; i++)
                batch[i] = userdata[i];
        (void) pthread_mutex_lock(&lock);
        int r = held ? driver->ops->hold(batch, n) : driver->ops->release(batch, n);
        (void) pthread_mutex_unlock(&lock);
        return r;
}

static void run(Bench *b, uint64_t ns) {
        const struct timespec pace = ns_to_timespec(NSEC_PER_MSEC);

        (void) pthread_mutex_lock(&lock);
        driver->run(b->device, ns);
        (void) pthread_mutex_unlock(&lock);
        (void) nanosleep(&pace, NULL); /* for a thread that waits for the lock */
}

static uint64_t all_done(Bench *b) {
        uint64_t n = 0;

        for (size_t i = 0; i < b->n; i++)
                n += bench_done(b, i);
        return n;
}

/* Work is always there, until the suite has seen enough. */
void suite_service_worker(Shared *shared) {
        Bench *b = bench_new(QUEUES);
        XschedQueue *queues[QUEUES] = {};

        for (size_t i = 0; i < b->n; i++) {
                const XschedQueueInfo info = {
                                .size = sizeof(info),
                                .device = "pci:0000:01:00.0",
                                .backend = driver->ops->name,
                                .level = LEVEL_INTERRUPT,
                                .apply = apply,
                                .userdata = b->queues[i],
                };
                assert_int_equal(xsched_queue_new(&info, queues + i), 0);
        }
        atomic_store(&shared->ready, 1);
        while (!atomic_load(&shared->go)) {
                for (size_t i = 0; i < b->n; i++)
                        if (b->submitted[i] - bench_done(b, i) < UNDER_WAY)
                                bench_submit(b, i, WORK_NS);
                run(b, 2 * WORK_NS);
                atomic_store(&shared->progress, all_done(b));
        }
        /* Whatever the last verdict was, the queues run now. */
        for (size_t i = 0; i < b->n; i++)
                while (bench_done(b, i) < b->submitted[i])
                        run(b, NSEC_PER_MSEC);
        bench_assert_all_done(b);
        for (size_t i = 0; i < b->n; i++)
                xsched_queue_unref(queues[i]);
}

/* --- the service --- */

typedef struct Service {
        PrivateBus bus;
        FakeScheduler *s;
        FakeClient *client;
        Shared *shared;
        int worker;
} Service;

static int setup(void **state) {
        Service *v = calloc(1, sizeof(Service));

        assert_non_null(v);
        assert_int_equal(private_bus_start(&v->bus), 0);
        assert_int_equal(setenv("XSCHED_BUS_ADDRESS", v->bus.address, true), 0);
        v->s = fake_scheduler_new(v->bus.address);
        fake_scheduler_own(v->s);
        v->client = v->s->clients;
        v->shared = shared_memory_new();
        v->worker = suite_worker_start(ROLE_SERVICE, v->shared, 0);
        assert_true(scheduler_until(v->s, v->client->n_queues == QUEUES));
        *state = v;
        return 0;
}

static int teardown(void **state) {
        Service *v = *state;

        fake_scheduler_free(v->s);
        private_bus_stop(&v->bus);
        (void) munmap(v->shared, sizeof(Shared));
        free(v);
        return 0;
}

static bool progresses(Service *v) {
        uint64_t before = atomic_load(&v->shared->progress);
        return scheduler_until(v->s, atomic_load(&v->shared->progress) > before + 10);
}

static bool is_applied(const Service *v) {
        for (uint32_t i = 0; i < QUEUES; i++) {
                const PageSlot *p = fake_slot(v->client->f, i);
                if (atomic_load(&p->applied) != atomic_load(&p->verdict))
                        return false;
        }
        return true;
}

static void order(Service *v, Verdict verdict, uint64_t lease_ns) {
        page_set_lease(v->client->f->page.header, ns_add(now_ns(), lease_ns));
        for (uint32_t i = 0; i < QUEUES; i++) {
                atomic_store(&fake_slot(v->client->f, i)->level, LEVEL_INTERRUPT);
                fake_verdict(v->client->f, i, verdict);
        }
        fake_client_nudge(v->client);
}

/* Holds the queues. If the backend can stop work, at most launches that had begun end from now on. */
static void hold(Service *v, uint64_t lease_ns) {
        order(v, VERDICT_HOLD, lease_ns);
        assert_true(scheduler_until(v->s, is_applied(v)));
}

/* Checks that the queues stand still. The worker's reports may be behind by the launches that were under way. */
static void assert_stands(const Service *v) {
        struct timespec ts = ns_to_timespec(60 * NSEC_PER_MSEC);
        uint64_t before = atomic_load(&v->shared->progress);

        if (driver->max_level < LEVEL_INTERRUPT)
                return;
        (void) nanosleep(&ts, NULL);
        assert_true(atomic_load(&v->shared->progress) <= before + UNDER_WAY * (uint64_t) QUEUES);
}

static void finish(Service *v) {
        assert_true(progresses(v));
        atomic_store(&v->shared->go, true);
        assert_int_equal(suite_worker_wait(v->worker), 0);
}

static void test_verdicts(void **state) {
        Service *v = *state;

        for (int i = 0; i < 5; i++) {
                assert_true(progresses(v));
                hold(v, NSEC_INFINITY);
                assert_stands(v);
                order(v, VERDICT_RUN, 0);
        }
        finish(v);
}

/* The service is stopped: it sends nothing more, and its socket stays open. */
static void test_stopped(void **state) {
        Service *v = *state;

        hold(v, PAGE_LEASE_NS / 2);
        finish(v);
}

static void test_killed(void **state) {
        Service *v = *state;

        hold(v, NSEC_INFINITY);
        assert_stands(v);
        fake_client_hang_up(v->client);
        fake_scheduler_disown(v->s);
        finish(v);
}

/* A new service takes the clients over: they are neither held for longer than a service says, nor lost. */
static void test_restarted(void **state) {
        Service *v = *state;

        hold(v, NSEC_INFINITY);
        fake_client_hang_up(v->client);
        assert_true(progresses(v));
        assert_true(scheduler_until(v->s, v->s->n_clients == 2 && v->s->clients[1].n_queues == QUEUES));
        v->client = v->s->clients + 1;
        hold(v, NSEC_INFINITY);
        assert_stands(v);
        order(v, VERDICT_RUN, 0);
        finish(v);
}

static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_verdicts, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
                cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_restarted, setup, teardown),
};
const struct CMUnitTest *const suite_service_tests = tests;
const size_t suite_n_service_tests = ELEMENTSOF(tests);
