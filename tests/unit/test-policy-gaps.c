/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Learning idle gaps
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy/gaps.h"

#define LIMIT (300 * NSEC_PER_USEC)

static void learn(Gaps *g, size_t times, uint64_t gap_us) {
        for (size_t i = 0; i < times; i++)
                gaps_learn(g, gap_us * NSEC_PER_USEC);
}

static void test_nothing_known(void **state) {
        Gaps g = {};

        assert_int_equal(gaps_worth_waiting(&g, LIMIT), 0);
}

static void test_short_gaps(void **state) {
        Gaps g = {};

        learn(&g, 5, 40);
        assert_int_equal(gaps_worth_waiting(&g, LIMIT), 50 * NSEC_PER_USEC);
        assert_int_equal(gaps_worth_waiting(&g, 45 * NSEC_PER_USEC), 45 * NSEC_PER_USEC);
        assert_int_equal(gaps_worth_waiting(&g, 39 * NSEC_PER_USEC), 0);
        assert_int_equal(gaps_worth_waiting(&g, 0), 0);
}

static void test_long_gaps(void **state) {
        Gaps g = {};

        learn(&g, GAPS_MAX, 20000);
        assert_int_equal(gaps_worth_waiting(&g, LIMIT), 0);
}

/* Bursts: nine short gaps and a long one. It is worth waiting for the short ones only. */
static void test_bursts(void **state) {
        Gaps g = {};

        for (size_t i = 0; i < 4; i++) {
                learn(&g, 9, 40);
                learn(&g, 1, 18000);
        }
        assert_int_equal(gaps_worth_waiting(&g, LIMIT), 50 * NSEC_PER_USEC);
}

/* One gap in four just below the limit is not worth three waits for nothing. */
static void test_not_worth_it(void **state) {
        Gaps g = {};

        for (size_t i = 0; i < 4; i++) {
                learn(&g, 1, 290);
                learn(&g, 3, 5000);
        }
        assert_int_equal(gaps_worth_waiting(&g, LIMIT), 0);
}

static void test_forgets(void **state) {
        Gaps g = {};

        learn(&g, GAPS_MAX, 40);
        learn(&g, GAPS_MAX, 5000);
        assert_int_equal(gaps_worth_waiting(&g, LIMIT), 0);
        learn(&g, GAPS_MAX, 80);
        assert_int_equal(gaps_worth_waiting(&g, LIMIT), 100 * NSEC_PER_USEC);
}

static void test_never_beyond_limit(void **state) {
        Random r = {.state = 1};
        Gaps g = {};

        for (size_t i = 0; i < 20000; i++) {
                uint64_t limit = random_log(&r, 1, NSEC_PER_SEC);

                gaps_learn(&g, random_chance(&r, 2) ? NSEC_INFINITY : random_log(&r, 1, NSEC_PER_SEC));
                assert_true(gaps_worth_waiting(&g, limit) <= limit);
                (void) gaps_worth_waiting(&g, NSEC_INFINITY);
        }
}

/* The rule as it is written in gaps.h, by adding up every candidate's gains and losses. */
static uint64_t naive_worth_waiting(const Gaps *g, uint64_t limit_ns) {
        uint64_t best = 0, best_gain = 0;

        for (size_t i = 0; i < g->n; i++) {
                uint64_t gap = g->ns[i], wait = MIN(ns_add(gap, gap / 4), limit_ns), gain = 0, loss = 0;

                if (gap > limit_ns)
                        continue;
                for (size_t k = 0; k < g->n; k++)
                        if (g->ns[k] <= gap)
                                gain = ns_add(gain, limit_ns - g->ns[k]);
                        else
                                loss = ns_add(loss, wait);
                gain = ns_sub(gain, loss);
                if (gain > best_gain || (gain == best_gain && gap < best)) {
                        best = gap;
                        best_gain = gain;
                }
        }
        return MIN(ns_add(best, best / 4), limit_ns);
}

/* Random gaps: of few different lengths, so that many are equal, and of any length. */
static void test_as_the_rule_says(void **state) {
        Random r = {.state = 2};
        size_t n_waited = 0;

        for (size_t run = 0; run < 500; run++) {
                Gaps g = {};
                bool few = random_chance(&r, 50);

                for (size_t i = 0; i < 3 * (size_t) GAPS_MAX; i++) {
                        uint64_t limit = random_chance(&r, 5) ? NSEC_INFINITY : random_log(&r, 1, NSEC_PER_SEC);
                        uint64_t wait = naive_worth_waiting(&g, limit);

                        assert_true(gaps_worth_waiting(&g, limit) == wait);
                        n_waited += wait > 0;
                        gaps_learn(&g,
                                        random_chance(&r, 10) ? NSEC_INFINITY
                                                              : random_log(&r, 1, few ? 8 : NSEC_PER_SEC));
                }
        }
        assert_true(n_waited > 1000);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_nothing_known),
                        cmocka_unit_test(test_short_gaps),
                        cmocka_unit_test(test_long_gaps),
                        cmocka_unit_test(test_bursts),
                        cmocka_unit_test(test_not_worth_it),
                        cmocka_unit_test(test_forgets),
                        cmocka_unit_test(test_never_beyond_limit),
                        cmocka_unit_test(test_as_the_rule_says),
        };

        return cmocka_run_group_tests_name("policy-gaps", tests, NULL, NULL);
}
