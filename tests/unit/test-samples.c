/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Samples: percentiles by nearest rank, and the first and last ones
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/macro.h"
#include "common/samples.h"

static void test_percentile(void **state) {
        uint64_t v[200];

        for (size_t i = 0; i < ELEMENTSOF(v); i++)
                v[i] = i + 1;
        assert_int_equal(percentile(v, 100, 50), 50);
        assert_int_equal(percentile(v, 100, 99), 99);
        assert_int_equal(percentile(v, 100, 100), 100);
        assert_int_equal(percentile(v, 200, 99), 198);
        assert_int_equal(percentile(v, 200, 99.9), 200);
        assert_int_equal(percentile(v, 1, 0.1), 1);
        assert_int_equal(percentile(v, 3, 50), 2);
        assert_int_equal(percentile(v, 3, 0), 1);
}

static void test_empty(void **state) {
        Samples s = {};

        assert_null(samples_sorted(&s));
        assert_int_equal(samples_summary(&s).n, 0);
        assert_int_equal(samples_summary(&s).max_ns, 0);
        samples_done(&s);
}

static void test_summary(void **state) {
        Samples s = {};

        /* Descending samples, more than one allocation holds: their order in time is kept, and the summary does not
         * depend on it. */
        for (uint64_t i = 0; i < 1000; i++)
                assert_return_code(samples_add(&s, i, 1000 - i), 0);
        assert_int_equal(s.items[0].ns, 1000);
        assert_int_equal(s.items[999].at_ns, 999);

        Summary sum = samples_summary(&s);
        assert_int_equal(sum.n, 1000);
        assert_int_equal(sum.p50_ns, 500);
        assert_int_equal(sum.p90_ns, 900);
        assert_int_equal(sum.p99_ns, 990);
        assert_int_equal(sum.max_ns, 1000);
        assert_int_equal(sum.mean_ns, 500);

        _cleanup_free_ uint64_t *sorted = samples_sorted(&s);
        assert_non_null(sorted);
        for (size_t i = 0; i < 1000; i++)
                assert_int_equal(sorted[i], i + 1);
        samples_done(&s);
        assert_int_equal(s.n, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_percentile),
                        cmocka_unit_test(test_empty),
                        cmocka_unit_test(test_summary),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
