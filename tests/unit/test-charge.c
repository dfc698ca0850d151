/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Edges and tails: which entity the service charges
 */

#include "service/core/edges.h"
#include "service/core/resolve.h"
#include "service/core/suspension.h"
#include "service/core/usage.h"
#include "shim/core/gate.h"
#include "tests/lib/deadline.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

/* Lets time pass until the queue's entity was ready for longer than `ns`. */
static void until_passed(Queue *q, uint64_t ns) {
        uint64_t end = now_ns() + TEST_DEADLINE_NS;
        PolicyUsage u = {};

        while (u.run_ns + u.drain_wait_ns <= ns && now_ns() < end) {
                own_clock_pass(NSEC_PER_USEC);
                entity_usage(q->entity, now_ns(), &u);
        }
        assert_true(u.run_ns + u.drain_wait_ns > ns);
}

static PolicyUsage used(const Queue *q) {
        PolicyUsage u;

        entity_usage(q->entity, now_ns(), &u);
        return u;
}

/* A held entity is charged until it reports that it has drained, and the next one from then on. */
static void test_tail(void **state) {
        Manager *m = manager_make();
        Process low = join(m, "/low", 0), high = join(m, "/high", 10);
        Queue *l = queue(&low, "d", 0), *h = queue(&high, "d", 0);

        begin(l);
        begin(h);
        assert_true(held(l) && l->tail);

        uint64_t begun = used(h).run_ns; /* both ran between h's launch and the hold */
        until_passed(h, begun);
        assert_int_equal(used(h).run_ns, begun);
        assert_true(used(l).run_ns > 0);

        uint64_t before = now_ns();
        drain(l);
        uint64_t after = used(l).run_ns;
        assert_false(l->tail);
        until_passed(h, used(h).run_ns);
        assert_int_equal(used(l).run_ns, after);
        assert_true(used(h).run_ns - begun <= now_ns() - before);
        assert_true(used(h).drain_wait_ns > 0);
        check(m);
        leave(&low);
        leave(&high);
        manager_free(m);
}

/* A held queue with nothing in flight, whose launch waits at the gate, has no tail. */
static void test_no_tail(void **state) {
        Manager *m = manager_make();
        Process low = join(m, "/low", 0), high = join(m, "/high", 10);
        Queue *l = queue(&low, "d", 0), *h = queue(&high, "d", 0);

        begin(l);
        atomic_store(&l->page_slot->waiters, 1);
        begin(h);
        assert_true(held(l) && !l->tail);

        uint64_t before = used(l).run_ns;
        until_passed(h, used(h).run_ns);
        assert_int_equal(used(l).run_ns, before);
        leave(&low);
        leave(&high);
        manager_free(m);
}

static void set_completed(const Queue *q, uint64_t n, uint32_t mean_ns) {
        atomic_store(&q->page_slot->completed, n);
        atomic_store(&q->page_slot->mean_ns, mean_ns);
}

/* A tail beside another's launches, which runs for 10 ms. The other says that it gets `done` launches of 1 ms done
 * meanwhile, half of them by the middle. Returns what the tail is charged for. */
static uint64_t charge_beside(uint32_t mean_ns, uint64_t done, uint32_t others_mean_ns, bool looked_at) {
        Manager *m = manager_make();
        Process low = join(m, "/low", 0), high = join(m, "/high", 10);
        Queue *l = queue(&low, "d", 0), *h = queue(&high, "d", 0);

        set_completed(l, 5, mean_ns);
        set_completed(h, 7, others_mean_ns);
        begin(l);
        begin(h);
        assert_true(held(l) && l->tail);

        uint64_t begun = now_ns(), ran = used(l).run_ns, highs = used(h).run_ns;
        own_clock_pass(5 * NSEC_PER_MSEC);
        set_completed(h, 7 + done / 2, others_mean_ns);
        if (looked_at) {
                device_touch(h->device);
                arbiter_flush(m);
        }
        own_clock_pass(5 * NSEC_PER_MSEC);
        set_completed(h, 7 + done, others_mean_ns);
        drain(l);

        uint64_t charged = used(l).run_ns - ran, others = used(h).run_ns - highs;
        assert_in_range(charged + others, 10 * NSEC_PER_MSEC, now_ns() - begun);
        own_clock_pass(NSEC_PER_MSEC);
        assert_int_equal(used(l).run_ns, ran + charged);
        assert_true(used(h).run_ns >= highs + others + NSEC_PER_MSEC);
        check(m);
        leave(&low);
        leave(&high);
        manager_free(m);
        return charged;
}

