/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Hand-over: the part of a turn in which the device had nothing to do for its queue; it counts for no group
 */

#include "service/core/edges.h"
#include "service/core/usage.h"
#include "tests/lib/deadline.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

static PolicyUsage used(const Queue *q) {
        PolicyUsage u;

        entity_usage(q->entity, now_ns(), &u);
        return u;
}

/* Passes time until the queue may run: the other one is idle, but its place may be kept. */
static void until_let_go(Queue *q) {
        uint64_t end = now_ns() + TEST_DEADLINE_NS;

        while (held(q) && now_ns() < end) {
                own_clock_pass(NSEC_PER_USEC);
                device_touch(q->device);
                arbiter_flush(q->manager);
        }
        assert_true(!held(q) && q->given_ns > 0);
}

/* Holds the queue, whose launch waits at the gate, and releases it. */
static void let_go(Queue *q, Queue *other) {
        begin(q);
        begin(other);
        assert_true(held(q));
        drain(q);
        atomic_store(&q->page_slot->waiters, 1);
        finish(other);
        until_let_go(q);
}

static uint64_t launch(Queue *q) {
        uint64_t now = now_ns();

        atomic_store(&q->page_slot->launched_ns, now);
        atomic_store(&q->page_slot->waiters, 0);
        return now;
}

/* The launch ends, and the gate's stamps say so. */
static void land(Queue *q) {
        uint64_t now = now_ns();

        atomic_store(&q->page_slot->drained_ns, now);
        atomic_fetch_add(&q->page_slot->busy_ns, now - atomic_load(&q->page_slot->launched_ns));
}

/* Nothing runs from the verdict to the launch: that time counts as kept. */
static void test_handover(void **state) {
        Manager *m = manager_make();
        uint64_t begun = now_ns(), gaps_ns = 0;
        Process a = join(m, "/a", 0), b = join(m, "/b", 10);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);

        for (unsigned i = 0; i < 20; i++) {
                let_go(q, other);

                uint64_t given = q->given_ns, counted = q->given_counted_ns, launched, now;
                own_clock_pass(i % 5 == 4 ? 2 * EDGE_GAP_MAX : 50 * NSEC_PER_USEC);
                PolicyUsage before = used(q); /* reported as run time, which never falls */
                launched = launch(q);
                own_clock_pass(50 * NSEC_PER_USEC);
                if (i % 2 == 0) { /* the launch ends, or is held */
                        land(q);
                        finish(q);
                } else {
                        begin(other);
                        assert_true(held(q) && q->tail);
                }
                now = now_ns();
                gaps_ns += MIN(launched - given, EDGE_GAP_MAX);
                assert_int_equal(q->given_ns, 0);
                assert_int_equal(q->entity->handover_ns, gaps_ns);
                assert_int_equal(q->device->handover_ns, gaps_ns);
                assert_true(entity_counted(q->entity, now) + MIN(launched - given, EDGE_GAP_MAX) <=
                                counted + (now - given));
                assert_true(used(q).run_ns >= before.run_ns && used(q).kept_ns >= before.kept_ns);
                assert_true(used(q).run_ns + used(q).kept_ns <= now_ns() - begun);
                if (i % 2 != 0) {
                        land(q);
                        drain(q);
                        finish(other);
                        finish(q);
                }
        }

        PolicyDeviceUsage d;
        device_usage(q->device, now_ns(), &d);
        assert_true(d.busy_ns + d.kept_ns + d.idle_ns <= now_ns() - begun);
        assert_true(d.kept_ns > 0);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* Ends the launch; the next one, which waits for room, begins a moment later. */
static void launch_next(Queue *q, uint64_t ran_ns, uint64_t gap_ns) {
        own_clock_pass(ran_ns);
        land(q);
        atomic_store(&q->page_slot->waiters, 1);
        own_clock_pass(gap_ns);
        (void) launch(q);
}

/* A queue that always has a launch waiting for room runs dry after each launch. Those moments count as the first
 * hand-over does, up to a turn's bound, and time in flight is run time, to the nanosecond. */
static void test_runs_dry(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 10);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);

        for (unsigned gap_us = 10; gap_us <= 640; gap_us *= 4) {
                let_go(q, other);

                uint64_t given = q->given_ns, counted = q->given_counted_ns, before = q->entity->handover_ns;
                uint64_t flown = atomic_load(&q->page_slot->busy_ns);
                own_clock_pass(100 * NSEC_PER_USEC);
                (void) launch(q);
                for (unsigned i = 0; i < 9; i++)
                        launch_next(q, 1200 * NSEC_PER_USEC, gap_us * NSEC_PER_USEC);
                own_clock_pass(NSEC_PER_MSEC);
                begin(other);
                assert_true(held(q) && q->tail);
                land(q);
                drain(q);

                uint64_t until = atomic_load(&q->page_slot->drained_ns);
                flown = atomic_load(&q->page_slot->busy_ns) - flown;
                uint64_t gaps = MIN(until - given - flown, EDGE_GAP_MAX);
                assert_int_equal(q->entity->handover_ns - before, gaps);
                assert_int_equal(entity_counted(q->entity, now_ns()) - counted, until - given - gaps);
                assert_true(gap_us > 90 || entity_counted(q->entity, now_ns()) - counted == flown);
                finish(other);
                finish(q);
        }
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* After a turn's first launch the client knows that the device switched to it first: that time is part of the
 * hand-over, whether the queue is then idle or runs on until it is held. */
