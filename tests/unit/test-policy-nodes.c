/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Nodes of the tree policy on a simulated device: shares level by level, maxima, minima, and their combinations
 *
 * Measured times are compared with arithmetic, not with the oracle, which compares step by step (test-policy-random.c).
 */

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "sanitized.h"

#define MSEC      NSEC_PER_MSEC
#define TOLERANCE 0.02

static PolicyConfig config_of(uint32_t concurrency, uint64_t timeslice_ns) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.concurrency = concurrency;
        c.timeslice_ns = timeslice_ns;
        c.starve_ns = c.starve_run_ns = 0;
        c.linger_ns = 0;
        return c;
}

static HarnessNode *add_node(Harness *h, HarnessNode *parent, uint32_t weight, uint32_t max, uint32_t min) {
        PolicyNodeSettings s = {.weight = weight, .max = max, .min = min, .period_ns = 100 * MSEC};

        return harness_add_node(h, parent, s);
}

/* Adds a job that is always ready. */
static Job *add_busy(Harness *h, HarnessNode *node, int priority, uint32_t weight) {
        Job *j = harness_add_below(h, node, (PolicySettings){.priority = priority, .weight = weight});

        harness_ready(j);
        return j;
}

static void check_share(const Harness *h, const char *whose, uint64_t got, double want, double allowed) {
        if ((double) got >= want - allowed && (double) got <= want + allowed)
                return;
        print_error("seed %" PRIu64 ", %s: got %" PRIu64 ", should be %.0f (%+.2f %%)\n", h->seed, whose, got, want,
                        100 * ((double) got - want) / want);
        fail();
}

/* --- shares --- */

/* Checks that the node's children and own jobs share `ns` by weight. */
static void check_level(const Harness *h, const HarnessNode *parent, double ns, double *least) {
        uint64_t weight = 0;

        for (size_t i = 0; i < h->n; i++)
                weight += h->jobs[i]->node == parent ? h->jobs[i]->settings.weight : 0;
        for (size_t i = 0; i < h->n_nodes; i++)
                weight += h->nodes[i]->parent == parent && !harness_node_is_empty(h->nodes[i])
                                ? h->nodes[i]->settings.weight
                                : 0;
        for (size_t i = 0; i < h->n; i++)
                if (h->jobs[i]->node == parent) {
                        double want = ns * h->jobs[i]->settings.weight / (double) weight;

                        *least = MIN(*least, want);
                        check_share(h, "a job", h->jobs[i]->usage.run_ns, want,
                                        want * TOLERANCE + 2 * (double) h->config.timeslice_ns);
                }
        for (size_t i = 0; i < h->n_nodes; i++)
                if (h->nodes[i]->parent == parent && !harness_node_is_empty(h->nodes[i])) {
                        double want = ns * h->nodes[i]->settings.weight / (double) weight;

                        check_share(h, "a node", h->nodes[i]->run_ns, want,
                                        want * TOLERANCE + 2 * (double) h->config.timeslice_ns);
                        check_level(h, h->nodes[i], want, least);
                }
}

/* Adds three levels of nodes and jobs with random weights. Now and then a node has jobs beside its nodes. */
static void add_random_tree(Harness *h, Random *r, HarnessNode *parent, unsigned depth) {
        for (uint64_t n = random_range(r, 1, 3); n > 0; n--) {
                uint32_t weight = (uint32_t) random_log(r, 50, 1000);

                if (depth == 0 || random_chance(r, 15))
                        add_busy(h, parent, 0, weight);
                else {
                        HarnessNode *node = add_node(h, parent, weight, 0, 0);

                        add_random_tree(h, r, node, depth - 1);
                }
        }
}

static void test_shares(void **state) {
        for (uint64_t seed = 1; seed <= DRAWN(40); seed++) {
                Random r = {.state = seed};
                PolicyConfig c = config_of(1, random_log(&r, 500000, 5 * MSEC));
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, false, seed);
                double least = (double) NSEC_INFINITY;
                uint64_t ns = 15000 * c.timeslice_ns;

                add_random_tree(h, &r, NULL, 3);
                harness_dispatch(h);
                harness_run(h, ns);
                check_level(h, NULL, (double) ns, &least);
        }
}

