/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service frees the device for regular entities before they come
 */

#include "service/core/forecast.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define PERIOD_NS (25 * NSEC_PER_MSEC)
#define WORK_NS   (1 * NSEC_PER_MSEC)
#define STEP_NS   (20 * NSEC_PER_USEC)

static void test_periods(void **state) {
        static const uint64_t jitter[FORECAST_GAPS] = {0, 90, 20, 70, 50, 10, 80, 40, 110, 30, 100, 60};
        uint64_t period, spread;
        Forecast f = {};

        for (unsigned i = 0; i < FORECAST_GAPS; i++)
                assert_int_equal(forecast_learn(&f, PERIOD_NS + jitter[i] * NSEC_PER_USEC, &period, &spread),
                                i + 1 >= FORECAST_FEW);
        assert_in_range(period, PERIOD_NS + 50 * NSEC_PER_USEC, PERIOD_NS + 60 * NSEC_PER_USEC);
        assert_in_range(spread, FORECAST_MARGIN_NS + 30 * NSEC_PER_USEC, FORECAST_MARGIN_NS + 40 * NSEC_PER_USEC);

        /* FORECAST_ODD odd visits do not end the regularity; one more does. */
        for (unsigned i = 0; i < FORECAST_ODD; i++)
                assert_true(forecast_learn(&f, (i % 2 ? 13 : 14) * PERIOD_NS / 10, &period, &spread));
        assert_in_range(period, PERIOD_NS, PERIOD_NS + 100 * NSEC_PER_USEC);
        assert_false(forecast_learn(&f, 13 * PERIOD_NS / 10, &period, &spread));

        /* Visits that are left out do not, while more come than are left out. */
        f = (Forecast){};
        for (unsigned i = 0; i + 1 < FORECAST_GAPS; i++)
                assert_int_equal(forecast_learn(&f, (i % 3 ? 1 : 2) * PERIOD_NS, &period, &spread), i % 3 == 2);
        for (unsigned i = 0; i < 2 * FORECAST_GAPS; i++)
                assert_true(forecast_learn(&f, (i % 3 ? 1 : 20) * PERIOD_NS, &period, &spread));
        assert_int_equal(period, PERIOD_NS);
        assert_int_equal(spread, FORECAST_MARGIN_NS);

        /* Visits that are rare or irregular. */
        f = (Forecast){};
        for (unsigned i = 0; i < 2 * FORECAST_GAPS; i++)
                assert_false(forecast_learn(&f, FORECAST_PERIOD_MAX_NS + NSEC_PER_MSEC, &period, &spread));
        f = (Forecast){};
        for (unsigned i = 0; i < 4 * FORECAST_GAPS; i++)
                assert_false(forecast_learn(&f, (5 + i * 7 % 16) * NSEC_PER_MSEC, &period, &spread));
}

/* The newest gaps alone say what the period is, where they agree. */
static void test_few_gaps(void **state) {
        const uint64_t most = PERIOD_NS / FORECAST_PART / 2 - FORECAST_MARGIN_NS;
        uint64_t period, spread;
        Forecast f = {};

        assert_false(forecast_learn(&f, PERIOD_NS, &period, &spread));
        assert_true(forecast_learn(&f, PERIOD_NS - most, &period, &spread));
        assert_int_equal(period, PERIOD_NS);
        assert_int_equal(spread, most + FORECAST_MARGIN_NS);
        f = (Forecast){};
        assert_false(forecast_learn(&f, PERIOD_NS - most - 1, &period, &spread));
        assert_false(forecast_learn(&f, PERIOD_NS, &period, &spread));

        /* One visit that is left out, or comes at another time, is no part of a period. */
        assert_true(forecast_learn(&f, PERIOD_NS, &period, &spread));
        assert_false(forecast_learn(&f, 2 * PERIOD_NS, &period, &spread));
        assert_false(forecast_learn(&f, PERIOD_NS, &period, &spread));
        assert_true(forecast_learn(&f, PERIOD_NS, &period, &spread));

        /* After forecasts in vain it takes one more. */
        f = (Forecast){.n_missed = FORECAST_MISSES};
        for (unsigned i = 0; i < FORECAST_FEW; i++)
                assert_false(forecast_learn(&f, PERIOD_NS, &period, &spread));
        assert_true(forecast_learn(&f, PERIOD_NS, &period, &spread));

        /* Another period than the former one. */
        f = (Forecast){};
        for (unsigned i = 0; i < FORECAST_GAPS; i++)
                (void) forecast_learn(&f, PERIOD_NS, &period, &spread);
        for (unsigned i = 0; i < FORECAST_GAPS; i++)
                (void) forecast_learn(&f, 2 * PERIOD_NS / 3, &period, &spread);
        assert_int_equal(period, 2 * PERIOD_NS / 3);
        (void) forecast_learn(&f, PERIOD_NS, &period, &spread);
        for (unsigned i = 0; i < FORECAST_GAPS; i++)
                assert_true(forecast_learn(&f, PERIOD_NS, &period, &spread));
        assert_int_equal(period, PERIOD_NS);
}

