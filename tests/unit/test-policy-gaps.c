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

/* Bursts: nine short gaps and a long one. Waits for the short ones only. */
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
                uint64_t limit = random_log(&r, 0, NSEC_PER_SEC);

                gaps_learn(&g, random_chance(&r, 2) ? NSEC_INFINITY : random_log(&r, 1, NSEC_PER_SEC));
                assert_true(gaps_worth_waiting(&g, limit) <= limit);
                (void) gaps_worth_waiting(&g, NSEC_INFINITY);
        }
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
        };

        return cmocka_run_group_tests_name("policy-gaps", tests, NULL, NULL);
}
