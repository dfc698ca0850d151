/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What expected entities cost others: at most a tenth of their time, whatever they do; and nobody else's room
 */

#include "service/core/forecast.h"
#include "service/core/ladder.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define PERIOD_NS (25 * NSEC_PER_MSEC)
#define WORK_NS   (100 * NSEC_PER_USEC)
#define STEP_NS   (10 * NSEC_PER_USEC)

/* Two high tenants, of whom the second need do nothing, and a low one whose driver has all levels. */
typedef struct Three {
        Manager *m;
        Process high, other, low;
        Queue *h, *o, *l;
        Device *d;
        uint64_t yielded_ns; /* the low one yielded to those who were not there */
} Three;

static Three three_make(void) {
        const QueueParameters low = {.device = "d", .backend = "kfd", .level = LEVEL_INTERRUPT};
        Three t = {.m = manager_make()};

        t.high = join(t.m, "/high", 10);
        t.other = join(t.m, "/other", 10);
        t.low = join(t.m, "/low", 0);
        t.h = queue(&t.high, "d", 0);
        t.o = queue(&t.other, "d", 0);
        t.l = queue_with(&t.low, &low);
        t.d = device_find(t.m, "d");
        begin(t.l);
        return t;
}

static void three_done(Three *t) {
        check(t->m);
        leave(&t->high);
        leave(&t->other);
        leave(&t->low);
        manager_free(t->m);
}

static void pass_until(Three *t, uint64_t at) {
        while (now_ns() < at) {
                uint64_t from = now_ns();

                own_clock_pass(STEP_NS);
                if (dues_turn(&t->m->dues, now_ns()) > 0)
                        arbiter_flush(t->m);
                if (t->l->entity->yields && !t->h->entity->told_ready && !t->o->entity->told_ready)
                        t->yielded_ns += now_ns() - from;
        }
}

static void let_pass(Three *t, uint64_t ns) {
        pass_until(t, now_ns() + ns);
}

static void work(Three *t, Queue *q, uint64_t ns) {
        begin(q);
        let_pass(t, ns);
        finish(q);
}

/* Makes n regular visits. Returns when the next is due. */
static uint64_t visit_regularly(Three *t, unsigned n, uint64_t period_ns) {
        uint64_t due = now_ns();

        for (unsigned i = 0; i < n; i++, due += period_ns) {
                pass_until(t, due);
                work(t, t->h, WORK_NS);
        }
        return due;
}

/* The visitor has a period, and its windows are as long as they may be. Returns when the next visit is due. */
static uint64_t begin_with_wide_windows(Three *t) {
        uint64_t due = visit_regularly(t, FORECAST_GAPS + 1, PERIOD_NS);

        t->d->costs.hold_ns = PERIOD_NS;
        t->yielded_ns = 0;
        return due;
}

static void assert_at_most_a_tenth(const Three *t, uint64_t since, uint64_t own_ns) {
        uint64_t all = now_ns() - since - own_ns;

        assert_true(t->yielded_ns * FORECAST_PART <= all + all / 50);
}

/* Hints and a period have one tenth together: hints before the period's window. */
static void test_hints_before_it_is_due(void **state) {
        Three t = three_make();
        uint64_t due = begin_with_wide_windows(&t), since = now_ns();
        const unsigned n = 40;

        for (unsigned i = 0; i < n; i++, due += PERIOD_NS) {
                pass_until(&t, due - PERIOD_NS + 2 * NSEC_PER_MSEC);
                expect(t.h, due - PERIOD_NS + 14 * NSEC_PER_MSEC);
                pass_until(&t, due + FORECAST_MARGIN_NS);
                work(&t, t.h, WORK_NS);
        }
        assert_at_most_a_tenth(&t, since, n * WORK_NS);
        three_done(&t);
}

/* Hints after the period's window has begun. */
static void test_hints_when_it_is_late(void **state) {
        Three t = three_make();
        uint64_t due = begin_with_wide_windows(&t), since = now_ns();
        const unsigned n = 40;

        for (unsigned i = 0; i < n; i++, due += PERIOD_NS) {
                /* Each third visit is left out. */
                if (i % 3 == 0) {
                        pass_until(&t, due);
                        expect(t.h, due + 5 * NSEC_PER_MSEC / 2);
                        pass_until(&t, due + 10 * NSEC_PER_MSEC);
                        expect(t.h, due + PERIOD_NS - 2 * NSEC_PER_MSEC);
                        continue;
                }
                pass_until(&t, due + FORECAST_MARGIN_NS);
                work(&t, t.h, WORK_NS);
        }
        assert_at_most_a_tenth(&t, since, n * WORK_NS);
        three_done(&t);
}