/* Jobs that come and go do not change what their node gets beside another that is always busy. */
static void test_sleepers_below(void **state) {
        PolicyConfig c = config_of(1, MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, false, 0);
        HarnessNode *busy = add_node(h, NULL, 100, 0, 0), *mixed = add_node(h, NULL, 300, 0, 0);
        Job *steady, *sleeper;
        Random r = {.state = 1};

        add_busy(h, busy, 0, 100);
        steady = add_busy(h, mixed, 0, 100);
        sleeper = add_busy(h, mixed, 0, 900);
        harness_dispatch(h);
        for (unsigned i = 0; i < 2000; i++) {
                if (sleeper->ready)
                        harness_idle(sleeper);
                else
                        harness_ready(sleeper);
                harness_dispatch(h);
                harness_run(h, random_range(&r, 1, 5 * MSEC));
        }
        uint64_t all = busy->run_ns + mixed->run_ns;
        check_share(h, "busy", busy->run_ns, (double) all / 4, (double) all / 4 * TOLERANCE);
        /* Half of the time the sleeper has nine tenths of the node. */
        check_share(h, "sleeper", sleeper->usage.run_ns, (double) mixed->run_ns * 0.45, (double) mixed->run_ns * 0.05);
        assert_int_equal(steady->usage.run_ns + sleeper->usage.run_ns, mixed->run_ns);
}

/* With several places a node gets its part of all of them, but no more than it has jobs for. A node that can use no
 * more than one leaves the rest to the others. */
static void test_places(void **state) {
        PolicyConfig c = config_of(3, MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *one = add_node(h, NULL, 5000, 0, 0), *many = add_node(h, NULL, 300, 0, 0),
                    *two = add_node(h, NULL, 100, 0, 0);
        uint64_t ns = 4000 * MSEC;

        add_busy(h, one, 0, 100);
        for (unsigned i = 0; i < 4; i++)
                add_busy(h, many, 0, 100);
        add_busy(h, two, 0, 100);
        add_busy(h, two, 0, 100);
        harness_dispatch(h);
        harness_run(h, ns);
        check_share(h, "one", one->run_ns, (double) ns, (double) ns * TOLERANCE);
        check_share(h, "many", many->run_ns, 1.5 * (double) ns, 1.5 * (double) ns * TOLERANCE);
        check_share(h, "two", two->run_ns, 0.5 * (double) ns, 0.5 * (double) ns * TOLERANCE);
}

/* --- priority --- */

/* Priorities are strict over the whole device: a heavy slice does not run beside a job of a higher tier in a light
 * one. */
static void test_priority_crosses_nodes(void **state) {
        PolicyConfig c = config_of(1, MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *light = add_node(h, NULL, 1, 0, 0), *heavy = add_node(h, NULL, 10000, 0, 0);
        const Job *low = add_busy(h, heavy, 0, 10000);
        Job *high = add_busy(h, light, 1, 1);

        harness_dispatch(h);
        harness_run(h, 50 * MSEC);
        assert_int_equal(low->usage.run_ns, 0);
        harness_idle(high);
        harness_dispatch(h);
        harness_run(h, 50 * MSEC);
        assert_int_equal(low->usage.run_ns, 50 * MSEC);
        assert_int_equal(heavy->run_ns, 50 * MSEC);
}

/* The floor reaches down into any node, but not past a maximum that is used up. */
static void test_floor_crosses_nodes(void **state) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *a = add_node(h, NULL, 100, 0, 0), *b = add_node(h, a, 100, 0, 0);
        HarnessNode *limited = add_node(h, NULL, 100, 1, 0);
        const Job *low = add_busy(h, b, -10, 1), *stopped = add_busy(h, limited, -10, 1);

        add_busy(h, NULL, 10, 100);
        harness_dispatch(h);
        harness_run(h, 100 * NSEC_PER_SEC);
        assert_in_range(low->usage.run_ns / c.starve_run_ns, 48, 100);
        assert_true(stopped->usage.run_ns > 10 * MSEC);
        assert_in_range(limited->run_ns, 0, 1000 * MSEC); /* 1 ms of every 100 */
}

/* --- maxima --- */

/* Never more than the quota in any period, on the grid that began when the maximum was set. */
static void check_periods(Harness *h, const HarnessNode *n, uint64_t quota_ns, unsigned periods) {
        uint64_t begin = n->run_ns;

        for (unsigned i = 0; i < periods; i++) {
                harness_run(h, n->settings.period_ns);
                assert_in_range(n->run_ns - begin, 0, quota_ns);
                begin = n->run_ns;
        }
}

static void test_max(void **state) {
        for (unsigned max = 1; max <= 100; max += 9) {
                PolicyConfig c = config_of(1, 20 * MSEC);
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, true, max);
                HarnessNode *n = add_node(h, NULL, 100, max, 0);
                const Job *a = add_busy(h, n, 5, 100), *b = add_busy(h, n, 0, 100), *other = add_busy(h, NULL, -5, 100);

                harness_dispatch(h);
                check_periods(h, n, max * MSEC, 20);
                assert_int_equal(n->run_ns, 20 * (uint64_t) max * MSEC); /* it uses all of its maximum */
                assert_int_equal(a->usage.run_ns, n->run_ns);            /* a goes first, by its order */
                assert_int_equal(b->usage.run_ns, 0);
                assert_int_equal(other->usage.run_ns, 2000 * MSEC - n->run_ns); /* and nothing is lost */
        }
}

