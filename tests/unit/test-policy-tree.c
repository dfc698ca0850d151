/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tree policy, one rule of the contract at a time
 *
 * The harness checks every invariant and compares with the oracle after each dispatch; the cases here show policy.h's
 * rules in particular situations.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-steps.h"

/* The figures below are computed for slices of 5 ms. */
static PolicyConfig config_with_short_slices(void) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.timeslice_ns = 5 * NSEC_PER_MSEC;
        return c;
}

#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

static Harness *make(uint32_t concurrency) {
        PolicyConfig c = config_with_short_slices();

        c.concurrency = concurrency;
        return harness_new(&c, true, 0);
}

static void test_find(void **state) {
        assert_ptr_equal(policy_find("tree"), &policy_tree_ops);
        assert_ptr_equal(policy_all[0], &policy_tree_ops);
        assert_ptr_equal(policy_find("HHPF"), policy_find("hhpf")); /* XSched writes them in capitals */
        assert_null(policy_find("nonesuch"));
        assert_null(policy_find(""));
}

static void test_bad_config(void **state) {
        static const PolicyCallbacks callbacks = {};
        PolicyConfig c = config_with_short_slices();
        Policy *p = NULL;

        c.concurrency = 0;
        assert_int_equal(policy_tree_ops.new(&c, &callbacks, &p), -EINVAL);
        c = config_with_short_slices();
        c.timeslice_ns = 0;
        assert_int_equal(policy_tree_ops.new(&c, &callbacks, &p), -EINVAL);
        c.timeslice_ns = NSEC_INFINITY;
        assert_int_equal(policy_tree_ops.new(&c, &callbacks, &p), -EINVAL);
        c = config_with_short_slices();
        c.starve_run_ns = c.starve_ns + 1;
        assert_int_equal(policy_tree_ops.new(&c, &callbacks, &p), -EINVAL);
        assert_null(p);

        c = config_with_short_slices();
        assert_int_equal(policy_tree_ops.new(&c, &callbacks, &p), 0);
        c.concurrency = 0;
        assert_int_equal(policy_tree_ops.configure(p, &c, 1), -EINVAL);
        assert_null(policy_tree_ops.free(p));
}

/* Alone on the device: no grant is ever reported, no wake-up asked for. */
static void test_alone(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0);

        for (unsigned i = 0; i < 100; i++) {
                ready(a);
                harness_run(h, i * MSEC);
                idle(a);
                harness_run(h, i * MSEC);
        }
        assert_int_equal(h->seen.n_grants, 0);
        assert_int_equal(h->wake_ns, NSEC_INFINITY);
        assert_int_equal(a->usage.wait_ns, 0);
}

static void test_higher_preempts_at_once(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *low = add(h, 0), *high = add(h, 1);

        ready(low);
        assert_true(granted(low) && granted(high));
        assert_int_equal(low->grant.threshold, h->config.threshold);
        ready(high);
        assert_true(granted(high) && !granted(low));
        assert_int_equal(high->grant.threshold, 0);
        assert_int_equal(low->usage.n_preempted, 1);
        harness_run(h, 500 * MSEC);
        assert_true(!granted(low));
        idle(high);
        assert_true(granted(low));
}

static void test_equals_take_slices(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0), *b = add(h, 0);

        ready(a);
        assert_int_equal(a->grant.threshold, 0);
        ready(b);
        assert_true(granted(a) && !granted(b));
        assert_int_equal(a->grant.threshold, h->config.threshold);
        for (unsigned i = 0; i < 10; i++) {
                assert_int_equal(h->wake_ns, h->now_ns + 5 * MSEC);
                harness_run(h, 5 * MSEC);
                assert_true(granted(i % 2 ? a : b) && !granted(i % 2 ? b : a));
        }

        /* One job goes idle: the bound stays while that is recent, then the device is the other's alone. */
        idle(b);
        harness_run(h, 99 * MSEC);
        assert_int_equal(a->grant.threshold, h->config.threshold);
        harness_run(h, 2 * MSEC);
        assert_int_equal(a->grant.threshold, 0);

        /* If the job is removed, the bound ends at once. */
        ready(b);
        assert_int_equal(a->grant.threshold, h->config.threshold);
        harness_remove(b);
        harness_dispatch(h);
        assert_true(granted(a));
        assert_int_equal(a->grant.threshold, 0);
}