/* The same, within one gap. */
static void test_hint_after_the_window(void **state) {
        for (uint64_t ahead_ns = NSEC_PER_MSEC; ahead_ns < PERIOD_NS / 2; ahead_ns += NSEC_PER_MSEC) {
                Three t = three_make();
                uint64_t due = begin_with_wide_windows(&t), since = now_ns();

                pass_until(&t, due);
                expect(t.h, due + ahead_ns);
                pass_until(&t, due + ahead_ns + FORECAST_HINT_NS);
                assert_at_most_a_tenth(&t, since, 0);
                three_done(&t);
        }
}

/* One that comes before its hint has used up no more than until then: its next hint counts. */
static void test_earlier_than_hinted(void **state) {
        Three t = three_make();

        work(&t, t.h, WORK_NS);
        expect(t.h, now_ns() + NSEC_PER_SEC);
        assert_true(t.h->entity->forecast.hinted_at > 0);
        let_pass(&t, 20 * NSEC_PER_MSEC);
        work(&t, t.h, WORK_NS);
        uint64_t at = now_ns() + 20 * NSEC_PER_MSEC;
        expect(t.h, at);
        assert_int_equal(t.h->entity->forecast.hinted_at, at);
        pass_until(&t, at);
        assert_true(held(t.l));
        three_done(&t);
}

/* One that comes early has no more time for pauses than one that comes when it is due. */
static void test_pauses_of_early_visits(void **state) {
        const uint64_t period_ns = NSEC_PER_SEC, pause_ns = 470 * NSEC_PER_USEC;
        Three t = three_make();
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1, period_ns);

        for (unsigned rounds = 0; rounds < 2; rounds++) {
                uint64_t came = now_ns();

                due = now_ns() + period_ns;
                t.yielded_ns = 0;
                for (unsigned early = 0; early < FORECAST_ODD; early++) {
                        uint64_t visit_at = now_ns();

                        while (now_ns() < visit_at + period_ns / FORECAST_PAUSE_PART) {
                                work(&t, t.h, STEP_NS);
                                let_pass(&t, pause_ns);
                        }
                        let_pass(&t, 2 * FORECAST_PAUSE_NS);
                }
                assert_true(t.yielded_ns <= (period_ns + now_ns() - came) / FORECAST_PAUSE_PART + pause_ns);
                for (unsigned i = 0; i < FORECAST_GAPS; i++, due += period_ns) {
                        pass_until(&t, due);
                        work(&t, t.h, WORK_NS);
                }
        }
        three_done(&t);
}

/* Two pauses, a hint in the second whose window opens in it or later, and the next window, take no more than a window
 * may. */
static void test_hints_in_pauses(void **state) {
        const uint64_t pause_ns = 450 * NSEC_PER_USEC;

        for (uint64_t ahead_us = 900; ahead_us < 3000; ahead_us += 600) {
                Three t = three_make();
                uint64_t due = begin_with_wide_windows(&t);
                const Forecast *f = &t.h->entity->forecast;
                unsigned n_hints = 0;

                /* The first pause teaches. */
                work(&t, t.h, WORK_NS);
                let_pass(&t, pause_ns);
                work(&t, t.h, WORK_NS);
                t.yielded_ns = 0;
                uint64_t since = now_ns();
                for (unsigned i = 0; i < 40; i++, due += PERIOD_NS) {
                        pass_until(&t, due + FORECAST_MARGIN_NS);
                        work(&t, t.h, 18 * NSEC_PER_MSEC);
                        let_pass(&t, pause_ns);
                        work(&t, t.h, STEP_NS);
                        let_pass(&t, STEP_NS);
                        assert_true(now_ns() < f->pauses_until);
                        expect(t.h, now_ns() + ahead_us * NSEC_PER_USEC);
                        n_hints += f->hinted_at > 0;
                }
                assert_int_equal(n_hints, 40);
                assert_at_most_a_tenth(&t, since, 0);
                three_done(&t);
        }
}

/* A pause is no window: what comes after it was not expected. */
static void test_pause_is_no_window(void **state) {
        Three t = three_make();
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1, PERIOD_NS);
        const Forecast *f = &t.h->entity->forecast;

        for (unsigned i = 0; i < 3; i++, due += PERIOD_NS) {
                pass_until(&t, due);
                work(&t, t.h, WORK_NS);
                let_pass(&t, 480 * NSEC_PER_USEC);
                work(&t, t.h, WORK_NS);
        }
        pass_until(&t, due);
        uint64_t n_visits = f->n_visits, n_expected = f->n_expected;
        work(&t, t.h, FORECAST_PERIOD_MIN_NS);
        assert_int_equal(f->n_expected, n_expected + 1);
        let_pass(&t, FORECAST_PAUSE_NS + 4 * STEP_NS);
        work(&t, t.h, WORK_NS);
        assert_int_equal(f->n_visits, n_visits + 2);
        assert_int_equal(f->n_expected, n_expected + 1);
        three_done(&t);
}