/* A tail is charged for what its launches can have had beside those of the other. */
static void test_beside(void **state) {
        const uint32_t ms = NSEC_PER_MSEC, part = 100 * NSEC_PER_USEC;

        for (unsigned looked_at = 0; looked_at < 2; looked_at++) {
                /* It waited behind all that the other did. */
                assert_in_range(charge_beside(part, 10, ms, looked_at), 0, part);
                /* It had one launch of 5 ms, and the other half of the time, or it and the other took turns. */
                assert_in_range(charge_beside(5 * ms, 5, ms, looked_at), 4 * ms, 5 * ms + part);
                /* It says that it had little, and the other had nothing. */
                assert_in_range(charge_beside(part, 0, ms, looked_at), 9 * ms, 10 * ms + part);
                /* It does not say what it had. */
                assert_in_range(charge_beside(0, 4, ms, looked_at), 5 * ms, 6 * ms + part);
                /* The other does not say what it had, or says impossible things. */
                assert_in_range(charge_beside(part, 10, 0, looked_at), 10 * ms, 10 * ms + part);
                assert_in_range(charge_beside(part, UINT64_MAX / 2, UINT32_MAX, looked_at), 0, part);
        }
}

/* A tail ends at the client's stamp, but not before the service last looked at the queue. */
static void test_stamps(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 0);
        Queue *q = queue(&a, "d", 0);

        (void) queue(&b, "d", 0);
        begin(q);

        uint64_t begun = q->seen_ns, stamp = now_ns(), end = stamp + 100 * NSEC_PER_USEC;
        own_clock_pass(end - stamp);
        assert_int_equal(edge_time(q, stamp, stamp + NSEC_PER_USEC), stamp);
        assert_int_equal(edge_time(q, 1, begun + NSEC_PER_USEC), begun);
        assert_int_equal(edge_time(q, 1, begun + NSEC_PER_SEC), begun + NSEC_PER_SEC - EDGE_LATE_MAX);
        assert_int_equal(edge_time(q, UINT64_MAX, end), end);
        assert_int_equal(edge_time(q, 0, end), end);
        atomic_store(&q->page_slot->drained_ns, stamp);
        finish(q);
        uint64_t believed = MAX(stamp, ns_sub(now_ns(), EDGE_LATE_MAX));
        assert_true(used(q).run_ns <= believed - begun);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* Two equals; the first has a launch that runs on, and the second wants the device. With a third client the second is
 * not alone without the first. */
typedef struct Pair {
        Manager *m;
        Process a, b, c;
        Queue *q, *other;
} Pair;

static Pair pair(void) {
        Pair p = {.m = manager_make()};

        p.a = join(p.m, "/a", 0);
        p.b = join(p.m, "/b", 0);
        p.c = join(p.m, "/c", 0);
        (void) queue(&p.c, "d", 0);
        p.q = queue(&p.a, "d", 0);
        p.other = queue(&p.b, "d", 0);
        begin(p.q);
        begin(p.other);
        return p;
}

static void pair_done(Pair *p) {
        check(p->m);
        leave(&p->a);
        leave(&p->b);
        leave(&p->c);
        manager_free(p->m);
}

/* The first client is stopped. Its launch is still charged to it, and the second's time begins at the launch's end. */
static void check_tail_of_stopped(const Pair *p) {
        uint64_t before = used(p->q).run_ns, begun;

        assert_true(p->q->tail && !held(p->other));
        assert_false(p->q->entity->told_ready);
        begun = used(p->other).run_ns;
        until_passed(p->other, begun);
        assert_int_equal(used(p->other).run_ns, begun);
        assert_true(used(p->q).run_ns > before);
}

static void check_tail_over(const Pair *p) {
        uint64_t ran = used(p->q).run_ns, begun = used(p->other).run_ns;

        assert_false(p->q->tail);
        until_passed(p->other, begun + used(p->other).drain_wait_ns);
        assert_true(used(p->other).run_ns > begun);
        assert_int_equal(used(p->q).run_ns, ran);
}

/* The service learns of the end of a suspended client's launch. */
static void test_suspended(void **state) {
        Pair p = pair();

        queue_set_suspended(p.q, true);
        arbiter_flush(p.m);
        check(p.m);
        check_tail_of_stopped(&p);
        drain(p.q);
        assert_null(p.q->entity->policy);
        check_tail_over(&p);
        queue_set_suspended(p.q, false);
        arbiter_flush(p.m);
        assert_true(p.q->entity->told_ready);
        pair_done(&p);
}