/* Visits at random: their gaps agree rarely, so that few windows are made in vain. */
static void test_random_gaps(void **state) {
        const unsigned n = 100000;
        uint64_t period, spread, seed = 1;
        unsigned n_known = 0;
        Forecast f = {};

        for (unsigned i = 0; i < n; i++) {
                seed = seed * 6364136223846793005 + 1442695040888963407;
                uint64_t gap = FORECAST_PERIOD_MIN_NS + seed % (10 * FORECAST_PERIOD_MIN_NS);
                n_known += forecast_learn(&f, gap, &period, &spread);
        }
        assert_in_range(n_known, 1, n / FORECAST_PART);
}

static Two busy_make(int low_priority) {
        Two t = two_make(low_priority, NULL, NULL);

        begin(t.l);
        return t;
}

/* Passes time from one timer of the service to the next, until `at`. Returns since when the low one is held, 0: it is
 * not. */
static uint64_t pass_until(const Two *t, uint64_t at) {
        uint64_t since = 0;

        while (now_ns() < at) {
                own_clock_pass(STEP_NS);
                if (dues_turn(&t->m->dues, now_ns()) > 0)
                        arbiter_flush(t->m);
                if (!held(t->l))
                        since = 0;
                else if (since == 0)
                        since = now_ns();
        }
        return since;
}

static void visit(const Two *t) {
        begin(t->h);
        assert_true(held(t->l));
        own_clock_pass(WORK_NS);
        finish(t->h);
}

/* Makes n regular visits. Returns when the next is due. */
static uint64_t visit_regularly(const Two *t, unsigned n) {
        uint64_t due = now_ns();

        for (unsigned i = 0; i < n; i++, due += PERIOD_NS) {
                (void) pass_until(t, due);
                visit(t);
        }
        return due;
}

static void test_window(void **state) {
        Two t = busy_make(0);
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1);

        assert_int_equal(pass_until(&t, due - 5 * NSEC_PER_MSEC), 0);
        uint64_t since = pass_until(&t, due);
        assert_in_range(since, due - PERIOD_NS / FORECAST_PART, due - FORECAST_MARGIN_NS + 2 * STEP_NS);
        visit(&t);
        (void) pass_until(&t, due + 5 * NSEC_PER_MSEC);
        assert_false(held(t.l));

        /* The expected visit does not come: it costs no more than one window. */
        due += PERIOD_NS;
        assert_true(pass_until(&t, due) > 0);
        assert_int_equal(pass_until(&t, due + PERIOD_NS / FORECAST_PART), 0);
        uint64_t late = due + 3 * PERIOD_NS;
        while (now_ns() < late)
                assert_int_equal(pass_until(&t, now_ns() + NSEC_PER_MSEC), 0);

        /* When the visitor is back, it is expected again. */
        due = visit_regularly(&t, 2);
        assert_true(pass_until(&t, due) > 0);
        two_done(&t);
}

/* An entity is expected from its fourth visit on. */
static void test_first_window(void **state) {
        Two t = busy_make(0);
        uint64_t due = visit_regularly(&t, FORECAST_FEW);

        assert_int_equal(pass_until(&t, due), 0);
        visit(&t);
        due += PERIOD_NS;
        assert_in_range(pass_until(&t, due), due - PERIOD_NS / FORECAST_PART, due - FORECAST_MARGIN_NS + 2 * STEP_NS);
        visit(&t);
        assert_int_equal(t.h->entity->forecast.n_expected, 1);
        two_done(&t);
}

