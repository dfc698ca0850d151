/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What runs when an entity is expected: it is taken off the device while there is time, and the device is kept in the
 * pauses of a visit
 */

#include "service/core/forecast.h"
#include "service/core/ladder.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define PERIOD_NS  (25 * NSEC_PER_MSEC)
#define WORK_NS    (1 * NSEC_PER_MSEC)
#define STEP_NS    (10 * NSEC_PER_USEC)
#define HOLD_NS    (800 * NSEC_PER_USEC)
#define RELEASE_NS (400 * NSEC_PER_USEC)
#define CAREFUL_NS (HOLD_NS + HOLD_NS / 4)

static void let_pass(const Two *t, uint64_t ns) {
        for (uint64_t end = now_ns() + ns; now_ns() < end;) {
                own_clock_pass(STEP_NS);
                if (dues_turn(&t->m->dues, now_ns()) > 0)
                        arbiter_flush(t->m);
        }
}

static void visit(Two *t) {
        begin(t->h);
        let_pass(t, WORK_NS);
        finish(t->h);
        t->due += PERIOD_NS;
}

/* A high tenant that makes visits, and a low one whose driver has all levels. */
static Two visitor_make(void) {
        const QueueParameters low = {.device = "d", .backend = "kfd", .level = LEVEL_INTERRUPT};
        Two t = two_make(0, NULL, &low);

        t.due = now_ns();
        begin(t.l);
        for (unsigned i = 0; i < FORECAST_GAPS + 1; i++) {
                let_pass(&t, ns_sub(t.due, now_ns()));
                visit(&t);
        }
        return t;
}

/* --- launches in flight --- */

/* An earlier window took so much longer than usual. */
static void set_slowest(const Two *t, uint64_t ns) {
        let_pass(t, t->due - PERIOD_NS / 2 - now_ns());
        t->d->openings.took_ns[t->d->openings.newest] = ns;
        t->d->openings.slowest_ns = ns;
        t->d->forecast_stale = true;
        device_touch(t->d);
        arbiter_flush(t->m);
}

typedef struct Opening {
        uint64_t held_ns, off_ns; /* how long before the visit it was held, and ordered off the device; 0: not */
} Opening;

/* Waits for the next visit, beside launches that seem to take `mean_ns`, and end `drain_ns` after they are held. */
static Opening await_visit(Two *t, uint32_t mean_ns, uint64_t drain_ns) {
        PageSlot *s = t->l->page_slot;
        Opening o = {};

        atomic_store(&s->mean_ns, mean_ns);
        while (now_ns() < t->due) {
                let_pass(t, STEP_NS);
                if (!held(t->l))
                        o = (Opening){};
                else if (o.held_ns == 0)
                        o.held_ns = t->due - now_ns();
                if (o.held_ns > 0 && o.off_ns == 0 && atomic_load(&s->level) >= LEVEL_DEQUEUE)
                        o.off_ns = t->due - now_ns();
                if (o.held_ns > 0 && o.off_ns == 0 && t->due - now_ns() + drain_ns <= o.held_ns &&
                                page_slot_read_in_flight(s) > 0) {
                        drain(t->l);
                        atomic_store(&s->waiters, 1); /* it still waits at the gate */
                }
        }
        visit(t);
        atomic_store(&s->waiters, 0);
        finish(t->l);
        begin(t->l);
        return o;
}

static void assert_about(uint64_t ns, uint64_t wanted_ns) {
        assert_in_range(ns, wanted_ns - 6 * STEP_NS, wanted_ns + 6 * STEP_NS);
}

/* A window that leaves no time to wait: what runs is taken off at once, however soon it seems to end. */
static void test_at_once(void **state) {
        Two t = visitor_make();

        set_costs(t.l, HOLD_NS, RELEASE_NS);
        Opening o = await_visit(&t, 100 * NSEC_PER_USEC, UINT64_MAX / 2);
        assert_about(o.held_ns, CAREFUL_NS + FORECAST_MARGIN_NS);
        assert_about(o.off_ns, o.held_ns);
        two_done(&t);
}

