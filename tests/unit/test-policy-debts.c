/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A node's debt outlives it: a node that is removed and made again by the same name still has it
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy/debt.h"

#define MSEC NSEC_PER_MSEC

static Harness *make(uint64_t timeslice_ns, bool tails) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.timeslice_ns = timeslice_ns;
        c.starve_ns = c.starve_run_ns = c.linger_ns = 0;

        Harness *h = harness_new(&c, true, 0);
        h->tails = tails;
        return h;
}

static Job *come(Harness *h, HarnessNode *parent, const char *name, uint32_t max) {
        PolicyNodeSettings s = {.weight = 100, .max = max, .period_ns = 100 * MSEC, .name = name};

        return harness_add_below(h, harness_add_node(h, parent, s), POLICY_SETTINGS_DEFAULT);
}

/* Removes the job. Returns its run time. */
static uint64_t leave(Job *j) {
        HarnessNode *n = j->node;
        uint64_t run_ns = n->run_ns;

        harness_remove(j);
        harness_remove_node(n);
        return run_ns;
}

static void drained(Job *j) {
        harness_drained(j);
        harness_dispatch(j->h);
}

/* Makes the job ready. If it is held, its launch waits at the gate. */
static void ready(Job *j) {
        harness_ready(j);
        harness_dispatch(j->h);
        if (j->grant.verdict == VERDICT_HOLD)
                drained(j);
}

static bool granted(const Job *j) {
        return j->grant.verdict == VERDICT_RUN;
}

/* A job with Max=20% that is started again every 7 ms. Its launches end with the job. */
static void test_max(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(20 * MSEC, false);
        uint64_t run_ns = 0;

        for (unsigned i = 0; i < 200; i++) {
                Job *j = come(h, NULL, "job", 20);

                ready(j);
                harness_run(h, 7 * MSEC);
                run_ns += leave(j);
                harness_dispatch(h);
        }
        assert_in_range(run_ns, 260 * MSEC, 300 * MSEC); /* of 1400 */
}

/* The maximum of a slice whose only member goes each time, with the same or another name for the next member. */
static void test_max_above(void **state) {
        for (unsigned other = 0; other < 2; other++) {
                _cleanup_(harness_freep)
                Harness *h = make(20 * MSEC, false);
                uint64_t run_ns = 0;

                for (unsigned i = 0; i < 200; i++) {
                        PolicyNodeSettings s = {.weight = 100, .max = 20, .period_ns = 100 * MSEC, .name = "slice"};
                        HarnessNode *slice = harness_add_node(h, NULL, s);
                        Job *j = come(h, slice, i % 2 == 0 || other == 0 ? "job" : "other", 0);

                        ready(j);
                        harness_run(h, 7 * MSEC);
                        (void) leave(j);
                        run_ns += slice->run_ns;
                        harness_remove_node(slice);
                        harness_dispatch(h);
                }
                assert_in_range(run_ns, 260 * MSEC, 300 * MSEC);
        }
}

/* An unused quota is lost, and a used one is forgotten with its period: the next period begins with the next use. */
static void test_max_is_over(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(20 * MSEC, false);
        Job *j = come(h, NULL, "job", 20);

        ready(j);
        harness_run(h, 20 * MSEC);
        assert_false(granted(j));
        (void) leave(j);
        harness_dispatch(h);
        assert_int_equal(h->wake_ns, NSEC_INFINITY); /* no entity waits for it */
        harness_run(h, 130 * MSEC);
        j = come(h, NULL, "job", 20);
        ready(j);
        harness_run(h, 19 * MSEC);
        assert_true(granted(j));
        harness_run(h, 1 * MSEC);
        assert_false(granted(j));
        harness_run(h, 79 * MSEC);
        assert_false(granted(j));
        harness_run(h, 1 * MSEC);
        assert_true(granted(j));
}