/* An entity that is late is waited for. After that it is expected by its beat, and a period later. */
static void test_late_once(void **state) {
        Two t = busy_make(0);

        for (unsigned by_beat = 0; by_beat < 2; by_beat++) {
                uint64_t due = visit_regularly(&t, FORECAST_GAPS + 2), late = due + NSEC_PER_MSEC;

                assert_in_range(pass_until(&t, late), due - PERIOD_NS / FORECAST_PART, due);
                visit(&t);
                due = (by_beat ? due : late) + PERIOD_NS;
                assert_in_range(pass_until(&t, due), due - PERIOD_NS / FORECAST_PART, due);
                visit(&t);
                (void) pass_until(&t, due + PERIOD_NS);
        }
        two_done(&t);
}

/* An entity that takes long to stop is stopped earlier, and at the bound if that is not early enough. */
static void test_lead(void **state) {
        Two t = busy_make(0);
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1);

        t.d->costs.hold_ns = 1 * NSEC_PER_MSEC;
        device_touch(t.d);
        arbiter_flush(t.m);
        assert_in_range(pass_until(&t, due), due - PERIOD_NS / FORECAST_PART, due - NSEC_PER_MSEC);
        visit(&t);
        t.d->costs.hold_ns = 3 * NSEC_PER_MSEC;
        device_touch(t.d);
        arbiter_flush(t.m);
        due += PERIOD_NS;
        assert_in_range(pass_until(&t, due), due - PERIOD_NS / FORECAST_PART,
                        due - PERIOD_NS / FORECAST_PART + 2 * FORECAST_MARGIN_NS);
        visit(&t);
        two_done(&t);
}

/* Makes a visit at `due`, where the low one's launches in flight end `drain_ns` after it was held. Returns how long
 * before the visit it was held; 0: only at the visit. */
static uint64_t visit_behind(const Two *t, uint64_t due, uint64_t drain_ns) {
        uint64_t since = 0;
        bool came = false;

        while (!came || now_ns() < since + drain_ns) {
                (void) pass_until(t, now_ns() + STEP_NS);
                if (!came && now_ns() >= due) {
                        begin(t->h);
                        came = true;
                }
                if (since == 0 && held(t->l))
                        since = now_ns();
                if (since > 0 && now_ns() >= since + drain_ns && page_slot_read_in_flight(t->l->page_slot) > 0)
                        drain(t->l);
        }
        own_clock_pass(WORK_NS);
        finish(t->h);
        finish(t->l);
        begin(t->l);
        return ns_sub(due, since);
}

/* The launches in flight have ended when the expected entity comes, unless that takes too much of a period. */
static void test_launches_in_flight(void **state) {
        Two t = busy_make(0);
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1), drain_ns = 700 * NSEC_PER_USEC, short_ns = drain_ns / 7;
        uint64_t plain = visit_behind(&t, due, drain_ns);

        assert_in_range(plain, FORECAST_MARGIN_NS - 2 * STEP_NS, 2 * FORECAST_MARGIN_NS);
        /* With the steps of this clock the service is late by up to one, and begins so much earlier. */
        assert_in_range(visit_behind(&t, due += PERIOD_NS, drain_ns), drain_ns, drain_ns + plain + 3 * STEP_NS);

        /* One shorter drain changes little; many do. */
        assert_true(visit_behind(&t, due += PERIOD_NS, short_ns) > drain_ns);
        assert_true(visit_behind(&t, due += PERIOD_NS, short_ns) > drain_ns - drain_ns / 8);
        for (unsigned i = 0; i < 4 * FORECAST_DRAINS; i++)
                (void) visit_behind(&t, due += PERIOD_NS, short_ns);
        assert_true(visit_behind(&t, due += PERIOD_NS, short_ns) < short_ns + plain + drain_ns / 8);

        /* Longer than a tenth of the period: the window is that of unknown drains. */
        (void) visit_behind(&t, due += PERIOD_NS, 2 * PERIOD_NS / FORECAST_PART);
        assert_in_range(visit_behind(&t, due += PERIOD_NS, drain_ns), plain - 2 * STEP_NS, plain + 2 * STEP_NS);
        two_done(&t);
}

