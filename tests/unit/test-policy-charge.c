/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which entity is charged: tails after a hold, and kept places, one rule at a time
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"

#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

static Harness *make(uint32_t concurrency) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.timeslice_ns = 5 * MSEC;
        c.concurrency = concurrency;
        c.starve_ns = c.starve_run_ns = 0;

        Harness *h = harness_new(&c, true, 0);
        h->tails = true;
        return h;
}

static Job *add(Harness *h, int priority, uint32_t weight) {
        return harness_add(h, (PolicySettings){.priority = priority, .weight = weight});
}

static void drained(Job *j) {
        harness_drained(j);
        harness_dispatch(j->h);
}

/* Makes the job ready. If it is held, its launch waits at the gate. */
static void ready(Job *j) {
        bool was = j->grant.verdict == VERDICT_RUN;

        harness_ready(j);
        harness_dispatch(j->h);
        if (was && j->grant.verdict == VERDICT_HOLD)
                drained(j);
}

static void idle(Job *j) {
        harness_idle(j);
        harness_dispatch(j->h);
}

static bool granted(const Job *j) {
        return j->grant.verdict == VERDICT_RUN;
}

static PolicyUsage usage(const Job *j) {
        PolicyUsage u;

        j->h->ops->entity_usage(j->entity, j->h->now_ns, &u);
        return u;
}

/* The next job is granted when the tail is over; its charge and its slice begin then. */
static void test_tail(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        ready(a);
        ready(b);
        harness_run(h, 5 * MSEC);
        assert_true(!granted(a) && !granted(b));
        assert_int_equal(h->wake_ns, h->now_ns + POLICY_TAIL_WAIT);
        harness_run(h, 10 * MSEC);
        assert_int_equal(usage(a).run_ns, 15 * MSEC);
        assert_int_equal(usage(b).run_ns, 0);
        assert_int_equal(usage(b).drain_wait_ns, 10 * MSEC);
        drained(a);
        assert_true(!granted(a) && granted(b));
        harness_run(h, 4 * MSEC);
        assert_true(!granted(a) && granted(b));
        assert_int_equal(usage(b).run_ns, 4 * MSEC);
        assert_int_equal(usage(a).run_ns, 15 * MSEC);

        /* b gets next what a had too much. */
        harness_run(h, 10 * MSEC);
        assert_true(!granted(a) && granted(b));
        harness_run(h, 10 * MSEC);
        assert_true(!granted(a) && !granted(b));
        drained(b);
        assert_true(granted(a) && !granted(b));
}

/* An entity's wait for the end of a tail is bounded. After it both are on the device, and the tail is still charged. */
static void test_tail_is_not_awaited_for_long(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        ready(a);
        ready(b);
        harness_run(h, 5 * MSEC);
        harness_run(h, POLICY_TAIL_WAIT - MSEC);
        assert_true(!granted(a) && !granted(b));
        harness_run(h, MSEC);
        assert_true(!granted(a) && granted(b));
        harness_run(h, MSEC);
        assert_int_equal(usage(a).run_ns, 56 * MSEC);
        assert_int_equal(usage(b).drain_wait_ns, 51 * MSEC);
}

/* An entity of a higher tier is granted without waiting for tails. */
static void test_precedence_does_not_wait(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100), *high = add(h, 1, 100);

        ready(a);
        ready(b);
        harness_run(h, 5 * MSEC);
        assert_true(!granted(a) && !granted(b));
        ready(high); /* while an equal waits, */
        assert_true(granted(high) && !granted(b));
        idle(high);
        drained(a);
        drained(b);
        harness_run(h, 2 * MSEC);
        Job *runner = granted(a) ? a : b, *other = runner == a ? b : a;
        assert_true(granted(runner) && !granted(other));
        ready(high); /* and while one runs */
        assert_true(granted(high) && !granted(runner));
}

/* The turn of a minimum waits for the tail of a higher tier, is as long as without that, and its own tail is waited for
 * by the higher tier: their launches would take a part of the device from each other. */
static void test_turns_of_minima_wait(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;

        s.min = 20;
        s.period_ns = 25 * MSEC;
        HarnessNode *n = harness_add_node(h, NULL, s);
        Job *high = add(h, 1, 100), *low = harness_add_below(h, n, (PolicySettings){.weight = 100});

        ready(high);
        ready(low);
        for (unsigned i = 0; i < 50 && granted(high); i++)
                harness_run(h, MSEC);
        assert_true(!granted(high) && !granted(low));
        harness_run(h, 8 * MSEC); /* longer than the turn */
        assert_true(!granted(high) && !granted(low));
        assert_int_equal(usage(low).run_ns, 0);
        drained(high);
        assert_true(!granted(high) && granted(low));
        harness_run(h, 4 * MSEC);
        assert_true(granted(low));
        harness_run(h, MSEC);
        assert_true(!granted(high) && !granted(low));
        harness_run(h, 6 * MSEC);
        assert_true(!granted(high) && !granted(low));
        drained(low);
        assert_true(granted(high) && !granted(low));
        assert_int_equal(usage(low).run_ns, 11 * MSEC);
        assert_int_equal(usage(high).drain_wait_ns, 6 * MSEC);
}