/* Alone on the device it is stopped all the same, and no wake-up is asked for until the period ends. */
static void test_max_alone(void **state) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *n = add_node(h, NULL, 100, 25, 0);
        Job *j = add_busy(h, n, 0, 100);

        harness_dispatch(h);
        assert_true(job_runs(j));
        assert_int_equal(j->grant.threshold, c.threshold);
        assert_int_equal(h->wake_ns, h->now_ns + 25 * MSEC);
        harness_run(h, 25 * MSEC);
        assert_false(job_runs(j));
        assert_int_equal(h->wake_ns, h->now_ns + 75 * MSEC);
        harness_run(h, 75 * MSEC);
        assert_true(job_runs(j));

        harness_run(h, 30 * MSEC);
        harness_idle(j);
        harness_dispatch(h);
        assert_int_equal(h->wake_ns, NSEC_INFINITY); /* no entity waits for the end of the period */
        assert_int_equal(j->grant.verdict, VERDICT_HOLD);
        harness_ready(j);
        harness_dispatch(h);
        assert_int_equal(h->wake_ns, h->now_ns + 70 * MSEC);
        harness_set_node(n, (PolicyNodeSettings){.weight = 100, .period_ns = 100 * MSEC});
        harness_dispatch(h);
        assert_true(job_runs(j));
        assert_int_equal(j->grant.threshold, 0);
        assert_int_equal(h->wake_ns, NSEC_INFINITY);
}

