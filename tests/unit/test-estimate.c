/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Estimates of the run time while the entity was not watched; time is an argument
 */

#include <stdlib.h>

#include "common/time-util.h"
#include "service/core/account.h"
#include "service/core/estimate.h"
#include "tests/lib/unit.h"

#define MS NSEC_PER_MSEC

static void test_half(void **state) {
        Estimate e = {0};
        uint64_t now = 1000 * MS, counted = 0;

        /* The entity ran for half of the watched time, and then was not watched for a second. */
        estimate_mark(&e, now, counted);
        now += 10 * MS, counted += 5 * MS;
        estimate_leave(&e, now, counted);
        assert_int_equal(estimate_run(&e, now, counted), 5 * MS);
        assert_int_equal(estimate_run(&e, now + 400 * MS, counted), 205 * MS);
        now += 1000 * MS;
        estimate_return(&e, now, counted);
        assert_int_equal(estimate_run(&e, now, counted), 505 * MS);
        assert_int_equal(estimate_run(&e, now + 10 * MS, counted), 505 * MS);
}

/* For an entity that the policy believes ready, the estimate replaces what the policy counted. */
static void test_believed(void **state) {
        Estimate e = {0};
        uint64_t now = 1000 * MS, counted = 0;

        estimate_mark(&e, now, counted);
        now += 10 * MS, counted += 2 * MS;
        estimate_leave(&e, now, counted);
        now += 1000 * MS, counted += 1000 * MS;
        assert_int_equal(estimate_run(&e, now, counted), 202 * MS);
        estimate_return(&e, now, counted);
        assert_int_equal(estimate_run(&e, now, counted), 202 * MS);
        now += 10 * MS, counted += 10 * MS;
        assert_int_equal(estimate_run(&e, now, counted), 212 * MS);
}

/* The unwatched span counts with the mean of the run parts before and after it: added at once, or subtracted from later
 * time. */
static void test_correction(void **state) {
        Estimate e = {0};
        uint64_t now = 1000 * MS, counted = 0;

        estimate_mark(&e, now, counted);
        now += 10 * MS;
        estimate_leave(&e, now, counted);
        now += 1000 * MS;
        estimate_return(&e, now, counted);
        assert_int_equal(estimate_run(&e, now, counted), 0);
        now += 10 * MS, counted += 10 * MS;
        estimate_settle(&e, now, counted);
        assert_int_equal(estimate_run(&e, now, counted), 510 * MS);

        estimate_leave(&e, now, counted);
        now += 1000 * MS;
        estimate_return(&e, now, counted);
        now += 10 * MS;
        uint64_t before = estimate_run(&e, now, counted);
        assert_int_equal(before, 1510 * MS);
        estimate_settle(&e, now, counted); /* the entity had stopped: 500 ms too many were reported */
        assert_int_equal(estimate_run(&e, now, counted), before);
        counted += 500 * MS;
        assert_int_equal(estimate_run(&e, now, counted), before);
        counted += 100 * MS;
        assert_int_equal(estimate_run(&e, now, counted), before + 100 * MS);
}

/* The policy learns late that a run has ended: the reported time stays until as much has been counted again. */
static void test_told(void **state) {
        const uint64_t counted[] = {5 * MS, 2 * MS, 4 * MS, 6 * MS}, told[] = {5 * MS, 5 * MS, 5 * MS, 6 * MS};
        Estimate e = {0};

        for (size_t i = 0; i < ELEMENTSOF(counted); i++) {
                uint64_t now = (10 + i) * MS;
                assert_int_equal(estimate_tell(&e, now, counted[i]), told[i]);
                assert_int_equal(estimate_run(&e, now, counted[i]), told[i]);
                assert_int_equal(estimate_ahead(&e, now, counted[i]), told[i] - counted[i]);
                assert_int_equal(estimate_beyond(&e, now, counted[i]), 0);
        }
}