/* The tail of a turn counts for the minimum in full, however long it is. */
static void test_long_tails_of_minima(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;
        uint64_t begin_ns = h->now_ns;

        s.min = 50;
        s.period_ns = 10 * MSEC;
        Job *high = add(h, 1, 100),
            *low = harness_add_below(h, harness_add_node(h, NULL, s), (PolicySettings){.weight = 100});
        ready(high);
        ready(low);
        while (h->now_ns < begin_ns + NSEC_PER_SEC) {
                harness_run(h, MSEC);
                if (!granted(high))
                        drained(high);
                if (!granted(low) && usage(low).run_ns > 0 && !granted(high)) {
                        harness_run(h, 20 * MSEC); /* the turn is of 5 ms */
                        drained(low);
                }
        }
        assert_in_range(usage(low).run_ns, 470 * MSEC, 530 * MSEC);
}

/* A starved entity is granted beside a tail, too. */
static void test_starved_do_not_wait(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        PolicyConfig c = h->config;
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        c.starve_ns = 20 * MSEC;
        c.starve_run_ns = MSEC;
        harness_configure(h, &c);
        ready(a);
        ready(b);
        harness_run(h, 19 * MSEC);
        assert_true(!granted(a) && !granted(b));
        harness_run(h, MSEC);
        assert_true(!granted(a) && granted(b));
}

/* An entity that goes on takes the place of its own tail. */
static void test_own_tail(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        ready(a);
        ready(b);
        harness_run(h, 5 * MSEC);
        assert_true(!granted(a) && !granted(b));
        idle(b);
        assert_true(granted(a));
}

/* The debt stays when the debtor goes idle for a moment. */
static void test_tail_is_not_washed_off(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        ready(a);
        ready(b);
        harness_run(h, 5 * MSEC);
        harness_run(h, 60 * MSEC);
        idle(a);
        harness_run(h, MSEC);
        ready(a);
        for (unsigned i = 0; i < 50; i++) {
                assert_true(!granted(a) && granted(b));
                harness_run(h, MSEC);
        }
}

/* An entity that never reports that it has drained is charged until the bound, and the others after it. */
static void test_tail_is_bounded(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *low = add(h, 0, 100), *high = add(h, 1, 100);

        ready(low);
        ready(high);
        harness_run(h, 3 * NSEC_PER_SEC);
        assert_int_equal(usage(low).run_ns, NSEC_PER_SEC);
        assert_int_equal(usage(high).run_ns, 2 * NSEC_PER_SEC);
}

/* An entity that is stopped with launches in flight has the device until they end, or until the bound. Meanwhile it is
 * not granted, and blocks no other entity. */
static void test_tail_of_the_stopped(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        ready(a);
        harness_run(h, 2 * MSEC);
        harness_idle(a);
        harness_tail(a);
        harness_dispatch(h);
        ready(b);
        assert_true(!granted(a) && granted(b));
        harness_run(h, 30 * MSEC);
        assert_int_equal(usage(a).run_ns, 32 * MSEC);
        assert_int_equal(usage(b).run_ns, 0);
        assert_int_equal(usage(b).drain_wait_ns, 30 * MSEC);
        drained(a);
        harness_run(h, MSEC);
        assert_int_equal(usage(a).run_ns, 32 * MSEC);
        assert_int_equal(usage(b).run_ns, MSEC);

        /* a was charged: b gets as much before it. */
        ready(a);
        for (unsigned i = 0; i < 25; i++) {
                assert_true(!granted(a) && granted(b));
                harness_run(h, MSEC);
        }
        harness_idle(a);
        harness_tail(a);
        harness_dispatch(h);
        harness_run(h, 2 * NSEC_PER_SEC);
        assert_int_equal(usage(a).run_ns, NSEC_PER_SEC + 32 * MSEC);
}

/* A maximum counts the tail. */
static void test_tail_and_maximum(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;

        s.max = 20;
        HarnessNode *n = harness_add_node(h, NULL, s);
        Job *j = harness_add_below(h, n, POLICY_SETTINGS_DEFAULT);

        ready(j);
        harness_run(h, 20 * MSEC);
        assert_false(granted(j));
        harness_run(h, 20 * MSEC);
        drained(j);
        harness_run(h, 61 * MSEC);
        assert_false(granted(j)); /* the next period's quota is used up as well */
        harness_run(h, 100 * MSEC);
        assert_true(granted(j));
}

/* With two places the job that replaces another waits, and the third goes on. */
static void test_two_places(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(2);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100), *c = add(h, 0, 100);

        ready(a);
        ready(b);
        ready(c);
        harness_run(h, 5 * MSEC);
        assert_int_equal(granted(a) + granted(b) + granted(c), 1);
        harness_run(h, MSEC);

        uint64_t run_ns = usage(a).run_ns + usage(b).run_ns + usage(c).run_ns;
        assert_int_equal(run_ns, 12 * MSEC);
        drained(granted(a) ? b : a);
        assert_int_equal(granted(a) + granted(b) + granted(c), 2);
}