/* One that is late does not hide another that is expected: the device is free for it in time. */
static void test_one_late_another_due(void **state) {
        const uint64_t hold_ns = 800 * NSEC_PER_USEC;
        Three t = three_make();
        uint64_t due = now_ns();
        PageSlot *s = t.l->page_slot;

        for (unsigned i = 0; i < FORECAST_GAPS + 1; i++, due += PERIOD_NS) {
                pass_until(&t, due);
                work(&t, t.h, WORK_NS);
                pass_until(&t, due + 2 * NSEC_PER_MSEC);
                work(&t, t.o, WORK_NS);
        }
        set_costs(t.l, hold_ns, 10 * NSEC_PER_MSEC);
        pass_until(&t, due - 5 * NSEC_PER_MSEC);
        atomic_store(&s->mean_ns, 100 * NSEC_PER_USEC);
        /* The low one begins to launch in the first window only. */
        finish(t.l);
        pass_until(&t, due + 2 * STEP_NS);
        assert_true(t.l->entity->yields);
        begin(t.l);
        pass_until(&t, due + 2 * NSEC_PER_MSEC - 300 * NSEC_PER_USEC);
        assert_true(held(t.l));
        assert_true(atomic_load(&s->level) >= LEVEL_DEQUEUE);
        three_done(&t);
}

/* Nobody stays held when a pause ends, though nothing else happens; and the service does not wake up for it again. */
static void test_end_of_pause(void **state) {
        Three t = three_make();
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1, PERIOD_NS);

        work(&t, t.h, WORK_NS);
        let_pass(&t, 300 * NSEC_PER_USEC);
        work(&t, t.h, WORK_NS);
        pass_until(&t, due += PERIOD_NS);
        work(&t, t.h, WORK_NS);
        assert_true(held(t.l));
        uint64_t until = t.h->entity->forecast.pauses_until;
        assert_true(until > now_ns() && t.d->due.at <= until && t.d->forecast_at == until);
        pass_until(&t, until + 2 * STEP_NS);
        assert_false(held(t.l));
        assert_true(t.d->forecast_at > now_ns() + NSEC_PER_MSEC);
        three_done(&t);
}

static void set_linger(const Three *t, uint64_t us) {
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        assert_int_equal(device_settings_set(&s, device_key_find("LingerUSec"), us), 0);
        assert_int_equal(device_configure(t->d, &s), 0);
        arbiter_flush(t->m);
}

/* Who joins in a window, or gets a lower priority in it, yields as all others do; and no longer than they. */
static void test_joins_in_a_window(void **state) {
        Three t = three_make();
        uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1, PERIOD_NS);

        t.d->costs.hold_ns = PERIOD_NS;
        pass_until(&t, due - NSEC_PER_MSEC);
        assert_true(held(t.l));
        Process late = join(t.m, "/late", 0);
        Queue *q = queue(&late, "d", 0);
        begin(q);
        assert_true(held(q));
        assert_int_equal(settings_set_priority(&late.client->group->override, 11), 0);
        group_settings_changed(late.client->group);
        arbiter_flush(t.m);
        assert_false(held(q));
        assert_int_equal(settings_set_priority(&late.client->group->override, 5), 0);
        group_settings_changed(late.client->group);
        arbiter_flush(t.m);
        assert_true(held(q));
        check(t.m);
        pass_until(&t, due + 3 * NSEC_PER_MSEC);
        assert_false(held(q));
        leave(&late);
        three_done(&t);
}

/* What changes in the middle of a pause ends it, or keeps its end. */
static void test_changes_in_a_pause(void **state) {
        for (unsigned what = 0; what < 6; what++) {
                Three t = three_make();
                uint64_t due = visit_regularly(&t, FORECAST_GAPS + 1, PERIOD_NS);
                DeviceSettings s = DEVICE_SETTINGS_NULL;

                work(&t, t.h, WORK_NS);
                let_pass(&t, 400 * NSEC_PER_USEC);
                work(&t, t.h, WORK_NS);
                pass_until(&t, due += PERIOD_NS);
                work(&t, t.h, WORK_NS);
                assert_true(held(t.l));
                switch (what) {
                case 0:
                        set_linger(&t, 0);
                        break;
                case 1:
                        release(t.h);
                        arbiter_flush(t.m);
                        break;
                case 2:
                        assert_int_equal(settings_set_priority(&t.high.client->group->override, -5), 0);
                        group_settings_changed(t.high.client->group);
                        arbiter_flush(t.m);
                        break;
                case 3:
                        s.ops = policy_find("lax");
                        assert_non_null(s.ops);
                        assert_int_equal(device_configure(t.d, &s), 0);
                        arbiter_flush(t.m);
                        break;
                case 4:
                        assert_int_equal(settings_set_priority(&t.low.client->group->override, 20), 0);
                        group_settings_changed(t.low.client->group);
                        arbiter_flush(t.m);
                        break;
                default:
                        leave(&t.high);
                        t.high = join(t.m, "/high", 10);
                        t.h = queue(&t.high, "d", 0);
                        break;
                }
                assert_false(held(t.l));
                assert_false(t.l->entity->yields);
                if (what == 1)
                        t.h = queue(&t.high, "d", 0);
                let_pass(&t, NSEC_PER_MSEC);
                assert_false(held(t.l));
                three_done(&t);
        }
}

