/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Edges and tails: whose time the service says it was
 */

#include "service/edges.h"
#include "tests/lib/deadline.h"
#include "tests/unit/arbiter-harness.h"

/* Time passes until the queue's entity has run, or waited to, for longer than that. */
static void until_passed(Queue *q, uint64_t ns) {
        uint64_t end = now_ns() + TEST_DEADLINE_NS;
        PolicyUsage u = {};

        while (u.run_ns + u.drain_wait_ns <= ns && now_ns() < end)
                entity_usage(q->entity, now_ns(), &u);
        assert_true(u.run_ns + u.drain_wait_ns > ns);
}

static PolicyUsage used(const Queue *q) {
        PolicyUsage u;

        entity_usage(q->entity, now_ns(), &u);
        return u;
}

/* Who was held is charged until it says that it has drained, and who has the device next from then on. */
static void test_tail(void **state) {
        Manager *m = manager_make();
        Process low = join(m, "/low", 0), high = join(m, "/high", 10);
        Queue *l = queue(&low, "d", 0), *h = queue(&high, "d", 0);

        begin(l);
        begin(h);
        assert_true(held(l) && l->tail);

        uint64_t begun = used(h).run_ns; /* between its launch and the hold both ran */
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

/* Nothing was in flight: it waited at the gate already. */
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

/* The end counts from the client's stamp, and that from when the queue was last looked at. */
static void test_stamps(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 0);
        Queue *q = queue(&a, "d", 0);

        (void) queue(&b, "d", 0);
        begin(q);

        uint64_t begun = q->seen_ns, stamp = now_ns(), end = stamp + 100 * NSEC_PER_USEC;
        while (now_ns() < end)
                ;
        assert_int_equal(edge_time(q, stamp, now_ns()), stamp);
        assert_int_equal(edge_time(q, 1, begun + NSEC_PER_USEC), begun);
        assert_int_equal(edge_time(q, 1, begun + NSEC_PER_SEC), begun + NSEC_PER_SEC - EDGE_LATE_MAX);
        assert_int_equal(edge_time(q, UINT64_MAX, end), end);
        assert_int_equal(edge_time(q, 0, end), end);
        atomic_store(&q->page_slot->drained_ns, stamp);
        finish(q);
        assert_true(used(q).run_ns <= stamp - begun);
        leave(&a);
        leave(&b);
        manager_free(m);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_tail),
                        cmocka_unit_test(test_no_tail),
                        cmocka_unit_test(test_stamps),
        };

        return cmocka_run_group_tests_name("charge", tests, NULL, NULL);
}