static void test_driver(void **state) {
        Estimate e = {0};
        uint64_t now = 1000 * MS, counted = 0;

        estimate_mark(&e, now, counted);
        now += 10 * MS, counted += 10 * MS;
        estimate_leave(&e, now, counted);
        now += 1000 * MS;
        estimate_driver(&e, now, counted, 1000 * MS, 250 * MS);
        uint64_t told = estimate_run(&e, now, counted);
        assert_int_equal(told, 1010 * MS); /* reported time never falls */
        for (unsigned i = 0; i < 4; i++) {
                now += 1000 * MS;
                estimate_driver(&e, now, counted, 1000 * MS, 250 * MS);
        }
        assert_int_equal(estimate_run(&e, now, counted), 1260 * MS);

        /* The estimate is no more than the unwatched span. */
        now += 1000 * MS;
        estimate_driver(&e, now, counted, 5000 * MS, NSEC_INFINITY);
        assert_int_equal(estimate_run(&e, now, counted), 2260 * MS);
}

/* Samples a program of bursts as the service does: the estimate is within 10 % of its run time in a minute, and never
 * falls. */
static void sample_bursts(unsigned seed, uint64_t on, uint64_t off) {
        Estimate e = {0};
        uint64_t now = 0, ran = 0, until = 0, told = 0, away_until = 0, watched = 0;

        srand(seed);
        estimate_mark(&e, 0, 0);
        for (; now < 60 * NSEC_PER_SEC; now += MS / 10) {
                bool busy = now % (on + off) < on;

                ran += busy ? MS / 10 : 0;
                if (!e.away)
                        watched += busy ? MS / 10 : 0;
                if (e.away && now >= away_until) {
                        estimate_return(&e, now, watched);
                        until = now + ACCOUNT_LEAD_NS + ACCOUNT_WINDOW_NS;
                } else if (!e.away && now >= until) {
                        estimate_leave(&e, now, watched);
                        away_until = now + ACCOUNT_AWAY_NS / 2 + (uint64_t) rand() % ACCOUNT_AWAY_NS;
                }
                uint64_t run = estimate_run(&e, now, watched);
                assert_true(run >= told);
                told = run;
        }
        assert_true(told > ran - ran / 10 - NSEC_PER_SEC && told < ran + ran / 10 + NSEC_PER_SEC);
}

static void test_bursts(void **state) {
        sample_bursts(1, 1 * MS, 0);
        for (unsigned seed = 1; seed <= 8; seed++) {
                sample_bursts(seed, 1 * MS, 1 * MS);
                sample_bursts(seed, 1 * MS, 3 * MS);
        }
}

/* Hostile and odd orders of calls: nothing overflows, and no time falls. */
static void test_any_order(void **state) {
        for (unsigned seed = 1; seed <= 200; seed++) {
                Estimate e = {0};
                uint64_t now = 1, counted = 0, told = 0;

                srand(seed);
                for (unsigned i = 0; i < 500; i++) {
                        uint64_t span = (uint64_t) rand() % (2000 * MS);
                        now += span;
                        counted += rand() % 2 ? span : 0;
                        switch (rand() % 6) {
                        case 0:
                                estimate_leave(&e, now, counted);
                                break;
                        case 1:
                                estimate_return(&e, now, counted);
                                break;
                        case 2:
                                estimate_mark(&e, now, counted);
                                break;
                        case 3:
                                estimate_settle(&e, now, counted);
                                break;
                        case 4:
                                estimate_driver(&e, now, counted, (uint64_t) rand() * MS, (uint64_t) rand() * MS);
                                break;
                        default:
                                break;
                        }
                        uint64_t run = estimate_run(&e, now, counted);
                        assert_true(run >= told);
                        assert_true(run <= now);
                        assert_true(e.part >= 0 && e.part <= 1);
                        told = run;
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_half),
                        cmocka_unit_test(test_believed),
                        cmocka_unit_test(test_correction),
                        cmocka_unit_test(test_told),
                        cmocka_unit_test(test_driver),
                        cmocka_unit_test(test_bursts),
                        cmocka_unit_test(test_any_order),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
