/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Standing grants: an idle job keeps its grant until somebody has a claim against it
 *
 * The harness compares with the oracle after each dispatch, and checks that each event changes few other grants.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"

#define N_JOBS 40U
#define MSEC   NSEC_PER_MSEC

static Harness *crowd_of(const PolicyOps *ops, Job *jobs[N_JOBS]) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;
        Harness *h = harness_new_policy(ops, &c, true, 0);

        for (size_t i = 0; i < N_JOBS; i++)
                jobs[i] = harness_add(h, (PolicySettings){.weight = POLICY_WEIGHT_DEFAULT});
        harness_dispatch(h);
        return h;
}

static Harness *crowd(Job *jobs[N_JOBS]) {
        return crowd_of(&policy_tree_ops, jobs);
}

static size_t ready(Job *j) {
        harness_ready(j);
        harness_dispatch(j->h);
        return j->h->n_got;
}

static size_t idle(Job *j) {
        harness_idle(j);
        harness_dispatch(j->h);
        return j->h->n_got;
}

static bool granted(const Job *j) {
        return j->grant.verdict == VERDICT_RUN;
}

static size_t count_granted(Job *const *jobs) {
        size_t n = 0;

        for (size_t i = 0; i < N_JOBS; i++)
                n += granted(jobs[i]);
        return n;
}

/* Each comes, runs for a while and goes, one after the other. Returns the number of grants. */
static size_t turns(Job *const *jobs) {
        Harness *h = jobs[0]->h;
        size_t n = 0;

        for (size_t i = 0; i < N_JOBS; i++) {
                n += ready(jobs[i]);
                assert_true(granted(jobs[i]));
                harness_run(h, MSEC);
                n += idle(jobs[i]);
                harness_run(h, 9 * MSEC);
        }
        return n;
}

/* The first two are ready together for so long. */
static void contend(Job *const *jobs, uint64_t ns) {
        Harness *h = jobs[0]->h;

        (void) ready(jobs[0]);
        (void) ready(jobs[1]);
        assert_int_equal(granted(jobs[0]) + granted(jobs[1]), 1);
        harness_run(h, ns);
        (void) idle(jobs[0]);
        (void) idle(jobs[1]);
}

/* Those who come in turns cost no grants. */
static void test_turns(void **state) {
        Job *jobs[N_JOBS];
        _cleanup_(harness_freep)
        Harness *h = crowd(jobs);

        assert_int_equal(count_granted(jobs), N_JOBS);
        assert_int_equal(turns(jobs), 0);
        assert_int_equal(turns(jobs), 0);
        assert_int_equal(count_granted(jobs), N_JOBS);
        assert_true(h->seen.n_stand > 0);
}

/* Contention for a moment concerns those who contend, and ends no grant that stands. */
static void test_moment(void **state) {
        Job *jobs[N_JOBS];
        _cleanup_(harness_freep)
        Harness *h = crowd(jobs);

        for (unsigned i = 0; i < 10; i++) {
                contend(jobs, POLICY_CROWD_NS / 2);
                assert_true(count_granted(jobs) >= N_JOBS - 2);
                harness_run(h, POLICY_CROWD_PART * POLICY_CROWD_NS);
        }
}

/* Contention that lasts ends all, at the next event; who comes then waits. Thereafter each is granted once, when it
 * comes, and keeps that grant. */
static void test_crowded(void **state) {
        Job *jobs[N_JOBS];
        _cleanup_(harness_freep)
        Harness *h = crowd(jobs);

        (void) ready(jobs[0]);
        (void) ready(jobs[1]);
        harness_run(h, 2 * POLICY_CROWD_NS);
        assert_int_equal(count_granted(jobs), 1);
        (void) ready(jobs[2]);
        assert_false(granted(jobs[2]));
        for (size_t i = 0; i < 3; i++)
                (void) idle(jobs[i]);
        assert_true(count_granted(jobs) <= POLICY_ADVANCE_MAX);

        harness_run(h, RECENT_NS);
        assert_in_range(turns(jobs), N_JOBS - POLICY_ADVANCE_MAX, N_JOBS + POLICY_ADVANCE_MAX);
        assert_int_equal(count_granted(jobs), N_JOBS);
        assert_int_equal(turns(jobs), 0);
}