/* A job that had 60 ms too much leaves before the others had theirs. */
static void test_fair(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(5 * MSEC, true);
        Job *a = come(h, NULL, "a", 0), *b = come(h, NULL, "b", 0);

        ready(a);
        ready(b);
        harness_run(h, 5 * MSEC);
        assert_true(!granted(a) && !granted(b)); /* its tail is waited for */
        harness_run(h, 60 * MSEC);
        assert_true(!granted(a) && granted(b));
        drained(a);
        (void) leave(a);
        harness_dispatch(h);
        harness_run(h, MSEC);
        a = come(h, NULL, "a", 0);
        harness_dispatch(h);
        ready(a);
        for (unsigned i = 0; i < 50; i++) {
                assert_true(!granted(a) && granted(b));
                harness_run(h, MSEC);
        }
        harness_run(h, 20 * MSEC);
        assert_false(granted(b));
        drained(b);
        harness_dispatch(h);
        assert_true(granted(a));
}

/* The same with a change of tier and back: the branch of a tier without entities stays. */
static void test_fair_by_priority(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(5 * MSEC, true);
        Job *a = come(h, NULL, "a", 0), *b = come(h, NULL, "b", 0);
        PolicySettings s = a->settings;

        ready(a);
        ready(b);
        harness_run(h, 65 * MSEC);
        drained(a);
        s.priority--;
        harness_set(a, s);
        harness_dispatch(h);
        s.priority++;
        harness_set(a, s);
        harness_dispatch(h);
        for (unsigned i = 0; i < 50; i++) {
                assert_true(!granted(a) && granted(b));
                harness_run(h, MSEC);
        }
}

/* A job that has a credit when it goes has none when it comes back. */
static void test_credit(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(5 * MSEC, true);
        Job *a = come(h, NULL, "a", 0), *b = come(h, NULL, "b", 0);

        ready(a);
        ready(b);
        harness_run(h, 65 * MSEC);
        (void) leave(b);
        harness_dispatch(h);
        drained(a);
        harness_run(h, MSEC);
        b = come(h, NULL, "b", 0);
        harness_dispatch(h);
        ready(b);
        harness_run(h, 12 * MSEC);
        assert_true(a->usage.run_ns > 70 * MSEC);
}

/* A job whose launch runs on for longer than a queue remembers absent members owes all of it. */
static void test_long_tail(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(5 * MSEC, true);
        Job *a = come(h, NULL, "a", 0), *b = come(h, NULL, "b", 0);

        ready(a);
        harness_run(h, 2 * MSEC);
        ready(b);
        harness_run(h, 5 * MSEC);
        harness_idle(a);
        harness_tail(a);
        harness_dispatch(h);
        harness_run(h, 900 * MSEC);
        drained(a);
        ready(a);
        for (unsigned i = 0; i < 80; i++) {
                assert_true(!granted(a) && granted(b));
                harness_run(h, 10 * MSEC);
        }
}

/* Thousands of nodes leave debts: the latest are kept, up to the bound, until they are over. */
static void test_bound(void **state) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, false, 0);
        char names[3 * DEBT_MAX][16];
        const Policy *p = h->policy;

        for (unsigned i = 0; i < ELEMENTSOF(names); i++) {
                (void) snprintf(names[i], sizeof(names[i]), "%u", i);
                Job *j = come(h, NULL, names[i], 1);
                harness_dispatch(h);
                ready(j);
                harness_run(h, 10 * NSEC_PER_USEC);
                (void) leave(j);
                harness_dispatch(h);
                assert_true(p->n_gone + p->n_dormant <= DEBT_MAX);
        }
        assert_int_equal(p->n_gone, DEBT_MAX);
        Job *j = come(h, NULL, names[ELEMENTSOF(names) - 1], 1);
        assert_true(j->node->came_back);
        (void) leave(j);
        j = come(h, NULL, names[0], 1);
        assert_false(j->node->came_back);
        (void) leave(j);
        harness_run(h, 100 * MSEC);
        for (unsigned i = 0; i < DEBT_MAX / DEBT_LOOKS + 1; i++)
                (void) leave(come(h, NULL, "last", 1));
        assert_int_equal(p->n_gone, 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_max),
                        cmocka_unit_test(test_max_above),
                        cmocka_unit_test(test_max_is_over),
                        cmocka_unit_test(test_fair),
                        cmocka_unit_test(test_fair_by_priority),
                        cmocka_unit_test(test_credit),
                        cmocka_unit_test(test_long_tail),
                        cmocka_unit_test(test_bound),
        };

        return cmocka_run_group_tests_name("policy-debts", tests, NULL, NULL);
}
