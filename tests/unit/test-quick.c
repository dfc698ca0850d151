/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Quick queues: which queues need not report edges, their effect on others, and when they have to report edges again
 */

#include <sys/eventfd.h>

#include "service/core/edges.h"
#include "service/core/usage.h"
#include "service/core/user.h"
#include "shim/core/gate.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define LAUNCH_NS (10 * NSEC_PER_USEC)
#define PAUSE_NS  (5 * NSEC_PER_USEC)

/* A client that launches through a gate, as a shim does, and one that does not. */
typedef struct Pair {
        Manager *m;
        Process a, b;
        Queue *q, *other;
        Gate *g;
        uint64_t ran_ns; /* time of its launches */
} Pair;

/* Reads the client's edges, as the service's loop does. Returns whether there were any. */
static bool hear(Process *p, Queue *q) {
        eventfd_t n = 0;
        bool any = eventfd_read(p->client->wake, &n) == 0;

        if (any)
                (void) arbiter_client_woke(q->client);
        arbiter_flush(q->manager);
        check(q->manager);
        return any;
}

static Pair pair_of(int priority) {
        Pair p = {.m = manager_make()};

        p.a = join(p.m, "/a", priority);
        p.b = join(p.m, "/b", 0);
        p.q = queue(&p.a, "d", 0);
        p.other = queue(&p.b, "d", 0);
        p.g = aligned_alloc(_Alignof(Gate), sizeof(Gate));
        assert_non_null(p.g);
        gate_init(p.g, true);
        assert_int_equal(gate_attach(p.g, &p.a.client->page, p.q->slot, p.a.fds.wake), 0);
        return p;
}

static void pair_done(Pair *p) {
        gate_detach(p->g);
        free(p->g);
        check(p->m);
        leave(&p->a);
        leave(&p->b);
        assert_null(p->m->quick.queues);
        assert_int_equal(p->m->quick.n, 0);
        assert_int_equal(p->m->users->n_quick, 0);
        manager_free(p->m);
}

static void submit(Pair *p) {
        assert_int_equal(gate_begin(p->g, GATE_NOWAIT), 1);
        own_clock_pass(LAUNCH_NS);
        p->ran_ns += LAUNCH_NS;
}

static void launch(Pair *p) {
        submit(p);
        gate_complete(p->g, 1, LAUNCH_NS);
}

/* Makes n launches, each with a wait and a pause, and reads all edges. Returns how often there were any. */
static unsigned launches(Pair *p, unsigned n, uint64_t pause_ns) {
        unsigned heard = 0;

        for (unsigned i = 0; i < n; i++) {
                submit(p);
                heard += hear(&p->a, p->q);
                gate_complete(p->g, 1, LAUNCH_NS);
                heard += hear(&p->a, p->q);
                own_clock_pass(pause_ns);
        }
        return heard;
}

static void become_quick(Pair *p) {
        (void) launches(p, 2 * QUICK_EDGES, PAUSE_NS);
        assert_true(p->q->quick.is && p->q->quick.looked);
        assert_int_equal(watch(p->q), PAGE_WATCH_COUNTED);
        assert_string_equal(queue_watched(p->q), "looks");
}

/* Makes the next look at its due time. */
static void time_to_look(Manager *m) {
        uint64_t looked_at = m->quick.looked_at;
        assert_true(m->quick.n > 0 && m->quick.due.at != NSEC_INFINITY);
        own_clock_pass(ns_sub(m->quick.due.at, now_ns()));
        assert_true(dues_turn(&m->dues, now_ns()) > 0);
        assert_true(m->quick.looked_at > looked_at && m->quick.due.at > now_ns());
        arbiter_flush(m);
        check(m);
}

static uint64_t run_ns(const Queue *q) {
        PolicyUsage u;

        entity_usage(q->entity, now_ns(), &u);
        return u.run_ns;
}