/* Makes a visit. Returns how long before it the low one was held. */
static uint64_t visit_held(const Two *t, uint64_t due) {
        uint64_t since = pass_until(t, due);

        assert_true(since > 0);
        visit(t);
        return due - since;
}

static void assert_early(const Two *t, uint64_t due, uint64_t lead_ns) {
        uint64_t early = visit_held(t, due) - FORECAST_MARGIN_NS;

        assert_in_range(early, lead_ns - 2 * STEP_NS, lead_ns + 2 * STEP_NS);
}

/* The service wakes up `late_ns` after the time at which the window should begin. */
static void assert_early_when_late(const Two *t, uint64_t due, uint64_t lead_ns, uint64_t late_ns) {
        (void) pass_until(t, due - PERIOD_NS / 2);
        own_clock_pass(t->d->forecast_at + late_ns - now_ns());
        assert_false(held(t->l));
        assert_early(t, due, lead_ns - late_ns);
}

static void stopped(const Two *t, uint64_t ordered_at, uint64_t took_ns) {
        forecast_stopped(t->d, ordered_at, took_ns);
        device_touch(t->d);
        arbiter_flush(t->m);
}

/* What frees the device in a window took longer than usual, by a late service and a slow process: the next windows
 * begin so much earlier. */
static void test_slow_opening(void **state) {
        Two t = busy_make(0);
        uint64_t hold_ns = 400 * NSEC_PER_USEC, plain = hold_ns + hold_ns / 4, late_ns = 200 * NSEC_PER_USEC;
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1);
        const Openings *o = &t.d->openings;

        t.d->costs.hold_ns = hold_ns;
        device_touch(t.d);
        arbiter_flush(t.m);
        assert_early(&t, due, plain);
        assert_early_when_late(&t, due += PERIOD_NS, plain, late_ns);
        assert_early(&t, due += PERIOD_NS, plain);

        /* Orders of other times say nothing. */
        stopped(&t, o->began_at - 1, plain);
        stopped(&t, o->began_at + FORECAST_MARGIN_NS + 1, plain);
        assert_early(&t, due += PERIOD_NS, plain);

        assert_early_when_late(&t, due += PERIOD_NS, plain, late_ns);
        stopped(&t, o->began_at, plain);
        for (unsigned i = 1; i < FORECAST_OPENINGS; i++)
                assert_early(&t, due += PERIOD_NS, late_ns + plain);
        assert_early(&t, due += PERIOD_NS, plain);

        /* A process that says too much of itself. */
        stopped(&t, o->began_at, NSEC_PER_SEC);
        assert_early(&t, due += PERIOD_NS, COSTS_SPREAD * hold_ns);
        two_done(&t);
}

/* A visit may consist of many small launches. */
static void test_visits_of_many_launches(void **state) {
        Two t = busy_make(0);
        uint64_t due = now_ns();

        for (unsigned i = 0; i <= FORECAST_GAPS; i++, due += PERIOD_NS) {
                (void) pass_until(&t, due);
                for (unsigned k = 0; k < 4; k++) {
                        visit(&t);
                        own_clock_pass(100 * NSEC_PER_USEC);
                }
        }
        assert_true(pass_until(&t, due) > 0);
        two_done(&t);
}

/* A stream of launches is one visit, however long it is: nothing is due while it goes on, and its begin has a period.
 */
static void test_streams(void **state) {
        Two t = busy_make(0);
        uint64_t due = now_ns();

        for (unsigned i = 0; i <= 2 * FORECAST_GAPS; i++, due += PERIOD_NS) {
                assert_true(pass_until(&t, due) > 0 || i <= FORECAST_FEW);
                for (unsigned k = 0; k < 10; k++) {
                        visit(&t);
                        (void) pass_until(&t, now_ns() + 200 * NSEC_PER_USEC);
                }
                assert_int_equal(t.h->entity->forecast.came_at / NSEC_PER_MSEC, due / NSEC_PER_MSEC);
        }
        assert_in_range(t.h->entity->forecast.period_ns, PERIOD_NS - STEP_NS, PERIOD_NS + STEP_NS);

        for (unsigned k = 0; k < 200; k++) {
                visit(&t);
                (void) pass_until(&t, now_ns() + 200 * NSEC_PER_USEC);
                assert_true(t.d->forecast_at == NSEC_INFINITY || k * WORK_NS < 2 * PERIOD_NS);
        }
        two_done(&t);
}