/* A window that is longer than that: launches that should end soon may do so, for as long as there is time. */
static void test_in_time(void **state) {
        const uint64_t spare_ns = 400 * NSEC_PER_USEC;
        Two t = visitor_make();

        set_costs(t.l, HOLD_NS, RELEASE_NS);
        set_slowest(&t, CAREFUL_NS + spare_ns);
        Opening o = await_visit(&t, 300 * NSEC_PER_USEC, UINT64_MAX / 2);
        assert_about(o.held_ns, CAREFUL_NS + spare_ns + FORECAST_MARGIN_NS);
        assert_about(o.off_ns, CAREFUL_NS + FORECAST_MARGIN_NS);

        /* They end. */
        o = await_visit(&t, 300 * NSEC_PER_USEC, 200 * NSEC_PER_USEC);
        assert_about(o.held_ns, CAREFUL_NS + spare_ns + FORECAST_MARGIN_NS);
        assert_int_equal(o.off_ns, 0);

        /* They take longer, by what is known. */
        o = await_visit(&t, 500 * NSEC_PER_USEC, UINT64_MAX / 2);
        assert_about(o.off_ns, o.held_ns);
        two_done(&t);
}

/* Where taking off takes longer than a window may, it would not help the visit: the cheaper way is taken. */
static void test_too_slow(void **state) {
        Two t = visitor_make();

        set_costs(t.l, 2 * PERIOD_NS / FORECAST_PART, RELEASE_NS);
        Opening o = await_visit(&t, NSEC_PER_MSEC, UINT64_MAX / 2);
        assert_in_range(o.held_ns, NSEC_PER_MSEC, PERIOD_NS / FORECAST_PART);
        assert_int_equal(o.off_ns, 0);
        two_done(&t);
}

/* --- pauses --- */

/* Makes a visit that pauses once. Returns for how long the low one ran in the pause. */
static uint64_t visit_with_pause(Two *t, uint64_t pause_ns) {
        uint64_t ran_ns = 0;

        let_pass(t, ns_sub(t->due, now_ns()));
        begin(t->h);
        let_pass(t, WORK_NS);
        finish(t->h);
        for (uint64_t end = now_ns() + pause_ns, at; now_ns() < end; ran_ns += held(t->l) ? 0 : now_ns() - at) {
                at = now_ns();
                let_pass(t, STEP_NS);
        }
        begin(t->h);
        let_pass(t, WORK_NS);
        finish(t->h);
        t->due += PERIOD_NS;
        return ran_ns;
}

/* Returns for how long the device is kept after a visit. */
static uint64_t visit_and_keep(Two *t) {
        let_pass(t, ns_sub(t->due, now_ns()));
        visit(t);
        uint64_t left_at = now_ns();
        while (held(t->l))
                let_pass(t, STEP_NS);
        return now_ns() - left_at;
}

static void test_pauses(void **state) {
        const uint64_t pause_ns = 100 * NSEC_PER_USEC;
        Two t = visitor_make();

        /* A job that makes one launch a visit: nobody waits. */
        assert_in_range(visit_and_keep(&t), 0, STEP_NS);

        /* The first pause teaches. */
        assert_in_range(visit_with_pause(&t, pause_ns), pause_ns - 2 * STEP_NS, pause_ns + 2 * STEP_NS);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(visit_with_pause(&t, pause_ns), 0);

        /* Without a pause it costs a quarter more than that, and less and less. */
        assert_in_range(visit_and_keep(&t), pause_ns, pause_ns + pause_ns / 4 + 2 * STEP_NS);
        for (unsigned i = 0; i < 4 * FORECAST_PAUSE_FADES; i++)
                (void) visit_and_keep(&t);
        assert_in_range(visit_and_keep(&t), 0, STEP_NS);

        /* It is long before the next window. */
        assert_true(visit_with_pause(&t, 2 * FORECAST_PAUSE_NS) > FORECAST_PAUSE_NS);
        assert_in_range(visit_and_keep(&t), 0, STEP_NS);
        two_done(&t);
}

/* What was taken off for a visit is not let go in its pause, however soon it seems to end. */
static void test_stays_off(void **state) {
        PageSlot *s;
        Two t = visitor_make();

        set_costs(t.l, HOLD_NS, RELEASE_NS);
        s = t.l->page_slot;
        for (unsigned i = 0; i < 2; i++) {
                atomic_store(&s->mean_ns, 100 * NSEC_PER_USEC);
                let_pass(&t, t.due - now_ns());
                assert_int_equal(atomic_load(&s->level), LEVEL_INTERRUPT);
                atomic_store(&s->applied, atomic_load(&s->verdict));
                begin(t.h);
                let_pass(&t, 50 * NSEC_PER_USEC);
                finish(t.h);
                for (unsigned k = 0; k < 10; k++) {
                        let_pass(&t, STEP_NS);
                        assert_true(i == 0 || (held(t.l) && atomic_load(&s->level) == LEVEL_INTERRUPT));
                }
                visit(&t);
        }
        assert_true(t.h->entity->forecast.pause_ns > 0);
        two_done(&t);
}