/* A quick queue reports nothing, and is charged for its launches' time. */
static void test_tells_nothing(void **state) {
        Pair p = pair_of(10);

        /* The other client wants the device, and has nothing in flight. */
        atomic_store(&p.other->page_slot->waiters, 1);
        begin(p.other);
        become_quick(&p);
        time_to_look(p.m);

        uint64_t before = run_ns(p.q);
        p.ran_ns = 0;
        unsigned looks = 0;
        for (unsigned i = 0; i < 500; i++) {
                assert_int_equal(launches(&p, 1, PAUSE_NS), watch(p.q) & PAGE_WATCH_READY ? 1 : 0);
                if (!p.q->quick.looked || now_ns() < p.m->quick.due.at)
                        continue;
                time_to_look(p.m);
                looks++;
        }
        assert_true(looks > 500 * LAUNCH_NS / QUICK_LOOK_NS / 2);
        assert_true(p.q->quick.is);

        /* The gate and the clock take some of the time, too. */
        uint64_t told = run_ns(p.q) - before;
        assert_in_range(told, p.ran_ns - p.ran_ns / 50, p.ran_ns + p.ran_ns / 5);
        pair_done(&p);
}

/* A look notices that the queue is idle, unless the pause has just begun; then the queue reports when it is ready
 * again. */
static void test_idle(void **state) {
        Pair p = pair_of(10);

        atomic_store(&p.other->page_slot->waiters, 1);
        begin(p.other);
        become_quick(&p);
        assert_true(held(p.other));
        launch(&p);
        assert_false(hear(&p.a, p.q));
        uint64_t ended = now_ns();
        while (p.q->quick.looked) {
                assert_true(held(p.other));
                time_to_look(p.m);
                assert_true(now_ns() - ended <= QUICK_LOOK_NS + QUICK_PAUSE_NS + 10 * NSEC_PER_USEC);
        }
        assert_false(p.q->ready);
        assert_int_equal(watch(p.q), PAGE_WATCH_READY);
        assert_true(p.q->quick.is);
        assert_string_equal(queue_watched(p.q), "looks");

        submit(&p);
        assert_true(hear(&p.a, p.q));
        assert_true(p.q->ready);
        assert_int_equal(watch(p.q), PAGE_WATCH_COUNTED);
        gate_complete(p.g, 1, LAUNCH_NS);
        pair_done(&p);
}

/* A pause that began just before the look. */
static void test_pause(void **state) {
        Pair p = pair_of(10);

        atomic_store(&p.other->page_slot->waiters, 1);
        begin(p.other);
        become_quick(&p);
        do
                (void) launches(&p, 1, 0);
        while (now_ns() < p.m->quick.due.at);
        launch(&p);
        time_to_look(p.m);
        assert_true(p.q->ready && p.q->quick.pauses);
        assert_true(p.m->quick.due.at - p.m->quick.looked_at <= QUICK_PAUSE_NS);

        submit(&p);
        assert_false(hear(&p.a, p.q));
        time_to_look(p.m);
        assert_true(p.q->ready && !p.q->quick.pauses);
        gate_complete(p.g, 1, LAUNCH_NS);
        pair_done(&p);
}

/* A new queue causes a look at a quick one that was not looked at for long: no queue waits for an idle one. */
static void test_other_comes(void **state) {
        Pair p = pair_of(10);

        begin(p.other);
        finish(p.other);
        become_quick(&p);
        assert_true(p.m->quick.due.at - p.m->quick.looked_at > QUICK_LOOK_NS);
        launch(&p);
        own_clock_pass(QUICK_LOOK_NS + QUICK_PAUSE_NS);
        begin(p.other);
        assert_false(p.q->ready);
        check(p.m);
        finish(p.other);
        pair_done(&p);
}

/* A queue to be held is first watched for all edges, and its unreported launches are then known. */
static void test_held(void **state) {
        Pair p = pair_of(-10);

        begin(p.other);
        finish(p.other);
        become_quick(&p);
        submit(&p);
        assert_false(hear(&p.a, p.q));
        begin(p.other);
        assert_true(held(p.q) && p.q->tail);
        assert_int_equal(watch(p.q), PAGE_WATCH_ALL);
        check(p.m);
        gate_complete(p.g, 1, LAUNCH_NS);
        assert_true(hear(&p.a, p.q));
        assert_false(p.q->tail);
        finish(p.other);

        /* It is quick again as soon as it runs and has reported an edge. */
        own_clock_pass(5 * NSEC_PER_MSEC);
        assert_true(p.q->quick.is);
        (void) launches(&p, 2, PAUSE_NS);
        assert_false(held(p.q));
        assert_int_equal(watch(p.q), PAGE_WATCH_COUNTED);
        pair_done(&p);
}

