/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Policies give the shares that the settings ask for: computed by arithmetic, and compared with long runs on a
 * simulated device
 */

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy/divide.h"
#include "sanitized.h"

#define MSEC      NSEC_PER_MSEC
#define ITEMS_MAX (HARNESS_JOBS_MAX + HARNESS_NODES_MAX)

/* The same tree for the arithmetic and for the device. */
typedef struct Tree {
        Harness *h;
        const PolicyOps *ops;
        DivideItem items[ITEMS_MAX];
        HarnessNode *nodes[ITEMS_MAX];
        Job *jobs[ITEMS_MAX];
        size_t n;
} Tree;

static void tree_begin(Tree *t, const PolicyOps *ops, uint32_t concurrency, uint64_t seed) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.concurrency = concurrency;
        c.timeslice_ns = 2 * MSEC;
        c.starve_ns = c.starve_run_ns = c.linger_ns = 0;
        /* The harness knows levels other than priorities from its oracle. */
        *t = (Tree){.h = harness_new_policy(ops, &c, ops != &policy_tree_ops, seed), .ops = ops};
}

static size_t tree_node(Tree *t, size_t parent, PolicyNodeSettings s) {
        s.period_ns = 100 * MSEC;
        t->nodes[t->n] = harness_add_node(t->h, parent == DIVIDE_ROOT ? NULL : t->nodes[parent], s);
        t->items[t->n] = (DivideItem){.parent = parent, .is_node = true, .node = s};
        return t->n++;
}

static size_t tree_job(Tree *t, size_t parent, PolicySettings s) {
        t->jobs[t->n] = harness_add_below(t->h, parent == DIVIDE_ROOT ? NULL : t->nodes[parent], s);
        harness_ready(t->jobs[t->n]);
        t->items[t->n] = (DivideItem){.parent = parent, .entity = s};
        return t->n++;
}

static int divide(const PolicyOps *ops, uint32_t places, DivideItem *items, size_t n) {
        Divide d;

        int r = divide_begin(&d, ops, places, items, n);
        while (r >= 0 && divide_tier(&d))
                ;
        return r;
}

static double tree_got(const Tree *t, size_t k) {
        return (double) (t->nodes[k] ? t->nodes[k]->run_ns : t->jobs[k]->usage.run_ns);
}

/* Runs the tree, and compares each computed part of all places with the measured one; `allowed`: the greatest
 * difference. */
static void tree_check(Tree *t, uint64_t ns, double allowed) {
        const uint32_t places = t->h->config.concurrency;
        double all = (double) ns * places;

        assert_int_equal(divide(t->ops, places, t->items, t->n), 0);
        harness_dispatch(t->h);
        harness_run(t->h, ns);
        for (size_t k = 0; k < t->n; k++) {
                double got = tree_got(t, k) / all, part = t->items[k].part;

                if (got > part + allowed || got < part - allowed) {
                        print_error("%s, seed %" PRIu64 ", %s %zu: got %.4f, asked %.4f\n", t->ops->name, t->h->seed,
                                        t->nodes[k] ? "node" : "job", k, got, part);
                        fail();
                }
        }
        t->h = harness_free(t->h);
}

/* A group's own work beside groups below it: it weighs 100 there, whatever the group weighs. */
static void test_own_work(void **state) {
        Tree t;

        tree_begin(&t, &policy_tree_ops, 1, 0);
        size_t slice = tree_node(&t, DIVIDE_ROOT, (PolicyNodeSettings){.weight = 700});
        size_t own = tree_job(&t, slice, (PolicySettings){.weight = 100});
        size_t one = tree_node(&t, slice, (PolicyNodeSettings){.weight = 300});
        size_t of_one = tree_job(&t, one, (PolicySettings){.weight = 100});
        tree_check(&t, 20 * NSEC_PER_SEC, 0.005);
        assert_float_equal(t.items[own].part, 0.25, 1e-6);
        assert_float_equal(t.items[one].part, 0.75, 1e-6);
        assert_float_equal(t.items[of_one].part, 0.75, 1e-6);
        assert_float_equal(t.items[slice].part, 1, 1e-6);

        /* Where the group's own work has the higher priority, it gets all of the group's time. */
        tree_begin(&t, &policy_tree_ops, 1, 0);
        slice = tree_node(&t, DIVIDE_ROOT, (PolicyNodeSettings){.weight = 100});
        own = tree_job(&t, slice, (PolicySettings){.weight = 100, .priority = 1});
        one = tree_node(&t, slice, (PolicyNodeSettings){.weight = 300});
        tree_job(&t, one, (PolicySettings){.weight = 100});
        tree_check(&t, NSEC_PER_SEC, 0.005);
        assert_float_equal(t.items[own].part, 1, 1e-6);
}

