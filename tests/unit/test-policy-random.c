/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A policy under random events: every step is checked against the contract and the oracle, and some scenarios are
 * played again from a tape
 *
 * Each scenario is made from its seed alone. `test-policy-random POLICY SEED` runs that one.
 */

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "sanitized.h"
#include "tape-check.h"

#define SCENARIOS 1000U /* for tree, which has most to decide; fewer for others */
#define STEPS     160U

/* One scenario in so many is put on a tape, and played again. */
#define TAPED 5U

static const PolicyOps *ops = &policy_tree_ops;
static uint64_t n_scenarios = DRAWN(SCENARIOS), only_seed;

typedef struct Scenario {
        size_t jobs_max;
        unsigned n_priorities;
        bool same_weight;
        bool reconfigure;
        unsigned late_percent;
        uint64_t pass_max_ns;
        size_t nodes_max;
        unsigned n_parties;
        bool maxima, minima, tails;
} Scenario;

/* One draw a statement: initialisers may be evaluated in any order, and a seed must mean the same with every
 * compiler. */
static PolicyConfig random_config(Random *r) {
        PolicyConfig c = {};

        c.concurrency = (uint32_t) random_log(r, 1, 6);
        c.timeslice_ns = random_log(r, 10 * NSEC_PER_USEC, 50 * NSEC_PER_MSEC);
        c.starve_ns = random_log(r, NSEC_PER_MSEC, 2 * NSEC_PER_SEC);
        c.starve_run_ns = random_chance(r, 20) ? 0 : random_range(r, 1, c.starve_ns);
        c.linger_ns = random_chance(r, 30) ? 0 : random_log(r, 1000, 5 * NSEC_PER_MSEC);
        c.threshold = (uint32_t) random_range(r, 0, 4);
        return c;
}

static PolicySettings random_settings(Random *r, const Scenario *s) {
        PolicySettings settings = {};

        settings.priority = (int) random_range(r, 0, s->n_priorities - 1) * 7 - 3;
        settings.weight = s->same_weight ? 100 : (uint32_t) random_log(r, 1, POLICY_WEIGHT_MAX);
        settings.threshold = random_chance(r, 80) ? 0 : (uint32_t) random_range(r, 1, 9);
        settings.party.top = random_range(r, 0, s->n_parties - 1);
        settings.party.owner = random_range(r, 0, s->n_parties - 1);
        settings.party.user = random_range(r, 0, s->n_parties - 1);
        if (ops == &policy_tree_ops)
                return settings;
        settings.deadline_us = random_chance(r, 30) ? 0 : (uint32_t) random_log(r, 1, NSEC_PER_SEC);
        settings.laxity_us = random_chance(r, 30) ? 0 : (uint32_t) random_log(r, 1, NSEC_PER_SEC);
        settings.critical = (int) random_range(r, 0, 3) * 9 - 8;
        settings.utilization = (uint32_t) random_range(r, 0, 220);
        settings.nice = (int) random_range(r, 0, 12) - 6;
        settings.cpu_priority = (int) random_range(r, 0, s->n_priorities - 1) * 7 - 20;
        settings.active = random_chance(r, 30);
        return settings;
}

static Job *random_job(Random *r, const Harness *h) {
        return h->jobs[random_range(r, 0, h->n - 1)];
}

static PolicyNodeSettings random_node_settings(Random *r, const Scenario *s) {
        PolicyNodeSettings settings = POLICY_NODE_SETTINGS_DEFAULT;

        settings.weight = s->same_weight ? 100 : (uint32_t) random_log(r, 1, POLICY_WEIGHT_MAX);
        settings.period_ns = random_log(r, POLICY_PERIOD_MIN, 200 * NSEC_PER_MSEC);
        if (s->maxima && random_chance(r, 30))
                settings.max = (uint32_t) random_log(r, 1, 300);
        if (s->minima && random_chance(r, 30))
                settings.min = (uint32_t) random_range(r, 1, 60);
        if (ops == &policy_tree_ops)
                return settings;
        settings.utilization = (uint32_t) random_range(r, 0, 110);
        settings.nice = (int) random_range(r, 0, 12) - 6;
        return settings;
}

