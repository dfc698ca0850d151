/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A tenant gains nothing under any policy by many processes, by starting again, or by a device's former policy
 *
 * The oracle and the contract look on at every step (policy-harness.h).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-tasks.h"
#include "sanitized.h"

#define MS   NSEC_PER_MSEC
#define EVER (NSEC_PER_SEC * 3600 * 24 * 365)

/* A configuration where only the ordering decides: there is no floor, and no place is kept. */
static PolicyConfig bare_config(uint64_t timeslice_ns) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.timeslice_ns = timeslice_ns;
        c.starve_run_ns = 0;
        c.linger_ns = 0;
        return c;
}

static PolicyNodeSettings named(const char *name) {
        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;

        s.name = name;
        return s;
}

static PolicySettings of_party(uint64_t top) {
        PolicySettings s = POLICY_SETTINGS_DEFAULT;

        s.party.top = top;
        return s;
}

static Task *add_below(Tasks *s, HarnessNode *node, uint64_t work_ns, PolicySettings settings) {
        Task *t = tasks_add(s, 0, work_ns, settings);

        t->node = node;
        return t;
}

static bool is_policy(const PolicyOps *ops, const char *name) {
        return streq(ops->name, name);
}

/* In mlfq a task goes up a second after it went down, and of many tasks some are always about to. */
static double least_share(const PolicyOps *ops) {
        return is_policy(ops, "mlfq") ? 0.47 : 0.48;
}

static double share_of_first(Tasks *s) {
        uint64_t all_ns = 0;

        for (size_t i = 0; i < s->n; i++)
                all_ns += s->t[i].ran_ns;
        return (double) s->t[0].ran_ns / (double) all_ns;
}

#define FOR_EACH_POLICY(ops) for (const PolicyOps *const *_p = policy_all, *ops; (ops = *_p); _p++)

/* --- being many --- */

static void test_many_get_no_more(void **state) {
        FOR_EACH_POLICY(ops) {
                const PolicyConfig c = bare_config(5 * MS);
                Tasks s = {.h = harness_new_policy(ops, &c, true, 1)};
                HarnessNode *one = harness_add_node(s.h, NULL, named("one")),
                            *many = harness_add_node(s.h, NULL, named("many"));

                add_below(&s, one, EVER, of_party(1));
                for (size_t i = 0; i < 10; i++)
                        add_below(&s, many, EVER, of_party(2));
                tasks_run(&s, 10 * NSEC_PER_SEC);
                assert_true(share_of_first(&s) >= least_share(ops));
                harness_free(s.h);
        }
}

/* A tenant's own groups count for no more than its processes do. */
static void test_groups_get_no_more(void **state) {
        FOR_EACH_POLICY(ops) {
                const PolicyConfig c = bare_config(5 * MS);
                Tasks s = {.h = harness_new_policy(ops, &c, true, 1)};
                HarnessNode *one = harness_add_node(s.h, NULL, named("one")),
                            *many = harness_add_node(s.h, NULL, named("many"));

                add_below(&s, one, EVER, of_party(1));
                for (size_t i = 0; i < 8; i++)
                        add_below(&s, harness_add_node(s.h, many, named(NULL)), EVER, of_party(2));
                tasks_run(&s, 10 * NSEC_PER_SEC);
                assert_true(share_of_first(&s) >= least_share(ops));
                harness_free(s.h);
        }
}

/* Without other users no user loses by it: an interactive task stays before its user's other tasks. */
static void test_mlfq_among_ones_own(void **state) {
        const PolicyConfig c = bare_config(5 * MS);
        Tasks s = {.h = harness_new_policy(policy_find("mlfq"), &c, true, 1)};
        Task *interactive = tasks_add(&s, 100 * MS, MS, of_party(1));

        interactive->pause_ns = 20 * MS;
        for (size_t i = 0; i < 8; i++)
                tasks_add(&s, 0, EVER, of_party(1));
        tasks_run(&s, NSEC_PER_SEC / 5);
        assert_int_equal(interactive->longest_ns, MS);
        harness_free(s.h);
}

/* --- starting again --- */

static void test_restarts_win_nothing(void **state) {
        FOR_EACH_POLICY(ops)
        for (uint64_t work_ns = 2 * MS; work_ns <= 14 * MS; work_ns += 3 * MS) {
                const PolicyConfig c = bare_config(5 * MS);
                Tasks s = {.h = harness_new_policy(ops, &c, true, 1)};
                HarnessNode *one = harness_add_node(s.h, NULL, named("one")),
                            *anew = harness_add_node(s.h, NULL, named("anew"));
                Task *t;

                add_below(&s, one, EVER, of_party(1));
                t = add_below(&s, anew, work_ns, of_party(2));
                t->restarts = true;
                t->pause_ns = 1;
                tasks_run(&s, (SANITIZED ? 1 : 5) * NSEC_PER_SEC);
                assert_true(share_of_first(&s) >= least_share(ops));
                harness_free(s.h);
        }
}

/* --- what groups weigh --- */

static double share_with(const char *policy, PolicyNodeSettings first, PolicyNodeSettings second) {
        const PolicyConfig c = bare_config(5 * MS);
        Tasks s = {.h = harness_new_policy(policy_find(policy), &c, true, 1)};
        HarnessNode *a = harness_add_node(s.h, NULL, first), *b = harness_add_node(s.h, NULL, second);
        double share;

        add_below(&s, a, EVER, of_party(1));
        for (size_t i = 0; i < 3; i++)
                add_below(&s, b, EVER, of_party(2));
        tasks_run(&s, 10 * NSEC_PER_SEC);
        share = share_of_first(&s);
        harness_free(s.h);
        return share;
}