/* A higher tier ends all, when it comes, and before it wants anything. */
static void test_higher(void **state) {
        Job *jobs[N_JOBS];
        _cleanup_(harness_freep)
        Harness *h = crowd(jobs);

        Job *higher = harness_add(h, (PolicySettings){.weight = POLICY_WEIGHT_DEFAULT, .priority = 1});
        harness_dispatch(h);
        assert_int_equal(count_granted(jobs), 0);
        harness_remove(higher);
        harness_dispatch(h);
        assert_int_equal(count_granted(jobs), POLICY_ADVANCE_MAX);
}

/* So do a minimum of somebody else, and a maximum of its own. */
static void test_other_claims(void **state) {
        const PolicyNodeSettings plain = {.weight = POLICY_WEIGHT_DEFAULT}, min = {.weight = 100, .min = 1},
                                 max = {.weight = 100, .max = 50, .period_ns = 100 * MSEC};
        Job *jobs[N_JOBS];
        _cleanup_(harness_freep)
        Harness *h = crowd(jobs);
        HarnessNode *n = harness_add_node(h, NULL, plain);

        harness_move(jobs[0], n);
        harness_dispatch(h);
        assert_int_equal(count_granted(jobs), N_JOBS);
        harness_set_node(n, max);
        harness_dispatch(h);
        assert_true(jobs[0]->grant.threshold > 0 || !granted(jobs[0]));
        harness_set_node(n, min);
        harness_dispatch(h);
        assert_true(count_granted(jobs) <= POLICY_ADVANCE_MAX);
        harness_move(jobs[0], NULL);
        harness_remove_node(n);
        harness_dispatch(h);
        (void) turns(jobs);
        assert_int_equal(count_granted(jobs), N_JOBS);
}

/* So does a job of a higher level on another device, where the policy is one for all. */
static void test_outside(void **state) {
        Job *jobs[N_JOBS];
        _cleanup_(harness_freep)
        Harness *h = crowd_of(policy_find("hhpf"), jobs);

        assert_int_equal(count_granted(jobs), N_JOBS);
        harness_outside(h, 1);
        harness_dispatch(h);
        assert_int_equal(count_granted(jobs), 0);
}

static void on_grant(void *owner, const PolicyGrant *g, void *userdata) {
        size_t *n = userdata;

        *n += g->verdict == VERDICT_HOLD;
}

/* One event ends so many at most. */
static void test_bound(void **state) {
        const PolicySettings s = {.weight = POLICY_WEIGHT_DEFAULT}, higher = {.weight = 100, .priority = 1};
        const PolicyConfig c = POLICY_CONFIG_DEFAULT;
        const PolicyOps *o = &policy_tree_ops;
        PolicyEntity *all[2 * POLICY_STANDING_MAX], *top = NULL;
        size_t n_holds = 0;
        Policy *p = NULL;

        assert_int_equal(o->new (&c, &(PolicyCallbacks){.grant = on_grant, .userdata = &n_holds}, &p), 0);
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                assert_int_equal(o->entity_new(p, NULL, all + i, &s, i, all + i), 0);
                (void) o->dispatch(p, i);
        }
        assert_int_equal(n_holds, ELEMENTSOF(all) - POLICY_STANDING_MAX - POLICY_ADVANCE_MAX);
        n_holds = 0;
        assert_int_equal(o->entity_new(p, NULL, &top, &higher, ELEMENTSOF(all), &top), 0);
        (void) o->dispatch(p, ELEMENTSOF(all));
        assert_int_equal(n_holds, POLICY_STANDING_MAX + POLICY_ADVANCE_MAX);
        (void) o->entity_free(top, ELEMENTSOF(all));
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                (void) o->entity_free(all[i], ELEMENTSOF(all));
        (void) o->free(p);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_turns),
                        cmocka_unit_test(test_moment),
                        cmocka_unit_test(test_crowded),
                        cmocka_unit_test(test_higher),
                        cmocka_unit_test(test_other_claims),
                        cmocka_unit_test(test_outside),
                        cmocka_unit_test(test_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
