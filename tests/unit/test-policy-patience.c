/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Patience with late gaps: the credit, its bound, and its effect on shares, in virtual time
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"
#include "policy-sim.h"
#include "policy/patience.h"
#include "sanitized.h"

#define USEC  NSEC_PER_USEC
#define MSEC  NSEC_PER_MSEC
#define LIMIT MSEC

/* --- the credit --- */

static void test_begins_at_nothing(void **state) {
        Patience p = {};

        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), 15 * USEC);
        patience_end_gap(&p, 10 * USEC);
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), 15 * USEC);
}

static void test_is_a_hundredth(void **state) {
        Patience p = {};

        patience_earn(&p, 4 * MSEC, LIMIT);
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), 55 * USEC);
        patience_end_gap(&p, 15 * USEC); /* in time: it costs nothing */
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), 55 * USEC);
        patience_end_gap(&p, 40 * USEC); /* 25 late */
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), 30 * USEC);
        patience_end_gap(&p, NSEC_INFINITY);
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), 15 * USEC);
}

static void test_has_a_limit(void **state) {
        Patience p = {};

        patience_earn(&p, NSEC_INFINITY, LIMIT);
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), LIMIT);
        patience_end_gap(&p, 515 * USEC);
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, LIMIT), 515 * USEC);
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, 100 * USEC), 100 * USEC);
        assert_int_equal(patience_begin_gap(&p, 15 * USEC, 0), 0);
}

static void test_nothing_foreseen(void **state) {
        Patience p = {};

        patience_earn(&p, 10 * MSEC, LIMIT);
        assert_int_equal(patience_begin_gap(&p, 0, LIMIT), 0);
        patience_end_gap(&p, NSEC_INFINITY); /* no entity waited, so it costs nothing */
        assert_int_equal(patience_begin_gap(&p, USEC, LIMIT), 101 * USEC);
}

/* The bound holds for any gaps and any changes of the limit. */
static void test_bound(void **state) {
        for (uint64_t seed = 0; seed < 200; seed++) {
                Random r = {.state = seed};
                Patience p = {};
                uint64_t had_ns = 0, late_ns = 0;

                for (size_t i = 0; i < 1000; i++) {
                        uint64_t limit = random_chance(&r, 5) ? 0 : random_log(&r, 1000, 10 * MSEC);
                        uint64_t ns = random_log(&r, 1, 10 * MSEC), gap = random_log(&r, 1, 10 * MSEC);
                        uint64_t foreseen = random_chance(&r, 20) ? 0 : random_log(&r, 1, 10 * MSEC), wait;

                        foreseen = MIN(foreseen, limit);
                        patience_earn(&p, ns, limit);
                        had_ns += ns;
                        wait = patience_begin_gap(&p, foreseen, limit);
                        assert_true(wait <= limit);
                        assert_true(foreseen > 0 ? wait >= foreseen : wait == 0);
                        patience_end_gap(&p, gap);
                        gap = MIN(gap, wait);
                        late_ns += ns_sub(gap, foreseen);
                        assert_true(late_ns <= had_ns / PATIENCE_PART);
                }
        }
}

/* --- a place, by the policy and its oracle --- */

static Harness *make(void) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.timeslice_ns = 20 * MSEC;
        c.starve_ns = c.starve_run_ns = 0;
        return harness_new(&c, true, 0);
}

static void launch(Job *j, uint64_t ns) {
        harness_ready(j);
        harness_dispatch(j->h);
        harness_run(j->h, ns);
        harness_idle(j);
        harness_dispatch(j->h);
}

static bool granted(const Job *j) {
        return j->grant.verdict == VERDICT_RUN;
}

/* Makes a job with 20 launches of 100 us and gaps of 50 us, for which the policy expects 62.5 us. The job has had the
 * place for 3 ms, alone. */
static Job *learn(Harness *h, uint32_t weight) {
        Job *j = harness_add(h, (PolicySettings){.weight = weight});

        for (unsigned i = 0; i < 20; i++) {
                launch(j, 100 * USEC);
                harness_run(h, 50 * USEC);
        }
        return j;
}