/* The parent's maximum binds the children, whatever theirs are. */
static void test_max_of_parent_binds(void **state) {
        PolicyConfig c = config_of(1, 5 * MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *parent = add_node(h, NULL, 100, 40, 0);
        HarnessNode *a = add_node(h, parent, 100, 30, 0), *b = add_node(h, parent, 300, 0, 50);

        add_busy(h, a, 0, 100);
        add_busy(h, b, 0, 100);
        add_busy(h, b, 3, 100);
        add_busy(h, NULL, -1, 100);
        harness_dispatch(h);
        for (unsigned i = 0; i < 50; i++) {
                uint64_t begin = parent->run_ns, begin_a = a->run_ns;

                harness_run(h, 100 * MSEC);
                assert_int_equal(parent->run_ns - begin, 40 * MSEC);
                assert_in_range(a->run_ns - begin_a, 0, 30 * MSEC);
        }
}

/* A maximum above 100 % counts places. */
static void test_max_of_places(void **state) {
        PolicyConfig c = config_of(4, 5 * MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *n = add_node(h, NULL, 100, 150, 0);

        for (unsigned i = 0; i < 4; i++)
                add_busy(h, n, 0, 100);
        harness_dispatch(h);
        check_periods(h, n, 150 * MSEC, 20);
        assert_int_equal(n->run_ns, UINT64_C(20) * 150 * MSEC);
}

/* Time of a grant that was withdrawn too late is paid for in the next periods. */
static void test_max_is_owed(void **state) {
        PolicyConfig c = config_of(1, 20 * MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *n = add_node(h, NULL, 100, 10, 0);

        add_busy(h, n, 0, 100);
        harness_dispatch(h);
        harness_pass(h, 25 * MSEC); /* called 15 ms too late */
        harness_dispatch(h);
        assert_int_equal(h->wake_ns, h->now_ns + 175 * MSEC);
        harness_run(h, 375 * MSEC);
        assert_int_equal(n->run_ns, 40 * MSEC);
}

/* --- minima --- */

/* A minimum is served against any priority and weight, and comes on top of a share only where it is more. */
static void test_min(void **state) {
        for (unsigned min = 1; min <= 60; min += 7) {
                PolicyConfig c = config_of(1, 5 * MSEC);
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, true, min);
                HarnessNode *top = add_node(h, NULL, 100, 0, 0), *low = add_node(h, NULL, 1, 0, min);
                HarnessNode *inner = add_node(h, low, 100, 0, 0);
                uint64_t ns = 20 * NSEC_PER_SEC;

                add_busy(h, top, 10, 100);
                add_busy(h, inner, -10, 100);
                harness_dispatch(h);
                harness_run(h, ns);
                check_share(h, "low", low->run_ns, (double) ns * min / 100, (double) ns * min / 100 * TOLERANCE);
                assert_int_equal(low->run_ns + top->run_ns, ns);
        }
}

static void test_min_is_part_of_share(void **state) {
        static const struct {
                uint32_t weight, min, percent;
        } cases[] = {{100, 20, 50}, {100, 50, 50}, {100, 70, 70}, {25, 30, 30}, {300, 30, 75}};

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                PolicyConfig c = config_of(1, 2 * MSEC);
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, true, i);
                HarnessNode *a = add_node(h, NULL, cases[i].weight, 0, cases[i].min), *b = add_node(h, NULL, 100, 0, 0);
                uint64_t ns = 10 * NSEC_PER_SEC;
                double want = (double) ns * cases[i].percent / 100;

                add_busy(h, a, 0, 100);
                add_busy(h, b, 0, 100);
                add_busy(h, b, 0, 100);
                harness_dispatch(h);
                harness_run(h, ns);
                check_share(h, "a", a->run_ns, want, want * TOLERANCE);
                assert_int_equal(a->run_ns + b->run_ns, ns);
        }
}