static void assert_share(double is, double should) {
        assert_true(is > should - 0.02 && is < should + 0.02);
}

static void test_groups_weigh(void **state) {
        PolicyNodeSettings usual = named("usual"), heavy = named("heavy"), nice = named("nice"), part = named("part"),
                           less = named("less");

        heavy.weight = 300;
        nice.nice = 5;
        part.utilization = 60;
        less.utilization = 30;
        assert_share(share_with("tree", heavy, usual), 0.75);
        assert_share(share_with("cfs", heavy, usual), 0.75);
        assert_share(share_with("cfs", nice, usual), 3.05 / 4.05);
        assert_share(share_with("up", part, less), 2.0 / 3);
        assert_share(share_with("pup", part, less), 2.0 / 3);
        assert_share(share_with("up", heavy, usual), 0.5);
        assert_share(share_with("hpf", heavy, usual), 0.5);
        assert_share(share_with("awf", heavy, nice), 0.5);
}

/* --- what was before --- */

static void test_deadline_that_goes(void **state) {
        const PolicyConfig c = bare_config(2 * MS);
        Tasks s = {.h = harness_new_policy(policy_find("kedf"), &c, true, 1)};
        PolicySettings due = POLICY_SETTINGS_DEFAULT;

        due.deadline_us = 5000;
        tasks_add(&s, 0, EVER, POLICY_SETTINGS_DEFAULT);
        tasks_add(&s, 0, EVER, due);
        tasks_run(&s, 8 * MS);
        harness_set(s.t[1].job, POLICY_SETTINGS_DEFAULT);
        harness_dispatch(s.h);
        tasks_run(&s, 8 * MS);
        assert_string_equal(s.line[0], "bbbbbbbbaabbaabb");
        harness_free(s.h);
}

static void test_other_slice(void **state) {
        FOR_EACH_POLICY(ops) {
                PolicyConfig c = bare_config(1000 * MS);
                Tasks s = {.h = harness_new_policy(ops, &c, true, 1)};
                bool doubles = is_policy(ops, "mlfq"); /* tasks go down while they run */

                tasks_add(&s, 0, EVER, POLICY_SETTINGS_DEFAULT);
                tasks_add(&s, 0, EVER, POLICY_SETTINGS_DEFAULT);
                tasks_run(&s, 3 * MS);
                c.timeslice_ns = 4 * MS;
                harness_configure(s.h, &c);
                harness_dispatch(s.h);
                tasks_run(&s, 4000 * MS);
                uint64_t first_ns = s.t[0].ran_ns;
                tasks_run(&s, 16 * MS);
                if (!doubles)
                        assert_int_equal(s.t[0].ran_ns - first_ns, 8 * MS);
                harness_free(s.h);
        }
}

/* A month at the least weight: virtual time wraps meanwhile. */
static void test_month(void **state) {
        static const char *const names[] = {"tree", "cfs", "up"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                const PolicyConfig c = bare_config(3600 * NSEC_PER_SEC);
                Tasks s = {.h = harness_new_policy(policy_find(names[i]), &c, true, 1)};
                PolicySettings least = of_party(1);

                least.weight = least.utilization = 1;
                tasks_add(&s, 0, EVER, least);
                tasks_add(&s, 0, EVER, least);
                tasks_run(&s, 3600 * NSEC_PER_SEC * 24 * 30);
                assert_share(share_of_first(&s), 0.5);
                harness_free(s.h);
        }
}

/* A task with the critical priority goes idle, and its place is kept for a moment. Then it has its own priority again,
 * is not granted in advance, and bounds no others. */
static void test_idler_is_not_critical(void **state) {
        PolicyConfig c = bare_config(2 * MS);
        PolicySettings lax = POLICY_SETTINGS_DEFAULT;

        c.linger_ns = MS;
        Tasks s = {.h = harness_new_policy(policy_find("lax"), &c, true, 1)};
        lax.priority = -10;
        lax.laxity_us = 1000;
        lax.critical = 10;
        Task *t = tasks_add(&s, 0, MS, lax);
        t->pause_ns = MS / 5;
        tasks_add(&s, 0, EVER, POLICY_SETTINGS_DEFAULT);
        tasks_add(&s, 0, EVER, POLICY_SETTINGS_DEFAULT);
        tasks_run(&s, 100 * MS);
        for (size_t i = 0; i < 50; i++) {
                tasks_run(&s, MS / 10);
                if (!t->job->ready) /* it stays idle from now on */
                        t->next_ns = NSEC_INFINITY;
        }
        tasks_run(&s, 20 * MS);
        assert_false(t->job->ready);
        assert_int_equal(t->job->grant.verdict, VERDICT_HOLD);
        assert_int_equal(job_level(t->job), -10);
        harness_free(s.h);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_many_get_no_more),
                        cmocka_unit_test(test_groups_get_no_more),
                        cmocka_unit_test(test_mlfq_among_ones_own),
                        cmocka_unit_test(test_restarts_win_nothing),
                        cmocka_unit_test(test_groups_weigh),
                        cmocka_unit_test(test_deadline_that_goes),
                        cmocka_unit_test(test_other_slice),
                        cmocka_unit_test(test_month),
                        cmocka_unit_test(test_idler_is_not_critical),
        };

        return cmocka_run_group_tests_name("policy-tenants", tests, NULL, NULL);
}