/* The place is kept until the credit is used up, to the nanosecond. */
static void test_late_gap(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Job *other = harness_add(h, (PolicySettings){.weight = 100}), *j = learn(h, 300);
        uint64_t idle_ns;

        harness_ready(j);
        harness_dispatch(h);
        harness_ready(other);
        harness_dispatch(h);
        assert_true(granted(j) && !granted(other));
        harness_run(h, 100 * USEC);
        harness_idle(j);
        harness_dispatch(h);
        idle_ns = h->now_ns;
        assert_true(granted(j) && !granted(other));
        assert_true(h->wake_ns > idle_ns + 62500 + 2100 * USEC / 100);

        uint64_t wake_ns = h->wake_ns;
        harness_run(h, wake_ns - h->now_ns - 1);
        assert_true(granted(j) && !granted(other));
        harness_run(h, 1);
        assert_true(!granted(j) && granted(other));

        /* The wait is within the bound, a part of the job's time in places, which includes this wait. */
        assert_true(wake_ns - idle_ns - 62500 <= (3 * MSEC + 100 * USEC) / 100);
}

/* A gap that is late by less than the credit uses up only that, and the job keeps its place. */
static void test_late_gaps_one_by_one(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Job *other = harness_add(h, (PolicySettings){.weight = 100}), *j = learn(h, 300);

        harness_ready(j);
        harness_dispatch(h);
        harness_ready(other);
        harness_dispatch(h);
        for (unsigned i = 0; i < 8; i++) {
                launch(j, 100 * USEC);
                harness_run(h, (i % 8 == 3 ? 75 : 50) * USEC);
                assert_true(granted(j) && !granted(other));
        }
}

/* Where all weights are equal no place is kept, however much credit there is. */
static void test_equals_do_not_idle(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Job *other = harness_add(h, (PolicySettings){.weight = 100}), *j = learn(h, 100);

        harness_ready(j);
        harness_dispatch(h);
        harness_ready(other);
        harness_dispatch(h);
        harness_run(h, 100 * USEC);
        harness_idle(j);
        harness_dispatch(h);
        assert_true(granted(other));
        assert_int_equal(j->usage.kept_ns, 0);
}

/* --- shares --- */

/* Launches from before the contention are paid for in this time. */
#define WARM_UP ((SANITIZED ? 3 : 5) * NSEC_PER_SEC)
#define RUN     ((SANITIZED ? 3 : 5) * NSEC_PER_SEC)

static Sim sim;

static SimTenant *add_short(uint64_t late_ns) {
        SimTenant *t = sim_add(&sim, SIM_SYNC, 5 * USEC, (PolicySettings){.weight = 300}, NULL);

        t->late_ns = late_ns;
        t->late_every_ns = 10 * MSEC;
        return t;
}

static uint64_t done_in(const SimTenant *t, uint64_t ns) {
        uint64_t before = t->n_done;

        sim_run(&sim, ns);
        return t->n_done - before;
}

/* Runs a tenant of 5 us launches, with one late gap in 10 ms, beside launches of 10 ms. Returns its completed work as a
 * part of what it completes alone. */
static double short_beside_long(uint64_t late_ns, SimPattern pattern, uint64_t share_ns) {
        uint64_t alone, done;
        SimTenant *t;

        sim_init(&sim);
        sim.watched = false;
        alone = done_in(add_short(late_ns), RUN);

        sim_init(&sim);
        sim.share_ns = share_ns;
        t = add_short(late_ns);
        (void) sim_add(&sim, pattern, 10 * MSEC, (PolicySettings){.weight = 100}, NULL);
        sim_run(&sim, WARM_UP);
        done = done_in(t, RUN);
        sim_done(&sim);
        return (double) done / (double) alone;
}

static void test_short_beside_long(void **state) {
        for (unsigned late_us = 0; late_us <= 120; late_us += 40)
                for (unsigned i = 0; i < 4; i++) {
                        double part = short_beside_long(
                                        late_us * USEC, i % 2 == 0 ? SIM_SYNC : SIM_DEEP, i < 2 ? 0 : 2 * MSEC);

                        if (part < 0.72 || part > 0.78)
                                print_message("late by %u us, case %u: %.1f%%\n", late_us, i, 100 * part);
                        assert_true(part > 0.72 && part < 0.78);
                }
}

/* A tenant whose lateness exceeds the credit of a hundredth loses its place as before. */
static void test_late_too_often(void **state) {
        double part = short_beside_long(MSEC, SIM_SYNC, 0);

        assert_true(part < 0.6);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_begins_at_nothing),
                        cmocka_unit_test(test_is_a_hundredth),
                        cmocka_unit_test(test_has_a_limit),
                        cmocka_unit_test(test_nothing_foreseen),
                        cmocka_unit_test(test_bound),
                        cmocka_unit_test(test_late_gap),
                        cmocka_unit_test(test_late_gaps_one_by_one),
                        cmocka_unit_test(test_equals_do_not_idle),
                        cmocka_unit_test(test_short_beside_long),
                        cmocka_unit_test(test_late_too_often),
        };

        return cmocka_run_group_tests_name("policy-patience", tests, NULL, NULL);
}