/* A lower tier gets the time that a maximum leaves, too; a minimum comes before priorities. */
static void test_limits(void **state) {
        Tree t;

        tree_begin(&t, &policy_tree_ops, 1, 1);
        size_t high = tree_node(&t, DIVIDE_ROOT, (PolicyNodeSettings){.weight = 100, .max = 40});
        size_t low = tree_node(&t, DIVIDE_ROOT, (PolicyNodeSettings){.weight = 100});
        size_t least = tree_node(&t, DIVIDE_ROOT, (PolicyNodeSettings){.weight = 1, .min = 10});
        tree_job(&t, high, (PolicySettings){.weight = 100, .priority = 5});
        tree_job(&t, low, (PolicySettings){.weight = 100, .priority = 2});
        tree_job(&t, least, (PolicySettings){.weight = 100, .priority = -5});
        tree_check(&t, 20 * NSEC_PER_SEC, 0.01);
        assert_float_equal(t.items[high].part, 0.4, 1e-6);
        assert_float_equal(t.items[least].part, 0.1, 1e-6);
        assert_float_equal(t.items[low].part, 0.5, 1e-6);

        /* Minima that exceed the device are each cut in proportion. */
        tree_begin(&t, &policy_tree_ops, 1, 2);
        for (unsigned i = 0; i < 2; i++)
                tree_job(&t, tree_node(&t, DIVIDE_ROOT, (PolicyNodeSettings){.weight = 1 + 999 * i, .min = 80}),
                                (PolicySettings){.weight = 100});
        assert_int_equal(divide(t.ops, 1, t.items, t.n), 0);
        assert_float_equal(t.items[0].part, 0.5, 1e-6);
        t.h = harness_free(t.h);
}

static void add_random(Tree *t, Random *r, size_t parent, unsigned depth, bool limits, bool tiers) {
        for (uint64_t n = random_range(r, 1, 3); n > 0 && t->n < 40; n--) {
                uint32_t weight = (uint32_t) random_log(r, 50, 1000);
                int priority = tiers ? (int) random_range(r, 0, 2) : 0;

                if (depth == 0 || random_chance(r, 30)) {
                        tree_job(t, parent,
                                        (PolicySettings){.weight = weight,
                                                        .priority = priority,
                                                        .nice = priority,
                                                        .utilization = weight / 10,
                                                        .active = priority == 2});
                        continue;
                }
                PolicyNodeSettings s = {.weight = weight, .utilization = weight / 10, .nice = priority};
                if (limits && random_chance(r, 30))
                        s.max = (uint32_t) random_range(r, 10, 90);
                size_t node = tree_node(t, parent, s);
                add_random(t, r, node, depth - 1, limits, tiers);
        }
}

/* Cases for every policy that divides by settings. */
static void test_policies(void **state) {
        unsigned n = 0;

        for (const PolicyOps *const *p = policy_all; *p; p++) {
                if (!policy_divides(*p)) {
                        DivideItem i = {.parent = DIVIDE_ROOT};
                        assert_int_equal(divide(*p, 1, &i, 1), -EINVAL);
                        continue;
                }
                n++;
                for (uint64_t seed = 1; seed <= (SANITIZED ? 2 : 4); seed++) {
                        Random r = {.state = seed};
                        Tree t;

                        uint32_t places = seed % 3 == 0 ? (uint32_t) random_range(&r, 2, 3) : 1;
                        tree_begin(&t, *p, places, seed);
                        add_random(&t, &r, DIVIDE_ROOT, places > 1 ? 1 : 3, false, seed % 2);
                        tree_check(&t, 4 * NSEC_PER_SEC, 0.02);
                }
        }
        assert_int_equal(n, 8);
}

/* Random trees with maxima, on one place, in tiers. */
static void test_maxima(void **state) {
        for (uint64_t seed = 1; seed <= (SANITIZED ? 5 : 20); seed++) {
                Random r = {.state = seed};
                Tree t;

                tree_begin(&t, &policy_tree_ops, 1, seed);
                add_random(&t, &r, DIVIDE_ROOT, 3, true, seed % 2);
                tree_check(&t, 20 * NSEC_PER_SEC, 0.02);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_own_work),
                        cmocka_unit_test(test_limits),
                        cmocka_unit_test(test_policies),
                        cmocka_unit_test(test_maxima),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