static void test_own_threshold(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = harness_add(h, (PolicySettings){.weight = 100, .threshold = 7});

        ready(a);
        assert_int_equal(a->grant.threshold, 0);
        (void) add(h, 5);
        harness_dispatch(h);
        assert_int_equal(a->grant.threshold, 7);
        harness_set(a, (PolicySettings){.weight = 100, .threshold = 0});
        harness_dispatch(h);
        assert_int_equal(a->grant.threshold, h->config.threshold);
        harness_set(a, (PolicySettings){.weight = 100, .priority = 6});
        harness_dispatch(h);
        assert_int_equal(a->grant.threshold, 0);
}

/* A job that a higher tier interrupted goes on with the rest of its slice. */
static void test_interrupted_slice(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0), *b = add(h, 0), *high = add(h, 1);

        ready(a);
        ready(b);
        harness_run(h, 3 * MSEC);
        for (unsigned i = 0; i < 3; i++) {
                assert_true(granted(a) && !granted(b));
                ready(high);
                assert_true(!granted(a) && !granted(b));
                harness_run(h, MSEC);
                idle(high);
        }
        assert_true(granted(a));
        harness_run(h, 2 * MSEC);
        assert_true(granted(b) && !granted(a));
}

static void test_sticky(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0), *b = add(h, 0);

        (void) add(h, 1);
        ready(a);
        idle(a);
        assert_true(granted(a) && !granted(b)); /* a ran last, and no other job is ready */
        ready(b);
        assert_true(granted(b) && !granted(a));
        idle(b);
        assert_true(granted(b) && !granted(a));
        assert_int_equal(h->wake_ns, NSEC_INFINITY);
}

static size_t count_granted(Job *const *jobs, size_t n) {
        size_t granted_n = 0;

        for (size_t i = 0; i < n; i++)
                granted_n += granted(jobs[i]);
        return granted_n;
}

/* In a big highest tier only the most recent jobs are granted in advance, and each event costs a few grants. Where jobs
 * come in turns, the most recent are never the next. Then none is granted in advance, until one of them is the next. No
 * grant stands, because there is a minimum. */
static void test_advance_is_bounded(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *jobs[40], *last = NULL;

        (void) harness_add_node(h, NULL, (PolicyNodeSettings){.weight = POLICY_WEIGHT_DEFAULT, .min = 1});
        for (size_t i = 0; i < ELEMENTSOF(jobs); i++)
                jobs[i] = add(h, 3);
        harness_dispatch(h);
        assert_int_equal(count_granted(jobs, ELEMENTSOF(jobs)), POLICY_ADVANCE_MAX);

        for (size_t i = 0; i < ELEMENTSOF(jobs); i++) {
                ready(jobs[i]);
                assert_true(h->n_got <= (i == POLICY_ADVANCE_MISSES - 1 ? POLICY_ADVANCE_MAX + 1 : 2));
                idle(jobs[i]);
                assert_true(h->n_got <= 2);
                assert_true(granted(jobs[i]));
                assert_int_equal(count_granted(jobs, ELEMENTSOF(jobs)),
                                i < POLICY_ADVANCE_MISSES - 1 ? POLICY_ADVANCE_MAX : 1);
        }
        last = jobs[ELEMENTSOF(jobs) - 2];
        ready(last);
        idle(last);
        assert_int_equal(count_granted(jobs, ELEMENTSOF(jobs)), POLICY_ADVANCE_MAX);

        /* With a new highest tier they are no longer granted in advance. */
        Job *top = add(h, 4);
        harness_dispatch(h);
        assert_int_equal(count_granted(jobs, ELEMENTSOF(jobs)), 1);
        assert_true(granted(top) && granted(last));
        harness_remove(top);
        harness_dispatch(h);
        assert_true(granted(jobs[ELEMENTSOF(jobs) - POLICY_ADVANCE_MAX]));
        assert_false(granted(jobs[ELEMENTSOF(jobs) - POLICY_ADVANCE_MAX - 1]));
}

/* A crowd of sleepers, all with a credit or a debt: the latest are remembered. The oracle computes which. */
static void test_many_sleepers(void **state) {
        PolicyConfig c = config_with_short_slices();

        c.starve_ns = c.starve_run_ns = 0;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        Job *jobs[100];

        for (size_t i = 0; i < ELEMENTSOF(jobs); i++)
                jobs[i] = harness_add(h, (PolicySettings){.weight = (uint32_t) (50 + i)});
        for (unsigned round = 0; round < 3; round++) {
                for (size_t i = 0; i < ELEMENTSOF(jobs); i++)
                        ready(jobs[i]);
                harness_run(h, 60 * MSEC);
                for (size_t i = 1; i < ELEMENTSOF(jobs); i++)
                        idle(jobs[i]);
                harness_run(h, 20 * MSEC);
        }
}