static void test_began_later(void **state) {
        const uint64_t over_ns = 130 * NSEC_PER_USEC, run_ns = 1200 * NSEC_PER_USEC;
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 10);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);

        for (unsigned i = 0; i < 20; i++) {
                let_go(q, other);

                uint64_t given = q->given_ns, before = q->entity->handover_ns;
                uint64_t began = launch(q) + over_ns;
                own_clock_pass(over_ns + run_ns);
                atomic_store(&q->page_slot->launched_ns, began);
                land(q);
                if (i % 2 == 0)
                        finish(q);
                else {
                        atomic_store(&q->page_slot->waiters, 1);
                        (void) launch(q);
                        own_clock_pass(run_ns);
                        begin(other);
                        land(q);
                        drain(q);
                }
                uint64_t handover = q->entity->handover_ns - before;
                assert_in_range(handover, began - given, began - given + 20 * NSEC_PER_USEC);
                if (i % 2 != 0) {
                        finish(other);
                        finish(q);
                }
        }
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* For a process with several queues the hand-over is known while the others rest, and unknown where one had work
 * meanwhile. */
static void test_other_queues(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 10);
        Queue *q = queue(&a, "d", 0), *second = queue(&a, "d", 0), *other = queue(&b, "d", 0);

        assert_ptr_equal(q->entity, second->entity);
        for (unsigned i = 0; i < 6; i++) {
                let_go(q, other);

                uint64_t given = q->given_ns, before = q->entity->handover_ns;
                own_clock_pass(50 * NSEC_PER_USEC);
                uint64_t launched = launch(q);
                own_clock_pass(50 * NSEC_PER_USEC);
                if (i % 2 != 0)
                        begin(second);
                land(q);
                finish(q);
                assert_int_equal(q->given_ns, 0);
                assert_int_equal(q->entity->handover_ns - before, i % 2 == 0 ? launched - given : 0);
                if (i % 2 != 0)
                        finish(second);
        }
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* The turn of a program that waits for each launch ends while the service has not seen yet that a launch has ended and
 * the next one has begun: the gap between the two counts as the hand-over does. */
static void test_unseen_launch(void **state) {
        const uint64_t over_ns = 130 * NSEC_PER_USEC, run_ns = 1200 * NSEC_PER_USEC;
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 10);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);

        for (unsigned hold_us = 10; hold_us < 1000; hold_us += 90) {
                let_go(q, other);

                uint64_t counted = q->given_counted_ns, flown = atomic_load(&q->page_slot->busy_ns);
                own_clock_pass(100 * NSEC_PER_USEC);
                uint64_t began = launch(q) + over_ns;
                own_clock_pass(over_ns + run_ns);
                atomic_store(&q->page_slot->launched_ns, began);
                land(q);
                own_clock_pass(20 * NSEC_PER_USEC);
                atomic_store(&q->page_slot->ready_since_ns, launch(q));
                own_clock_pass(hold_us * NSEC_PER_USEC);
                begin(other);
                assert_true(held(q) && q->tail);
                own_clock_pass(run_ns - hold_us * NSEC_PER_USEC);
                land(q);
                drain(q);
                assert_int_equal(entity_counted(q->entity, now_ns()) - counted,
                                atomic_load(&q->page_slot->busy_ns) - flown);
                finish(other);
                finish(q);
        }
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* The queue is held again before it launches: the hand-over is unknown. */
static void test_no_handover(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 10);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);

        let_go(q, other);
        begin(other);
        assert_true(held(q) && !q->tail);
        assert_int_equal(q->given_ns, 0);
        finish(other);
        until_let_go(q);
        finish(q);
        assert_int_equal(q->given_ns, 0);

        begin(q); /* no client was before it: it ran at once */
        assert_int_equal(q->given_ns, 0);
        assert_int_equal(q->entity->handover_ns, 0);
        leave(&a);
        leave(&b);
        manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_handover),
                        cmocka_unit_test(test_runs_dry),
                        cmocka_unit_test(test_began_later),
                        cmocka_unit_test(test_unseen_launch),
                        cmocka_unit_test(test_other_queues),
                        cmocka_unit_test(test_no_handover),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