/* Any node of the harness, or NULL, the root. */
static HarnessNode *random_node(Random *r, const Harness *h) {
        uint64_t i = random_range(r, 0, h->n_nodes);

        return i < h->n_nodes ? h->nodes[i] : NULL;
}

/* A name that no present node has, or none: so some removed nodes come back. */
static const char *random_name(Random *r, const Harness *h, const HarnessNode *parent) {
        static const char *const names[] = {"a", "b", "c", "d"};
        const char *name = random_chance(r, 10) ? NULL : names[random_range(r, 0, ELEMENTSOF(names) - 1)];

        for (size_t i = 0; name && i < h->n_nodes; i++)
                if (h->nodes[i]->parent == parent && h->nodes[i]->settings.name == name)
                        return NULL;
        return name;
}

/* Replaces a node by another of the same name. */
static void random_restart(Random *r, Harness *h, const Scenario *s) {
        HarnessNode *n = h->nodes[random_range(r, 0, h->n_nodes - 1)], *parent = n->parent;
        PolicyNodeSettings settings = n->settings;
        const char *name = settings.name;

        for (size_t i = 0; i < h->n_nodes; i++)
                if (h->nodes[i]->parent == n)
                        return;
        for (size_t i = h->n; i-- > 0;)
                if (h->jobs[i]->node == n)
                        harness_remove(h->jobs[i]);
        harness_remove_node(n);
        if (random_chance(r, 30)) {
                harness_dispatch(h);
                harness_run(h, random_log(r, 1, s->pass_max_ns));
        }
        if (random_chance(r, 20))
                settings = random_node_settings(r, s);
        settings.name = name ?: random_name(r, h, parent);
        n = harness_add_node(h, parent, settings);
        h->seen.n_came_back += n->came_back;

        Job *j = harness_add_below(h, n, random_settings(r, s));
        if (random_chance(r, 80))
                harness_ready(j);
}

static void random_node_event(Random *r, Harness *h, const Scenario *s) {
        unsigned what = (unsigned) random_range(r, 0, 99);
        HarnessNode *n = random_node(r, h);

        if (what < 50 && h->n_nodes < s->nodes_max && harness_node_depth(n) < POLICY_DEPTH_MAX) {
                PolicyNodeSettings settings = random_node_settings(r, s);

                settings.name = random_name(r, h, n);
                h->seen.n_came_back += harness_add_node(h, n, settings)->came_back;
        } else if (what < 70 && n && harness_node_is_empty(n))
                harness_remove_node(n);
        else if (what < 85 && n && s->reconfigure) {
                PolicyNodeSettings settings = random_node_settings(r, s);

                harness_set_node(n, settings);
        } else if (h->n > 0) {
                Job *j = random_job(r, h);

                harness_move(j, n);
        }
}

/* Divides time between a tail, if there is one, and those beside it. */
static void random_division(Random *r, Harness *h, const Scenario *s) {
        uint64_t most_ns = s->late_percent > 0 ? s->pass_max_ns : ns_sub(h->wake_ns, h->now_ns),
                 ns = random_log(r, 1, s->pass_max_ns);
        Job *j = random_job(r, h);

        for (size_t i = 0; i < h->n; i++)
                if (h->jobs[i]->drain_order > 0 && random_chance(r, 50))
                        j = h->jobs[i];
        ns = MIN(ns, most_ns);
        harness_tail_had(j, ns, random_range(r, 0, ns + ns / 4));
}