/* Gaps that agree by two, and never by three: after some windows in vain there are no more. */
static void test_gaps_in_pairs(void **state) {
        Three t = three_make();
        uint64_t at = now_ns();

        for (unsigned i = 0; i < 200; i++, at += (i / 2 % 2 ? 25 : 10) * NSEC_PER_MSEC) {
                pass_until(&t, at);
                work(&t, t.h, WORK_NS);
        }
        assert_in_range(t.h->entity->forecast.n_visits, 1, FORECAST_MISSES);
        assert_int_equal(t.h->entity->forecast.n_expected, 0);
        three_done(&t);
}

typedef struct Crowd {
        Process processes[FORECAST_MAX];
        Queue *queues[FORECAST_MAX];
} Crowd;

/* As many entities as can have forecasts have a period. Returns when they are due again. */
static uint64_t crowd_join(Crowd *c, Three *t, int priority) {
        uint64_t due = now_ns();

        for (unsigned i = 0; i < FORECAST_MAX; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "/crowd-%u", i);
                c->processes[i] = join(t->m, name, priority);
                c->queues[i] = queue(c->processes + i, "d", 0);
        }
        for (unsigned k = 0; k <= FORECAST_FEW; k++, due += PERIOD_NS) {
                pass_until(t, due);
                for (unsigned i = 0; i < FORECAST_MAX; i++)
                        work(t, c->queues[i], 50 * NSEC_PER_USEC);
        }
        for (unsigned i = 0; i < FORECAST_MAX; i++)
                assert_true(c->queues[i]->entity->forecast.listed);
        return due;
}

static void crowd_leave(Crowd *c) {
        for (unsigned i = 0; i < FORECAST_MAX; i++)
                leave(c->processes + i);
}

/* Those who had a period and do not come any more keep nobody from being expected, whatever their priority. */
static void test_idle_crowd(void **state) {
        for (int priority = -5; priority <= 15; priority += 20) {
                Three t = three_make();
                Crowd c;

                (void) crowd_join(&c, &t, priority);
                let_pass(&t, 4 * PERIOD_NS);
                (void) visit_regularly(&t, 2 * FORECAST_GAPS, PERIOD_NS);
                assert_true(t.h->entity->forecast.n_expected >= 2 * FORECAST_GAPS - FORECAST_FEW - 2);
                check(t.m);
                crowd_leave(&c);
                three_done(&t);
        }
}

/* Where all are expected, those of the highest priorities are. */
static void test_busy_crowd(void **state) {
        for (int priority = -5; priority <= 15; priority += 20) {
                Three t = three_make();
                Crowd c;
                uint64_t due = crowd_join(&c, &t, priority);

                for (unsigned k = 0; k < 2 * FORECAST_GAPS; k++, due += PERIOD_NS) {
                        pass_until(&t, due);
                        for (unsigned i = 0; i < FORECAST_MAX; i++)
                                work(&t, c.queues[i], 50 * NSEC_PER_USEC);
                        pass_until(&t, due + PERIOD_NS / 2);
                        work(&t, t.h, WORK_NS);
                }
                assert_int_equal(t.h->entity->forecast.listed, priority < 10);
                crowd_leave(&c);
                three_done(&t);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_gaps_in_pairs),
                        cmocka_unit_test(test_idle_crowd),
                        cmocka_unit_test(test_busy_crowd),
                        cmocka_unit_test(test_hints_before_it_is_due),
                        cmocka_unit_test(test_hints_when_it_is_late),
                        cmocka_unit_test(test_hint_after_the_window),
                        cmocka_unit_test(test_earlier_than_hinted),
                        cmocka_unit_test(test_pauses_of_early_visits),
                        cmocka_unit_test(test_hints_in_pauses),
                        cmocka_unit_test(test_pause_is_no_window),
                        cmocka_unit_test(test_one_late_another_due),
                        cmocka_unit_test(test_end_of_pause),
                        cmocka_unit_test(test_joins_in_a_window),
                        cmocka_unit_test(test_changes_in_a_pause),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