static void test_concurrency(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(2);
        Job *a = add(h, 0), *b = add(h, 0), *c = add(h, 0), *low = add(h, -1);
        PolicyConfig config = h->config;

        ready(a);
        ready(low);
        assert_true(!granted(low)); /* a free place is not given to a lower tier */
        ready(b);
        assert_int_equal(a->grant.threshold, 0); /* no job waits for a or b */
        assert_true(granted(a) && granted(b));
        ready(c);
        assert_true(granted(a) && granted(b) && !granted(c));
        assert_int_equal(a->grant.threshold, config.threshold);

        config.concurrency = 1;
        harness_configure(h, &config);
        harness_dispatch(h);
        assert_int_equal(granted(a) + granted(b) + granted(c), 1);
        config.concurrency = 3;
        harness_configure(h, &config);
        harness_dispatch(h);
        assert_true(granted(a) && granted(b) && granted(c) && !granted(low));
}

/* A heavy job with time to make up for comes first when it is back; a light job does not interrupt a heavy one's
 * slice. */
static void test_wake_up(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *light = harness_add(h, (PolicySettings){.weight = 10}),
            *heavy = harness_add(h, (PolicySettings){.weight = 1000});

        ready(light);
        ready(heavy);
        assert_true(granted(heavy) && !granted(light));
        harness_run(h, MSEC);
        idle(heavy);
        assert_true(granted(light));
        ready(heavy); /* has had its share of the first millisecond */
        assert_true(granted(light) && !granted(heavy));
        harness_run(h, 5 * MSEC);
        assert_true(granted(heavy));
}

static void test_starved(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *high = add(h, 1), *a = add(h, 0), *b = add(h, -1);

        ready(high);
        ready(a);
        harness_run(h, MSEC);
        ready(b);
        harness_run(h, 999 * MSEC);
        assert_true(granted(high) && granted(a) && !granted(b));
        harness_run(h, 10 * MSEC);
        assert_true(granted(high) && !granted(a) && !granted(b));
        harness_run(h, 990 * MSEC);
        assert_true(granted(high) && !granted(a) && granted(b));
        harness_run(h, 10 * MSEC);
        assert_true(!granted(b));
        harness_run(h, 990 * MSEC);
        assert_true(granted(a) && !granted(b));
        assert_int_equal(high->usage.wait_ns, 0);

        /* A turn ends with its owner's work, and the next one begins at its own time. */
        idle(a);
        assert_true(!granted(a) && !granted(b));
        harness_run(h, 999 * MSEC);
        assert_true(!granted(b));
        harness_run(h, MSEC);
        assert_true(granted(b));
}

static void test_no_floor(void **state) {
        PolicyConfig c = config_with_short_slices();

        c.starve_run_ns = 0;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        Job *high = add(h, 1), *low = add(h, 0);

        ready(high);
        ready(low);
        assert_int_equal(h->wake_ns, NSEC_INFINITY);
        harness_run(h, 100 * NSEC_PER_SEC);
        assert_int_equal(low->usage.run_ns, 0);
}

/* The caller was away for an hour: the time is accounted in full, changes no shares, and the policy is fair again at
 * once. */
static void test_time_jumps(void **state) {
        PolicyConfig c = config_with_short_slices();

        c.starve_ns = c.starve_run_ns = 0;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        Job *a = add(h, 0), *b = add(h, 0);

        ready(a);
        ready(b);
        harness_pass(h, 3600 * NSEC_PER_SEC);
        harness_dispatch(h);
        assert_int_equal(a->usage.run_ns, 3600 * NSEC_PER_SEC);
        assert_int_equal(b->usage.wait_ns, 3600 * NSEC_PER_SEC);

        uint64_t before = a->usage.run_ns;
        harness_run(h, 40 * MSEC);
        assert_in_range(a->usage.run_ns - before, 15 * MSEC, 25 * MSEC);
        assert_in_range(b->usage.run_ns, 15 * MSEC, 25 * MSEC);
}