static void random_event(Random *r, Harness *h, const Scenario *s) {
        unsigned what = (unsigned) random_range(r, 0, 99);

        if (policy_is_global(ops) && random_chance(r, 10))
                harness_outside(h,
                                random_chance(r, 60) ? POLICY_LEVEL_NONE
                                                     : (int) random_range(r, 0, s->n_priorities) * 7 - 3);
        else if (s->nodes_max > 0 && random_chance(r, 12))
                random_node_event(r, h, s);
        else if (h->n_nodes > 0 && h->n < s->jobs_max && random_chance(r, 8))
                random_restart(r, h, s);
        else if (h->n == 0 || (what < (s->jobs_max > 24 ? 40U : 6U) && h->n < s->jobs_max)) {
                HarnessNode *n = random_node(r, h);

                harness_add_below(h, n, random_settings(r, s));
        } else if (what < 9)
                harness_remove(random_job(r, h));
        else if (what < 13 && s->reconfigure) {
                PolicySettings settings = random_settings(r, s);

                harness_set(random_job(r, h), settings);
        } else if (what < 14 && s->reconfigure) {
                PolicyConfig c = random_config(r);

                harness_configure(h, &c);
        } else if (what < 24 && s->tails)
                harness_drained(random_job(r, h));
        else if (what < 28 && s->tails)
                harness_tail(random_job(r, h));
        else if (what < 32 && s->tails)
                random_division(r, h, s);
        else if (what < 60)
                harness_ready(random_job(r, h));
        else
                harness_idle(random_job(r, h));
}

static void random_pass(Random *r, Harness *h, const Scenario *s) {
        uint64_t ns = random_log(r, 1, MIN(s->pass_max_ns, 40 * h->config.timeslice_ns));

        if (random_chance(r, s->late_percent))
                harness_pass(h, random_chance(r, 10) ? random_log(r, 1, UINT64_C(1) << 52) : ns);
        else
                harness_run(h, ns);
}

static HarnessSeen run_scenario(uint64_t seed, TapeCheck *tape) {
        Random r = {.state = seed};
        Scenario s = {};

        s.jobs_max = seed % 500 == 0 ? 100 : (size_t) random_log(&r, 1, 24);
        s.n_priorities = (unsigned) random_range(&r, 1, 4);
        s.same_weight = random_chance(&r, 30);
        s.reconfigure = random_chance(&r, 50);
        s.late_percent = random_chance(&r, 30) ? 20 : 0;
        s.pass_max_ns = random_log(&r, 10 * NSEC_PER_USEC, 500 * NSEC_PER_MSEC);
        s.nodes_max = random_chance(&r, 40) ? 0 : (size_t) random_log(&r, 1, 16);
        s.n_parties = random_chance(&r, 40) ? 1 : (unsigned) random_range(&r, 2, 4);
        s.maxima = random_chance(&r, 50);
        s.minima = random_chance(&r, 50);
        s.tails = random_chance(&r, 50);

        PolicyConfig c = random_config(&r);
        _cleanup_(harness_freep)
        Harness *h = harness_new_policy(ops, &c, true, seed);

        h->tails = s.tails;
        if (tape)
                tape_check_begin(tape, h);

        for (size_t i = 0; i < STEPS; i++) {
                for (uint64_t n = random_log(&r, 1, 4); n > 0; n--) {
                        random_event(&r, h, &s);
                        if (s.late_percent > 0 && random_chance(&r, 10)) /* the caller's batch took long */
                                harness_pass(h, random_log(&r, 1, 100 * NSEC_PER_USEC));
                }
                harness_dispatch(h);
                random_pass(&r, h, &s);
                harness_dispatch(h);
        }
        return h->seen;
}

static HarnessSeen run_seed(uint64_t seed) {
        TapeCheck tape;

        if (seed % TAPED != 0 && only_seed == 0)
                return run_scenario(seed, NULL);
        HarnessSeen seen = run_scenario(seed, &tape);
        assert_true(tape.n_grants > 0 || seen.n_grants == 0);
        tape_check_end(&tape);
        return seen;
}