/* A frozen client reports no end: its tail ends at the bound, or when it goes on. */
static void freeze(const Pair *p, bool frozen) {
        p->a.client->halted = frozen;
        entity_update_queue(p->q);
        arbiter_flush(p->m);
}

static void test_frozen(void **state) {
        Pair p = pair();

        freeze(&p, true);
        check_tail_of_stopped(&p);
        freeze(&p, false);
        assert_true(p.q->entity->told_ready && p.q->tail == held(p.q));

        freeze(&p, true);
        check_tail_of_stopped(&p);
        assert_in_range(p.q->entity->tail_until, now_ns(), now_ns() + POLICY_TAIL_MAX);
        p.q->entity->tail_until = p.q->device->review_at = now_ns();
        device_touch(p.q->device);
        arbiter_flush(p.m);
        check_tail_over(&p);
        freeze(&p, false);
        pair_done(&p);
}

/* A stopped client with nothing in flight is charged nothing. */
static void test_stopped_without(void **state) {
        Pair p = pair();

        atomic_store(&p.q->page_slot->waiters, 1);
        queue_set_suspended(p.q, true);
        arbiter_flush(p.m);
        assert_null(p.q->entity->policy);
        check_tail_over(&p);
        pair_done(&p);
}

static void look(const Queue *q) {
        (void) arbiter_client_woke(q->client);
        arbiter_flush(q->manager);
}

/* A program that is quicker than the service: ten launches of 10 us with pauses of 20 us between two looks. At the
 * second look the last launch has ended, or not. */
#define LAUNCH_NS (10 * NSEC_PER_USEC)
#define PAUSE_NS  (20 * NSEC_PER_USEC)

/* Time of launches without and with the gate's own time at both ends of each. The gate reads the clock in between, so
 * the reported time lies between the two. */
typedef struct Took {
        uint64_t least, most;
} Took;

static void launch_once(Gate *g, Took *took) {
        uint64_t entered = now_ns();
        assert_int_equal(gate_begin(g, GATE_NOWAIT), 1);
        uint64_t begun = now_ns();
        own_clock_pass(LAUNCH_NS);
        uint64_t ended = now_ns();
        gate_complete(g, 1, LAUNCH_NS);
        took->least += ended - begun;
        took->most += now_ns() - entered;
}

static void launches(Gate *g, unsigned n, Took *took) {
        for (unsigned i = 0; i < n; i++) {
                launch_once(g, took);
                own_clock_pass(PAUSE_NS);
        }
}

/* Makes a launch, and the service looks at it while it is in flight. */
static void launch_looked_at(Gate *g, const Queue *q, Took *took) {
        uint64_t entered = now_ns();
        assert_int_equal(gate_begin(g, GATE_NOWAIT), 1);
        uint64_t begun = now_ns();
        own_clock_pass(LAUNCH_NS);
        look(q);
        uint64_t ended = now_ns();
        gate_complete(g, 1, LAUNCH_NS);
        took->least += ended - begun;
        took->most += now_ns() - entered;
        look(q);
}

static void check_quick(Gate *g, Queue *q, bool in_flight) {
        uint64_t told = 0;
        Took real = {0};

        for (unsigned round = 0; round < 50; round++) {
                uint64_t before = used(q).run_ns;
                Took took = {0};

                launches(g, 10, &took);
                if (in_flight)
                        launch_looked_at(g, q, &took);
                else
                        look(q);
                told += used(q).run_ns - before;
                real.least += took.least;
                real.most += took.most;
        }
        assert_true(real.least > 0);
        assert_in_range(told, real.least - real.least / 50, real.most + real.most / 50);
}

/* A query between two looks reports no more time than a query after the next look. */
static void check_never_back(Gate *g, Queue *q) {
        uint64_t told = 0;

        for (unsigned i = 0; i < 200; i++) {
                launches(g, 1, &(Took){0});
                uint64_t run_ns = used(q).run_ns;
                assert_true(run_ns >= told);
                told = run_ns;
                if (i % 10 != 9)
                        continue;
                assert_int_equal(gate_begin(g, GATE_NOWAIT), 1);
                look(q); /* the service cannot see the end, so it sees the launch run on */
                gate_complete(g, 1, LAUNCH_NS);
        }
}

