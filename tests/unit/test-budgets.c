/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Budgets: buckets, when a thread is too busy for real time, and what names in the file-descriptor store take
 */

#include <time.h>

#include "common/bucket.h"
#include "service/base/fdstore.h"
#include "service/base/realtime.h"
#include "tests/lib/unit.h"

static void test_bucket(void **state) {
        const uint64_t room = 10;
        Bucket b = {};

        assert_true(bucket_has_credit(&b, 100, room));
        assert_true(bucket_is_empty(&b, 100));
        bucket_take(&b, 100, 10);
        assert_true(bucket_has_credit(&b, 100, room));
        bucket_take(&b, 100, 5);
        assert_false(bucket_has_credit(&b, 100, room));
        assert_int_equal(bucket_credit_at(&b, 100, room), 105);
        assert_false(bucket_has_credit(&b, 104, room));
        assert_true(bucket_has_credit(&b, 105, room));
        assert_false(bucket_is_empty(&b, 114));
        assert_true(bucket_is_empty(&b, 115));

        /* An unused bucket does not save up credit. */
        bucket_take(&b, 1000, 11);
        assert_false(bucket_has_credit(&b, 1000, room));
        bucket_take(&b, 1000, UINT64_MAX);
        assert_int_equal(b.empty_at, UINT64_MAX);
}

static void use_cpu(uint64_t ns) {
        struct timespec t;
        uint64_t begin = 0, now;

        do {
                assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
                now = (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
                begin = begin > 0 ? begin : now;
        } while (now - begin < ns);
}

static void test_busy(void **state) {
        RealtimeLoad l = {};
        uint64_t now = NSEC_PER_SEC;

        assert_false(realtime_is_busy(&l, now));
        use_cpu(REALTIME_WINDOW_NS / 10);
        assert_false(realtime_is_busy(&l, now + REALTIME_WINDOW_NS - 1)); /* the window is not over yet */
        use_cpu(REALTIME_WINDOW_NS / 2);
        now += REALTIME_WINDOW_NS;
        assert_true(realtime_is_busy(&l, now));
        now += REALTIME_WINDOW_NS;
        use_cpu(REALTIME_WINDOW_NS / 3);
        assert_true(realtime_is_busy(&l, now)); /* not calm yet */
        now += 10 * REALTIME_WINDOW_NS;
        assert_false(realtime_is_busy(&l, now));
}

static void test_names(void **state) {
        assert_int_equal(fdstore_names_size(7), strlen("c7-page:c7-lifeline:c7-wake:c7-pidfd:c7-meta:"));
        assert_int_equal(fdstore_names_size(4711) - fdstore_names_size(7), _FD_ROLE_MAX * strlen("000"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_bucket),
                        cmocka_unit_test(test_busy),
                        cmocka_unit_test(test_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
