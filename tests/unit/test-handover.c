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

/* The other is idle, and may be waited for. */
static void until_let_go(Queue *q) {
        uint64_t end = now_ns() + TEST_DEADLINE_NS;

        while (held(q) && now_ns() < end) {
                own_clock_pass(NSEC_PER_USEC);
                device_touch(q->device);
                arbiter_flush(q->manager);
        }
        assert_true(!held(q) && q->given_ns > 0);
}

/* It waits at the gate, and is let go. */
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

/* As the gate tells it. */
static void land(Queue *q) {
        uint64_t now = now_ns();

        atomic_store(&q->page_slot->drained_ns, now);
        atomic_fetch_add(&q->page_slot->busy_ns, now - atomic_load(&q->page_slot->launched_ns));
}

/* From the verdict to the launch nothing runs: it is told as kept. */
static void test_handover(void **state) {
        Manager *m = manager_make();
        uint64_t begun = now_ns(), gaps_ns = 0;
        Process a = join(m, "/a", 0), b = join(m, "/b", 10);
        Queue *q = queue(&a, "d", 0), *other = queue(&b, "d", 0);

        for (unsigned i = 0; i < 20; i++) {
                let_go(q, other);

                uint64_t given = q->given_ns, counted = q->given_counted_ns, launched, now;
                own_clock_pass(i % 5 == 4 ? 2 * EDGE_GAP_MAX : 50 * NSEC_PER_USEC);
                PolicyUsage before = used(q); /* told as run time: that stays */
                launched = launch(q);
                own_clock_pass(50 * NSEC_PER_USEC);
                if (i % 2 == 0) { /* it ends, or is held */
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

/* The launch ends, and the next one, which waits for room, begins a moment later. */
static void launch_next(Queue *q, uint64_t ran_ns, uint64_t gap_ns) {
        own_clock_pass(ran_ns);
        land(q);
        atomic_store(&q->page_slot->waiters, 1);
        own_clock_pass(gap_ns);
        (void) launch(q);
}

/* A queue that always has a launch waiting for room runs dry after each: those moments count as the first one does, in
 * all as much as is believed of a turn, and what was in flight is run time, to the nanosecond. */
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

/* When the first launch of a turn is over its client knows that the device went over to it first: that is a part of the
 * hand-over, whether it ends then or goes on until it is held. */
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

/* Of a process with several queues it is known while the others rest, and not where one had work meanwhile. */
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

/* It has not launched when it is held again, or has been idle: nothing is known of a hand-over. */
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

        let_go(q, other);
        (void) launch(q);
        land(q);
        own_clock_pass(10 * NSEC_PER_USEC);
        atomic_store(&q->page_slot->ready_since_ns, launch(q));
        begin(other);
        assert_int_equal(q->given_ns, 0);
        drain(q);
        finish(other);
        finish(q);

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
                        cmocka_unit_test(test_other_queues),
                        cmocka_unit_test(test_no_handover),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