/* A hint for the time after a pause has its window at once, or within the pause: what the pause only held is taken off
 * in time. */
static void test_hint_in_a_pause(void **state) {
        const uint64_t hold_ns = 300 * NSEC_PER_USEC, lead_ns = hold_ns + hold_ns / 4;

        for (unsigned later = 0; later < 2; later++) {
                Two t = visitor_make();
                const Forecast *f = &t.h->entity->forecast;
                PageSlot *s = t.l->page_slot;

                (void) visit_with_pause(&t, 450 * NSEC_PER_USEC);
                set_costs(t.l, hold_ns, RELEASE_NS);
                finish(t.l);
                atomic_store(&s->mean_ns, 100 * NSEC_PER_USEC);
                let_pass(&t, t.due - now_ns());
                begin(t.h);
                let_pass(&t, 18 * NSEC_PER_MSEC);
                finish(t.h);
                begin(t.l);
                assert_true(held(t.l) && atomic_load(&s->level) == LEVEL_GATE);
                let_pass(&t, 50 * NSEC_PER_USEC);
                assert_int_equal(atomic_load(&s->level), LEVEL_GATE);

                uint64_t open = now_ns() + (later ? 150 * NSEC_PER_USEC : 0);
                expect(t.h, open + lead_ns + FORECAST_HINT_NS);
                assert_true(f->hinted_at > 0);
                assert_int_equal(atomic_load(&s->level), later ? LEVEL_GATE : LEVEL_INTERRUPT);
                let_pass(&t, ns_sub(open + 2 * STEP_NS, now_ns()));
                assert_true(now_ns() < f->pauses_until);
                assert_true(held(t.l));
                assert_int_equal(atomic_load(&s->level), LEVEL_INTERRUPT);

                /* It ends as any other. */
                let_pass(&t, lead_ns + 2 * FORECAST_HINT_NS + FORECAST_LATE_NS);
                assert_false(held(t.l));
                two_done(&t);
        }
}

/* Returns for how long the low one yields. */
static uint64_t yields_until(const Two *t, uint64_t at) {
        uint64_t sum = 0;

        for (; now_ns() < at; sum += t->l->entity->yields ? STEP_NS : 0)
                let_pass(t, STEP_NS);
        return sum;
}

/* However many pauses a visit has, they and the window cost no more than a window may. */
static void test_many_pauses(void **state) {
        const uint64_t pause_ns = 300 * NSEC_PER_USEC, part_ns = PERIOD_NS / FORECAST_PAUSE_PART;
        Two t = visitor_make();

        t.d->costs.hold_ns = PERIOD_NS;
        for (unsigned visits = 0; visits < 5; visits++) {
                uint64_t kept_ns = 0;

                let_pass(&t, ns_sub(t.due, now_ns()));
                t.due += PERIOD_NS;
                for (unsigned i = 0; i < 10; i++) {
                        begin(t.h);
                        let_pass(&t, 100 * NSEC_PER_USEC);
                        finish(t.h);
                        kept_ns += yields_until(&t, now_ns() + pause_ns);
                }
                assert_in_range(kept_ns, visits > 0 ? part_ns - 5 * STEP_NS : 0, part_ns + 5 * STEP_NS);
                kept_ns += yields_until(&t, t.due);
                assert_in_range(kept_ns, NSEC_PER_MSEC, PERIOD_NS / FORECAST_PART + 5 * STEP_NS);
        }
        two_done(&t);
}

/* Irregular visits have no pauses: nobody is expected. */
static void test_irregular(void **state) {
        Two t = visitor_make();

        (void) visit_with_pause(&t, 100 * NSEC_PER_USEC);
        for (unsigned i = 0; i < 2 * FORECAST_GAPS; i++) {
                t.due += (5 + i * 7 % 16) * NSEC_PER_MSEC;
                (void) visit_and_keep(&t);
        }
        assert_true(t.h->entity->forecast.pause_ns > 0);
        assert_in_range(visit_and_keep(&t), 0, STEP_NS);
        two_done(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_at_once),
                        cmocka_unit_test(test_in_time),
                        cmocka_unit_test(test_too_slow),
                        cmocka_unit_test(test_pauses),
                        cmocka_unit_test(test_stays_off),
                        cmocka_unit_test(test_hint_in_a_pause),
                        cmocka_unit_test(test_many_pauses),
                        cmocka_unit_test(test_irregular),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