static void test_quick(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 10), b = join(m, "/b", 0);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);
        Gate *g = aligned_alloc(_Alignof(Gate), sizeof(Gate));

        /* The other client wants the device and has nothing in flight: so the first is watched throughout. */
        atomic_store(&other->page_slot->waiters, 1);
        begin(other);
        gate_init(g, true);
        assert_int_equal(gate_attach(g, &a.client->page, q->slot, a.fds.wake), 0);
        look(q);
        check_quick(g, q, false);
        check_quick(g, q, true);
        check_never_back(g, q);
        gate_detach(g);
        free(g);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* Whatever a client writes into its stamps and counts, it is charged at most the time that passed, and no other client
 * is charged. */
static void test_liar(void **state) {
        Manager *m = manager_make();
        uint64_t begun = now_ns();
        Process a = join(m, "/a", 10), b = join(m, "/b", 0);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);
        PageSlot *s = q->page_slot;
        uint32_t seed = 1;

        begin(q);
        begin(other);
        assert_true(held(other));
        drain(other);

        uint64_t run_ns = used(other).run_ns;
        for (unsigned i = 0; i < 2000; i++) {
                uint64_t now = now_ns();
                const uint64_t lies[] = {0, 1, begun, q->mark_ns, q->seen_ns + 1, now, now - 1, now + NSEC_PER_SEC,
                                UINT64_MAX, UINT64_MAX - now};
                _Atomic uint64_t *words[] = {&s->ready_since_ns, &s->launched_ns, &s->drained_ns, &s->busy_ns};

                for (size_t w = 0; w < ELEMENTSOF(words); w++) {
                        seed = seed * 1664525 + 1013904223;
                        atomic_store(words[w], lies[(seed >> 16) % ELEMENTSOF(lies)]);
                }
                seed = seed * 1664525 + 1013904223;
                atomic_store(&s->outstanding, 1 + (seed >> 16) % 2);
                atomic_store(&s->waiters, (seed >> 20) % 3);
                page_mark_dirty(a.client->page.header, q->slot);
                (void) arbiter_client_woke(a.client);
                arbiter_flush(m);
                assert_true(used(q).run_ns + used(q).kept_ns <= now_ns() - begun);
                if (held(other))
                        drain(other);
        }

        PolicyDeviceUsage d;
        device_usage(q->device, now_ns(), &d);
        assert_true(d.busy_ns + d.kept_ns + d.idle_ns <= now_ns() - begun);
        if (now_ns() - begun < q->device->config.starve_ns)
                assert_int_equal(used(other).run_ns, run_ns);
        check(m);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* A group with Max= whose only process ends and is started again: the period goes on, also where the group is another
 * by the same name. */
static void test_max_of_the_restarted(void **state) {
        Manager *m = manager_make();
        Process other = join(m, "/other", 0), a;
        uint64_t begun = 0, run_ns = 0, longest_ns = 0, end = now_ns() + TEST_DEADLINE_NS;
        Queue *q;

        (void) queue(&other, "d", 0);
        while (now_ns() - begun < 3 * NSEC_PER_SEC / 10 || begun == 0) {
                own_clock_pass(NSEC_PER_MSEC); /* time of the start */
                a = join(m, "/job", 0);
                assert_int_equal(settings_set_max(&a.client->group->override, 10), 0);
                group_settings_changed(a.client->group);
                q = queue(&a, "d", 0);
                begun = begun > 0 ? begun : now_ns();
                begin(q);
                if (!held(q)) {
                        until_passed(q, NSEC_PER_MSEC);
                        device_touch(q->device);
                        arbiter_flush(m);
                }
                if (held(q))
                        drain(q);
                finish(q);
                uint64_t ran_ns = used(q).run_ns;
                run_ns += ran_ns;
                longest_ns = MAX(longest_ns, ran_ns);
                a.client->group->override = SETTINGS_NULL; /* so that the group is not kept after the process */
                leave(&a);
                assert_null(group_find(m, "/job"));
                assert_true(now_ns() < end);
        }
        assert_true(run_ns > 0);
        /* One more quota for the period that has begun, and the last run, which may not be paid for yet. */
        assert_true(run_ns <= (now_ns() - begun) / 10 + 10 * NSEC_PER_MSEC + longest_ns);
        leave(&other);
        manager_free(m);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_tail),
                        cmocka_unit_test(test_no_tail),
                        cmocka_unit_test(test_beside),
                        cmocka_unit_test(test_stamps),
                        cmocka_unit_test(test_suspended),
                        cmocka_unit_test(test_frozen),
                        cmocka_unit_test(test_stopped_without),
                        cmocka_unit_test(test_quick),
                        cmocka_unit_test(test_liar),
                        cmocka_unit_test(test_max_of_the_restarted),
        };

        return cmocka_run_group_tests_name("charge", tests, NULL, NULL);
}
