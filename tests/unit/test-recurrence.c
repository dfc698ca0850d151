/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The known answer of xsched-demo's kernels: the short computation equals the long one, and no other input gives it
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tools/demo/recurrence.h"

static uint32_t long_way(uint32_t x, uint32_t n) {
        const Affine step = AFFINE_STEP;

        while (n-- > 0)
                x = step.a * x + step.c;
        return x;
}

static void test_short_cut(void **state) {
        static const uint32_t counts[] = {0, 1, 2, 3, 31, 32, 33, 1000, 65535, 65536, 1234567};

        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
                for (uint32_t item = 0; item < 5; item++) {
                        uint32_t x = recurrence_start(7, item);

                        assert_int_equal(affine_apply(affine_power(AFFINE_STEP, counts[i]), x), long_way(x, counts[i]));
                }
}

static void test_composition(void **state) {
        Affine whole = affine_power(AFFINE_STEP, 100000);
        Affine parts = affine_then(affine_power(AFFINE_STEP, 1), affine_power(AFFINE_STEP, 99999));

        assert_int_equal(whole.a, parts.a);
        assert_int_equal(whole.c, parts.c);

        /* More rounds than a counter of 32 bits holds. */
        Affine big = affine_power(AFFINE_STEP, (UINT64_C(1) << 32) + 5);
        Affine small = affine_power(AFFINE_STEP, 5);
        assert_int_equal(big.a, small.a);
        assert_int_equal(big.c, small.c);
}

/* One round or one kernel too few or too many is noticed. */
static void test_sensitivity(void **state) {
        const uint64_t rounds = 50000;

        for (uint32_t item = 0; item < 1000; item++) {
                uint32_t x = recurrence_start(1, item);
                uint32_t right = affine_apply(affine_power(AFFINE_STEP, 100 * rounds), x);

                assert_int_not_equal(right, affine_apply(affine_power(AFFINE_STEP, 100 * rounds - 1), x));
                assert_int_not_equal(right, affine_apply(affine_power(AFFINE_STEP, 99 * rounds), x));
                assert_int_not_equal(right, affine_apply(affine_power(AFFINE_STEP, 101 * rounds), x));
                assert_int_not_equal(x, recurrence_start(2, item));
        }
}

static void test_order(void **state) {
        assert_int_not_equal(recurrence_order(recurrence_order(0, 0), 1), recurrence_order(recurrence_order(0, 1), 0));
        assert_int_not_equal(recurrence_order(0, 0), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_short_cut),
                        cmocka_unit_test(test_composition),
                        cmocka_unit_test(test_sensitivity),
                        cmocka_unit_test(test_order),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
