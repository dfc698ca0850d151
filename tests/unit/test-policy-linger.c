/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The device is kept from lower tiers for a job that is expected back
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-steps.h"

#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

static Harness *make(void) {
        const PolicyConfig c = POLICY_CONFIG_DEFAULT;

        return harness_new(&c, true, 0);
}

static void burst(Job *j, unsigned n, uint64_t gap_ns) {
        for (unsigned i = 0; i < n; i++) {
                ready(j);
                harness_run(j->h, 100 * USEC);
                idle(j);
                harness_run(j->h, gap_ns);
        }
}

static void test_linger(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Job *high = add(h, 1), *low = add(h, 0);

        ready(low);
        ready(high);
        idle(high);
        assert_true(granted(low)); /* no gap is known yet */
        burst(high, 10, 80 * USEC);

        ready(high);
        harness_run(h, 100 * USEC);
        idle(high);
        assert_true(granted(high) && !granted(low));
        assert_int_equal(h->wake_ns, h->now_ns + 100 * USEC);
        harness_run(h, 99 * USEC);
        assert_true(!granted(low));
        harness_run(h, USEC);
        assert_true(granted(low));
        assert_int_equal(h->wake_ns, NSEC_INFINITY);

        /* An equal is not kept waiting. */
        Job *equal = add(h, 1);
        ready(high);
        ready(equal);
        idle(high);
        assert_true(granted(equal));
        idle(equal);
        assert_true(!granted(low));

        /* If it is turned off meanwhile, the keeping ends at once. */
        PolicyConfig c = h->config;
        c.linger_ns = 0;
        harness_configure(h, &c);
        harness_dispatch(h);
        assert_true(granted(low));
}

/* The habit changes: after some long gaps the device is not kept for it any more. */
static void test_unlearns(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Job *high = add(h, 1), *low = add(h, 0);

        ready(low);
        burst(high, 20, 80 * USEC);
        ready(high);
        idle(high);
        assert_true(!granted(low));
        harness_run(h, MSEC);
        burst(high, 16, 10 * MSEC);
        ready(high);
        idle(high);
        assert_true(granted(low));
}

/* What a late end of keeping costs others is bounded by what the keeping was right about: a hundredth of it; and
 * nothing after it was not. */
static void test_may_end_late(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Job *high = add(h, 1), *low = add(h, 0);

        ready(low);
        burst(high, 16, 80 * USEC);
        for (uint64_t kept_ns = 0; kept_ns < 20 * MSEC; kept_ns += 80 * USEC) {
                ready(high);
                assert_int_equal(policy_latest(h->policy), h->wake_ns);
                harness_run(h, 100 * USEC);
                idle(high);
                assert_int_equal(h->wake_ns, h->now_ns + 100 * USEC);
                assert_in_range(policy_latest(h->policy) - h->wake_ns, kept_ns / 100, (kept_ns + 80 * USEC * 16) / 100);
                harness_run(h, 80 * USEC);
        }
        ready(high);
        idle(high);
        uint64_t latest = policy_latest(h->policy);
        assert_true(latest > h->wake_ns);

        /* Something that is due for another reason is due then. */
        Job *middle = add(h, 1);
        ready(middle);
        assert_true(h->wake_ns > h->now_ns);
        assert_int_equal(policy_latest(h->policy), h->wake_ns);
        idle(middle);
        harness_pass(h, latest - h->now_ns);
        harness_dispatch(h);
        assert_true(granted(low));

        burst(high, 1, 80 * USEC);
        ready(high);
        idle(high);
        assert_true(!granted(low));
        assert_in_range(policy_latest(h->policy) - h->wake_ns, 0, 1 * USEC);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_linger),
                        cmocka_unit_test(test_unlearns),
                        cmocka_unit_test(test_may_end_late),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