static void test_hint(void **state) {
        Two t = busy_make(0);

        visit(&t);
        uint64_t at = now_ns() + 50 * NSEC_PER_MSEC;
        expect(t.h, at);
        assert_int_equal(pass_until(&t, at - 5 * NSEC_PER_MSEC), 0);
        assert_in_range(pass_until(&t, at), at - 5 * NSEC_PER_MSEC, at - FORECAST_HINT_NS + 2 * STEP_NS);
        visit(&t);

        /* A hint counts once. */
        assert_int_equal(pass_until(&t, now_ns() + 100 * NSEC_PER_MSEC), 0);

        /* Also one for the next part of the same visit. */
        for (unsigned k = 0; k < 20; k++) {
                visit(&t);
                own_clock_pass(100 * NSEC_PER_USEC);
        }
        uint64_t came_at = t.h->entity->forecast.came_at;
        at = now_ns() + 300 * NSEC_PER_USEC;
        expect(t.h, at);
        assert_int_equal(t.h->entity->forecast.hinted_at, at);
        (void) pass_until(&t, at);
        visit(&t);
        assert_int_equal(t.h->entity->forecast.came_at, came_at);
        assert_int_equal(t.h->entity->forecast.hinted_at, 0);

        /* The hold ends when the launch does not come. */
        at = now_ns() + 50 * NSEC_PER_MSEC;
        expect(t.h, at);
        assert_true(pass_until(&t, at) > 0);
        assert_int_equal(pass_until(&t, at + FORECAST_HINT_NS + FORECAST_LATE_NS + 2 * STEP_NS), 0);
        two_done(&t);
}

/* A client that hints all the time but never launches costs others at most a tenth of their time. */
static void test_hints_that_lie(void **state) {
        Two t = busy_make(0);
        unsigned n = 0, n_held = 0;

        visit(&t);
        for (uint64_t end = now_ns() + 2 * NSEC_PER_SEC; now_ns() < end; n++) {
                expect(t.h, now_ns() + 2 * FORECAST_HINT_NS);
                (void) pass_until(&t, now_ns() + 100 * NSEC_PER_USEC);
                n_held += held(t.l);
        }
        assert_in_range(n_held, 1, n / FORECAST_PART);

        /* Impossible times are refused. */
        expect(t.h, 1);
        expect(t.h, now_ns() + FORECAST_HINT_MAX_NS + NSEC_PER_SEC);
        expect(t.h, UINT64_MAX);
        assert_int_equal(pass_until(&t, now_ns() + 100 * NSEC_PER_MSEC), 0);
        two_done(&t);
}

static void test_nobody_else_yields(void **state) {
        Two t = busy_make(10);
        uint64_t due = now_ns();

        /* Equals are not held for each other. */
        for (unsigned i = 0; i <= 2 * FORECAST_GAPS; i++, due += PERIOD_NS) {
                (void) pass_until(&t, due);
                begin(t.h);
                own_clock_pass(WORK_NS);
                finish(t.h);
        }
        for (uint64_t end = due; now_ns() < end;) {
                (void) pass_until(&t, now_ns() + 50 * NSEC_PER_USEC);
                assert_false(t.l->entity->yields);
        }
        assert_false(t.l->entity->yields);
        assert_false(t.h->entity->yields);
        two_done(&t);
}

static void test_linger_turns_it_off(void **state) {
        Two t = busy_make(0);
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        assert_int_equal(device_settings_set(&s, device_key_find("LingerUSec"), 0), 0);
        assert_int_equal(device_configure(t.d, &s), 0);
        arbiter_flush(t.m);
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1);
        assert_int_equal(pass_until(&t, due), 0);
        two_done(&t);
}