/* Several minima, worth the whole device, and one inside another. */
static void test_minima(void **state) {
        PolicyConfig c = config_of(1, 5 * MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *a = add_node(h, NULL, 100, 0, 60), *b = add_node(h, NULL, 100, 0, 30);
        HarnessNode *inner = add_node(h, a, 1, 0, 20), *rest = add_node(h, a, 10000, 0, 0);
        uint64_t ns = 20 * NSEC_PER_SEC;

        add_busy(h, NULL, 10, 100);
        add_busy(h, inner, -1, 100);
        add_busy(h, rest, 1, 100);
        add_busy(h, b, 0, 100);
        harness_dispatch(h);
        harness_run(h, ns);
        check_share(h, "a", a->run_ns, (double) ns * 0.6, (double) ns * 0.6 * TOLERANCE);
        check_share(h, "b", b->run_ns, (double) ns * 0.3, (double) ns * 0.3 * TOLERANCE);
        check_share(h, "inner", inner->run_ns, (double) ns * 0.2, (double) ns * 0.2 * TOLERANCE);
}

/* A minimum's turn ends, too, where no other entity had to give way for it. Sleeping earns nothing. */
static void test_min_of_sleeper(void **state) {
        PolicyConfig c = config_of(1, 5 * MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *n = add_node(h, NULL, 100, 0, 10);
        Job *low = add_busy(h, n, -1, 100), *top = add_busy(h, NULL, 1, 100);

        harness_dispatch(h);
        harness_run(h, 40 * MSEC);
        harness_idle(low);
        harness_dispatch(h);
        harness_run(h, 1000 * MSEC);
        harness_ready(low);
        harness_dispatch(h);
        assert_int_equal(low->usage.run_ns, 0);
        assert_int_equal(h->wake_ns, h->now_ns + 10 * MSEC); /* 40 ms of 50 were waited for before */
        harness_run(h, 10 * MSEC);
        assert_true(job_runs(low) && !job_runs(top));
        harness_idle(top);
        harness_dispatch(h);
        assert_true(job_runs(low));
        assert_int_equal(h->wake_ns, NSEC_INFINITY);
}

/* --- coming, going, moving --- */

static void test_move(void **state) {
        PolicyConfig c = config_of(1, MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *a = add_node(h, NULL, 100, 0, 0), *b = add_node(h, NULL, 300, 20, 0);
        Job *j = add_busy(h, a, 0, 100), *mover = add_busy(h, a, 0, 100);

        add_busy(h, b, 0, 100);
        harness_dispatch(h);
        harness_run(h, 100 * MSEC);
        harness_move(mover, b);
        harness_dispatch(h);

        uint64_t before_b = b->run_ns, before_j = j->usage.run_ns;
        harness_run(h, 1000 * MSEC);
        assert_in_range(b->run_ns - before_b, 198 * MSEC, 202 * MSEC); /* its maximum binds the mover */
        assert_in_range(j->usage.run_ns - before_j, 798 * MSEC, 802 * MSEC);

        harness_move(mover, NULL); /* to the root: beside a and b, with its own weight */
        harness_dispatch(h);
        harness_set_node(b, (PolicyNodeSettings){.weight = 200, .period_ns = 100 * MSEC});
        harness_dispatch(h);
        uint64_t before = mover->usage.run_ns;
        harness_run(h, 4000 * MSEC);
        assert_in_range(mover->usage.run_ns - before, 980 * MSEC, 1020 * MSEC);
}

static void test_too_deep(void **state) {
        PolicyConfig c = config_of(1, MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;
        PolicyNode *deeper = NULL;
        HarnessNode *n = NULL;

        for (unsigned i = 0; i < POLICY_DEPTH_MAX; i++)
                n = add_node(h, n, 100, 0, 0);
        assert_int_equal(h->ops->node_new(h->policy, n->node, &s, h->now_ns, &deeper), -EINVAL);
        assert_null(deeper);
        add_busy(h, n, 0, 100);
        add_busy(h, n->parent, 0, 100);
        harness_dispatch(h);
        harness_run(h, 100 * MSEC);
        assert_in_range(n->run_ns, 49 * MSEC, 51 * MSEC);
}

/* How often the policy wants to be asked in 10 s, with a heavy and a light one below as many nodes. */
static uint64_t count_wakes(unsigned depth) {
        PolicyConfig c = config_of(1, 20 * MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        HarnessNode *node = NULL;

        while (depth-- > 0)
                node = add_node(h, node, 100, 0, 0);
        (void) add_busy(h, node, 0, 300);
        (void) add_busy(h, node, 0, 100);
        harness_dispatch(h);
        harness_run(h, 10 * NSEC_PER_SEC);
        return h->seen.n_dispatched;
}

/* An only node competes with nobody: its slices end unseen. */
static void test_only_node(void **state) {
        uint64_t n = count_wakes(0);

        assert_in_range(n, 100, 500);
        assert_int_equal(count_wakes(1), n);
        assert_int_equal(count_wakes(3), n);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_shares),
                        cmocka_unit_test(test_sleepers_below),
                        cmocka_unit_test(test_places),
                        cmocka_unit_test(test_only_node),
                        cmocka_unit_test(test_priority_crosses_nodes),
                        cmocka_unit_test(test_floor_crosses_nodes),
                        cmocka_unit_test(test_max),
                        cmocka_unit_test(test_max_alone),
                        cmocka_unit_test(test_max_of_parent_binds),
                        cmocka_unit_test(test_max_of_places),
                        cmocka_unit_test(test_max_is_owed),
                        cmocka_unit_test(test_min),
                        cmocka_unit_test(test_min_is_part_of_share),
                        cmocka_unit_test(test_minima),
                        cmocka_unit_test(test_min_of_sleeper),
                        cmocka_unit_test(test_move),
                        cmocka_unit_test(test_too_deep),
        };

        return cmocka_run_group_tests_name("policy-nodes", tests, NULL, NULL);
}