/* The caller comes late, by many slices, at every end of a slice of one of two: the late job's time is charged, and
 * made up for. */
static void test_late(void **state) {
        PolicyConfig c = config_with_short_slices();

        c.starve_ns = c.starve_run_ns = 0;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        Job *a = add(h, 0), *b = add(h, 0);

        ready(a);
        ready(b);
        harness_dispatch(h);
        for (unsigned i = 0; i < 1000; i++) {
                harness_pass(h, h->wake_ns - h->now_ns + (granted(a) ? POLICY_LATE_MAX / 10 : 0));
                harness_dispatch(h);
        }
        assert_true(a->usage.run_ns > 10 * NSEC_PER_SEC);
        assert_in_range(b->usage.run_ns, a->usage.run_ns / 100 * 98, a->usage.run_ns / 100 * 102);
}

/* A caller's clock goes back: such times are ignored. */
static void test_time_goes_back(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = add(h, 0);
        PolicyUsage u;

        ready(a);
        harness_run(h, 10 * MSEC);
        h->ops->entity_idle(a->entity, 5);
        h->ops->entity_ready(a->entity, 6);
        h->ops->dispatch(h->policy, 7);
        h->ops->entity_usage(a->entity, 8, &u);
        assert_int_equal(u.run_ns, 10 * MSEC);
        policy_find("tree")->entity_usage(a->entity, h->now_ns + 5, &u);
        assert_int_equal(u.run_ns, 10 * MSEC + 5);
}

static void test_settings_out_of_range(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make(1);
        Job *a = harness_add(h, (PolicySettings){.priority = 256, .weight = 0});
        Job *b = harness_add(h, (PolicySettings){.priority = -9999, .weight = UINT32_MAX});

        ready(b);
        ready(a);
        assert_true(granted(a) && !granted(b));
        harness_set(b, (PolicySettings){.priority = INT32_MAX, .weight = UINT32_MAX});
        harness_dispatch(h);
        harness_run(h, 20 * MSEC);
        assert_true(granted(b));
}

/* Frees an entity in each of its states: running, waiting, owed a turn, lingered for, last, granted in advance,
 * held. */
static void test_free_in_any_state(void **state) {
        for (unsigned which = 0; which < 7; which++) {
                _cleanup_(harness_freep)
                Harness *h = make(1);
                Job *high = add(h, 1), *low = add(h, 0), *other = add(h, 0), *victim = NULL;

                ready(low);
                for (unsigned i = 0; i < 10; i++) {
                        ready(high);
                        harness_run(h, 100 * USEC);
                        idle(high);
                        harness_run(h, 80 * USEC);
                }
                switch (which) {
                case 0:
                        victim = low;
                        break;
                case 1:
                        ready(other);
                        victim = other;
                        break;
                case 2:
                        ready(high);
                        harness_run(h, NSEC_PER_SEC + MSEC);
                        victim = low;
                        assert_true(granted(low));
                        break;
                case 3:
                        ready(high);
                        idle(high);
                        assert_false(granted(low));
                        victim = high;
                        break;
                case 4:
                        idle(low);
                        victim = low;
                        break;
                case 5:
                        victim = high;
                        break;
                case 6:
                        victim = other;
                        break;
                }
                harness_remove(victim);
                harness_dispatch(h);
                harness_run(h, 3 * NSEC_PER_SEC);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_find),
                        cmocka_unit_test(test_bad_config),
                        cmocka_unit_test(test_alone),
                        cmocka_unit_test(test_higher_preempts_at_once),
                        cmocka_unit_test(test_equals_take_slices),
                        cmocka_unit_test(test_own_threshold),
                        cmocka_unit_test(test_interrupted_slice),
                        cmocka_unit_test(test_sticky),
                        cmocka_unit_test(test_advance_is_bounded),
                        cmocka_unit_test(test_many_sleepers),
                        cmocka_unit_test(test_concurrency),
                        cmocka_unit_test(test_wake_up),
                        cmocka_unit_test(test_starved),
                        cmocka_unit_test(test_no_floor),
                        cmocka_unit_test(test_time_jumps),
                        cmocka_unit_test(test_late),
                        cmocka_unit_test(test_time_goes_back),
                        cmocka_unit_test(test_settings_out_of_range),
                        cmocka_unit_test(test_free_in_any_state),
        };

        return cmocka_run_group_tests_name("policy-tree", tests, NULL, NULL);
}