static void test_who_goes_is_forgotten(void **state) {
        Two t = busy_make(0);
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1);

        assert_non_null(t.d->forecasts);
        release(t.h);
        arbiter_flush(t.m);
        assert_null(t.d->forecasts);
        assert_int_equal(pass_until(&t, due), 0);
        two_done(&t);
}

/* Makes regular visits. Returns for how long the low one was held at most. */
static uint64_t longest_hold(const Two *t, unsigned n) {
        uint64_t due = now_ns(), since = 0, longest = 0;

        for (unsigned i = 0; i < n; i++, due += PERIOD_NS) {
                while (now_ns() < due) {
                        (void) pass_until(t, now_ns() + STEP_NS);
                        since = !held(t->l) ? 0 : since ?: now_ns();
                        longest = MAX(longest, since ? now_ns() - since : 0);
                }
                begin(t->h);
                own_clock_pass(WORK_NS);
                finish(t->h);
        }
        return longest;
}

/* A turn of the floor comes before what is expected, as before what is there: nobody is held for longer than without
 * windows. */
static void test_floor(void **state) {
        const uint64_t run_ns = 1 * NSEC_PER_MSEC;

        for (uint64_t starve_ns = 4 * NSEC_PER_MSEC; starve_ns < PERIOD_NS; starve_ns += 600 * NSEC_PER_USEC) {
                Two t = busy_make(0);
                Process mid = join(t.m, "/mid", 5);
                DeviceSettings s = DEVICE_SETTINGS_NULL;

                assert_int_equal(device_settings_set(&s, device_key_find("StarveRunUSec"), run_ns / NSEC_PER_USEC), 0);
                assert_int_equal(device_settings_set(&s, device_key_find("StarveUSec"), starve_ns / NSEC_PER_USEC), 0);
                assert_int_equal(device_configure(t.d, &s), 0);
                t.d->costs.hold_ns = PERIOD_NS / FORECAST_PART;
                begin(queue(&mid, "d", 0));
                assert_in_range(longest_hold(&t, 40), starve_ns - run_ns, starve_ns + WORK_NS + 3 * STEP_NS);
                leave(&mid);
                two_done(&t);
        }
}

/* Of equals nobody yields, so nothing is due for them, until there is one below them. */
static void test_equals(void **state) {
        Two t = busy_make(10);
        uint64_t due = now_ns();

        for (unsigned i = 0; i < 2 * FORECAST_GAPS; i++, due += PERIOD_NS) {
                (void) pass_until(&t, due);
                begin(t.h);
                own_clock_pass(WORK_NS);
                finish(t.h);
        }
        assert_true(t.h->entity->forecast.listed);
        (void) pass_until(&t, due - 10 * NSEC_PER_USEC);
        assert_int_equal(t.d->forecast_at, NSEC_INFINITY);
        assert_int_equal(t.d->yields_below, POLICY_LEVEL_NONE);
        assert_false(t.l->entity->yields);

        Process lower = join(t.m, "/lower", 0);
        const Queue *q = queue(&lower, "d", 0);
        begin(t.h);
        own_clock_pass(WORK_NS);
        finish(t.h);
        (void) pass_until(&t, due + PERIOD_NS);
        assert_true(q->entity->yields && held(q));
        assert_false(t.l->entity->yields);
        leave(&lower);
        two_done(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_periods),
                        cmocka_unit_test(test_few_gaps),
                        cmocka_unit_test(test_random_gaps),
                        cmocka_unit_test(test_first_window),
                        cmocka_unit_test(test_window),
                        cmocka_unit_test(test_late_once),
                        cmocka_unit_test(test_lead),
                        cmocka_unit_test(test_launches_in_flight),
                        cmocka_unit_test(test_slow_opening),
                        cmocka_unit_test(test_visits_of_many_launches),
                        cmocka_unit_test(test_streams),
                        cmocka_unit_test(test_hint),
                        cmocka_unit_test(test_hints_that_lie),
                        cmocka_unit_test(test_nobody_else_yields),
                        cmocka_unit_test(test_linger_turns_it_off),
                        cmocka_unit_test(test_who_goes_is_forgotten),
                        cmocka_unit_test(test_floor),
                        cmocka_unit_test(test_equals),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