/* Makes n launches of 100 us with pauses of 50 us. */
static void launches(Job *j, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                ready(j);
                harness_run(j->h, 100 * USEC);
                idle(j);
                harness_run(j->h, 50 * USEC);
        }
}

/* A heavy synchronous job keeps the device in its gaps, which count to its share but not to its run time; a long pause
 * ends that. */
static void test_kept(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 300), *b = add(h, 0, 100);

        launches(a, 20);
        ready(b);
        ready(a);
        harness_run(h, 20 * MSEC);
        drained(b);
        while (!granted(a))
                harness_run(h, MSEC);
        drained(b);

        uint64_t before = usage(b).run_ns;
        launches(a, 20);
        assert_int_equal(usage(b).run_ns, before);
        assert_int_equal(usage(a).kept_ns, 20 * (50 * USEC));
        harness_run(h, h->config.linger_ns);
        assert_true(granted(b));
        assert_true(h->wake_ns > h->now_ns);
}

/* While an entity waits for a tail, each is told of the other: the one whose turn it is, and the one whose launches run
 * on. */
static void test_who_is_waited_for(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);
        PolicyWait w;

        ready(a);
        ready(b);
        for (unsigned i = 0; i < 10; i++) {
                Job *runner = granted(a) ? a : b, *other = runner == a ? b : a;

                assert_true(h->ops->entity_wait(other->entity, &w));
                assert_ptr_equal(w.runner, runner);
                for (unsigned n = 0; n < 1000 && granted(runner); n++)
                        harness_run(h, 100 * USEC);
                assert_true(!granted(a) && !granted(b));
                assert_true(h->ops->entity_wait(runner->entity, &w));
                assert_ptr_equal(w.runner, other);
                assert_true(h->ops->entity_wait(other->entity, &w));
                assert_ptr_equal(w.runner, runner);
                drained(runner);
                harness_run(h, 10 * USEC);
                assert_true(granted(other));
        }
}

/* With equal weights no entity loses by its gaps, so no place is kept. */
static void test_equals_do_not_idle(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        launches(a, 20);
        launches(b, 20);
        ready(b);
        ready(a);
        for (unsigned i = 0; i < 200; i++) {
                Job *runner = granted(a) && a->ready ? a : b, *other = runner == a ? b : a;

                harness_run(h, 100 * USEC);
                idle(runner);
                assert_true(granted(other));
                drained(runner);
                harness_run(h, 50 * USEC);
                ready(runner);
        }
        assert_int_equal(usage(a).kept_ns + usage(b).kept_ns, 0);
}

/* A job with much shorter launches does lose, and a place is kept for it when it is owed more than a slice. */
static void test_equals_lose(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        launches(a, 20);
        ready(b);
        for (unsigned i = 0; i < 400; i++) {
                ready(a);
                if (b->drain_order > 0) {
                        harness_run(h, 2 * MSEC); /* b's launch ends */
                        drained(b);
                }
                if (!granted(a)) {
                        harness_run(h, 100 * USEC);
                        continue;
                }
                harness_run(h, 100 * USEC);
                idle(a);
                harness_run(h, 50 * USEC);
        }
        assert_true(usage(a).kept_ns > 0);
        assert_true((usage(a).run_ns + usage(a).kept_ns) * 2 > usage(b).run_ns);
}

/* No other entity wants the device: no wake-up is asked for, however short the gaps. */
static void test_kept_sleeps(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 300);

        (void) add(h, 0, 100);
        launches(a, 20);
        ready(a);
        idle(a);
        assert_int_equal(h->wake_ns, NSEC_INFINITY);
        assert_int_equal(usage(a).kept_ns, 0);
}

/* Where equals contend, no first launch is made in another's turn. */
static void test_no_launch_in_anothers_turn(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0, 100), *b = add(h, 0, 100);

        ready(a);
        assert_true(granted(b)); /* no entity has contended yet */
        ready(b);
        idle(b);
        assert_false(granted(b));
        harness_run(h, 200 * MSEC);
        assert_true(granted(b)); /* the contention is long ago */
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_tail),
                        cmocka_unit_test(test_tail_is_not_awaited_for_long),
                        cmocka_unit_test(test_precedence_does_not_wait),
                        cmocka_unit_test(test_turns_of_minima_wait),
                        cmocka_unit_test(test_long_tails_of_minima),
                        cmocka_unit_test(test_starved_do_not_wait),
                        cmocka_unit_test(test_own_tail),
                        cmocka_unit_test(test_tail_is_not_washed_off),
                        cmocka_unit_test(test_tail_is_bounded),
                        cmocka_unit_test(test_tail_of_the_stopped),
                        cmocka_unit_test(test_tail_and_maximum),
                        cmocka_unit_test(test_two_places),
                        cmocka_unit_test(test_kept),
                        cmocka_unit_test(test_equals_do_not_idle),
                        cmocka_unit_test(test_who_is_waited_for),
                        cmocka_unit_test(test_equals_lose),
                        cmocka_unit_test(test_kept_sleeps),
                        cmocka_unit_test(test_no_launch_in_anothers_turn),
        };

        return cmocka_run_group_tests_name("policy-charge", tests, NULL, NULL);
}