/* Other policies have less to decide, and some have one level only. */
static void check_seen(const HarnessSeen *s) {
        static const char *const flat[] = {"up", "pup", "kedf", "cfs"};
        bool levels = true;

        for (size_t i = 0; i < ELEMENTSOF(flat); i++)
                levels = levels && !streq(ops->name, flat[i]);
        assert_true(s->n_preempted > n_scenarios);
        assert_true(s->n_contended > n_scenarios);
        assert_true(s->n_stopped > n_scenarios);
        assert_true(s->n_tails > n_scenarios);
        assert_true(s->n_divided > n_scenarios / 8);
        assert_true(s->n_awaited > n_scenarios);
        assert_true(s->n_many_idle > 0);
        assert_true(s->n_came_back > n_scenarios / 4);
        assert_true(s->n_kept > 0 || streq(ops->name, "kedf"));
        assert_true(!levels || (s->n_owed > n_scenarios && s->n_lingered > n_scenarios));
        assert_true(!levels || s->n_guaranteed > n_scenarios / 4);
}

static void test_random(void **state) {
        HarnessSeen all = {};

        if (only_seed > 0) {
                run_seed(only_seed);
                return;
        }
        for (uint64_t seed = 1; seed <= n_scenarios; seed++) {
                HarnessSeen s = run_seed(seed);

                all.n_dispatched += s.n_dispatched;
                all.n_grants += s.n_grants;
                all.n_preempted += s.n_preempted;
                all.n_owed += s.n_owed;
                all.n_lingered += s.n_lingered;
                all.n_contended += s.n_contended;
                all.n_many_idle += s.n_many_idle;
                all.n_stopped += s.n_stopped;
                all.n_guaranteed += s.n_guaranteed;
                all.n_kept += s.n_kept;
                all.n_tails += s.n_tails;
                all.n_came_back += s.n_came_back;
                all.n_awaited += s.n_awaited;
                all.n_stand += s.n_stand;
                all.n_divided += s.n_divided;
        }
        print_message("dispatched %" PRIu64 ", grants %" PRIu64 ", preempted %" PRIu64 ", owed %" PRIu64
                      ", lingered %" PRIu64 ", contended %" PRIu64 ", many idle %" PRIu64 ", stopped %" PRIu64
                      ", guaranteed %" PRIu64 ", kept %" PRIu64 ", tails %" PRIu64 ", came back %" PRIu64
                      ", awaited %" PRIu64 ", standing %" PRIu64 ", divided %" PRIu64 "\n",
                        all.n_dispatched, all.n_grants, all.n_preempted, all.n_owed, all.n_lingered, all.n_contended,
                        all.n_many_idle, all.n_stopped, all.n_guaranteed, all.n_kept, all.n_tails, all.n_came_back,
                        all.n_awaited, all.n_stand, all.n_divided);
        if (ops != &policy_tree_ops) {
                check_seen(&all);
                return;
        }
        assert_true(all.n_preempted > n_scenarios);
        assert_true(all.n_owed > n_scenarios);
        assert_true(all.n_lingered > n_scenarios);
        assert_true(all.n_contended > n_scenarios);
        assert_true(all.n_many_idle > n_scenarios);
        assert_true(all.n_stopped > n_scenarios);
        assert_true(all.n_guaranteed > n_scenarios / 2);
        assert_true(all.n_kept > n_scenarios / 2);
        assert_true(all.n_tails > n_scenarios);
        assert_true(all.n_divided > n_scenarios / 8);
        assert_true(all.n_came_back > n_scenarios);
        assert_true(all.n_awaited > n_scenarios);
        assert_true(all.n_stand > n_scenarios / 4);
}

int main(int argc, char *argv[]) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_random),
        };

        if (argc > 1) {
                ops = policy_find(argv[1]);
                n_scenarios = ops == &policy_tree_ops ? SCENARIOS : SCENARIOS / 4;
        }
        if (argc > 2)
                only_seed = strtoull(argv[2], NULL, 10);
        assert_non_null(ops);
        return cmocka_run_group_tests_name("policy-random", tests, NULL, NULL);
}