/* A queue that launches only now and then reports edges again. */
static void test_slow(void **state) {
        Pair p = pair_of(10);
        unsigned n = 0;

        atomic_store(&p.other->page_slot->waiters, 1);
        begin(p.other);
        become_quick(&p);
        for (; p.q->quick.is && n < 10; n++) {
                (void) launches(&p, 1, 0);
                while (p.q->quick.looked)
                        time_to_look(p.m);
                own_clock_pass(5 * NSEC_PER_MSEC);
        }
        assert_true(n >= QUICK_SLOW && n < 2 * QUICK_SLOW);
        assert_int_equal(watch(p.q), PAGE_WATCH_ALL);
        assert_string_equal(queue_watched(p.q), "edges");
        (void) launches(&p, 3 * QUICK_EDGES, 10 * QUICK_EDGE_NS);
        assert_false(p.q->quick.is);
        pair_done(&p);
}

/* Without other clients the queue is not looked at. */
static void test_alone(void **state) {
        Pair p = pair_of(0);
        Process c = join(p.m, "/c", 0);
        Queue *third = queue(&c, "d", 0);

        atomic_store(&third->page_slot->waiters, 1);
        become_quick(&p);
        leave(&p.b);
        assert_true(p.q->quick.looked);
        leave(&c);
        assert_false(p.q->quick.looked);
        assert_int_equal(watch(p.q), 0);
        p.b = join(p.m, "/b", 0);
        pair_done(&p);
}

/* Two queues of one entity: neither is quick while the other one works, because its pauses are not the entity's. */
static void test_two_of_one(void **state) {
        Pair p = pair_of(10);
        Queue *second = queue(&p.a, "d", 0);

        atomic_store(&p.other->page_slot->waiters, 1);
        begin(p.other);
        become_quick(&p);
        begin(second);
        while (p.q->quick.looked)
                time_to_look(p.m);
        assert_false(p.q->quick.is);
        (void) launches(&p, 2 * QUICK_EDGES, PAUSE_NS);
        assert_false(p.q->quick.is);
        finish(second);
        become_quick(&p);
        pair_done(&p);
}

/* The number of one user's queues that are looked at is bounded. */
static void test_bound(void **state) {
        Pair p = pair_of(0);
        Process processes[QUICK_USER_MAX + 4];
        Queue *q[ELEMENTSOF(processes)];
        unsigned n = 0;

        for (unsigned i = 0; i < ELEMENTSOF(processes); i++) {
                char cgroup[16];

                (void) snprintf(cgroup, sizeof(cgroup), "/g%u", i);
                processes[i] = join(p.m, cgroup, 0);
                q[i] = queue(&processes[i], "d", 0);
                q[i]->quick.is = true;
        }
        for (unsigned i = 0; i < ELEMENTSOF(processes); i++)
                begin(q[i]);
        check(p.m);
        for (unsigned i = 0; i < ELEMENTSOF(processes); i++)
                edge_sync_watch(q[i]);
        for (unsigned i = 0; i < ELEMENTSOF(processes); i++)
                n += q[i]->quick.looked;
        assert_true(n > 0 && n <= QUICK_USER_MAX);
        assert_int_equal(p.m->quick.n, n);
        check(p.m);
        for (unsigned i = 0; i < ELEMENTSOF(processes); i++)
                leave(&processes[i]);
        pair_done(&p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_tells_nothing),
                        cmocka_unit_test(test_idle),
                        cmocka_unit_test(test_pause),
                        cmocka_unit_test(test_other_comes),
                        cmocka_unit_test(test_held),
                        cmocka_unit_test(test_slow),
                        cmocka_unit_test(test_alone),
                        cmocka_unit_test(test_two_of_one),
                        cmocka_unit_test(test_bound),
        };

        return cmocka_run_group_tests_name("quick", tests, NULL, NULL);
}
