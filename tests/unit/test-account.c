/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which entities are watched for their own accounting, and when: real pages and the real policy; the test makes the
 * looks
 */

#include <utlist.h>

#include "service/core/account.h"
#include "service/core/arbiter.h"
#include "service/core/edges.h"
#include "service/core/resolve.h"
#include "service/core/usage.h"
#include "service/settings/xsched-conf.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define WATCHED   (PAGE_WATCH_READY | PAGE_WATCH_IDLE)
#define CONTENDED (WATCHED | PAGE_WATCH_DRAINED)

/* Makes the next look, as if it were due. */
static void look(Queue *q) {
        Device *d = q->device;

        assert_int_not_equal(d->account.at, NSEC_INFINITY);
        account_turn(d, d->account.at);
        device_sync(d);
        arbiter_flush(q->manager);
        check(q->manager);
}

static bool sleeps(const Queue *q) {
        return q->device->account.at == NSEC_INFINITY;
}

static void launch(Queue *q, unsigned n) {
        atomic_fetch_add(&q->page_slot->submitted, n);
}

static AccountSource source(const Process *p) {
        return account_group_source(p->client->group);
}

static uint64_t run_ns(const Process *p) {
        return group_gpu_time(p->client->group, now_ns());
}

static void test_off(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_OFF);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);

        assert_int_equal(watch(q), 0);
        assert_true(sleeps(q));
        assert_int_equal(source(&p), ACCOUNT_NONE);
        check(m);
        leave(&p);
        manager_free(m);
}

static void test_exact(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_EXACT);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);

        assert_int_equal(watch(q), WATCHED);
        begin(q);
        launch(q, 1000000);
        assert_true(q->ready);
        assert_true(sleeps(q));
        device_touch(q->device);
        arbiter_flush(m);
        assert_int_equal(watch(q), WATCHED);
        finish(q);
        assert_false(q->ready);
        assert_true(run_ns(&p) > 0);
        assert_int_equal(source(&p), ACCOUNT_TRACKED);
        leave(&p);
        manager_free(m);
}

/* The client's words change as by gate.c; the service looks some time later. */
static void told(const Queue *q) {
        assert_true(page_slot_begin(q->page_slot) & PAGE_BEGIN_EDGE);
        atomic_store(&q->page_slot->ready_since_ns, now_ns());
}

static void flies(const Queue *q, uint64_t ago) {
        atomic_store(&q->page_slot->launched_ns, now_ns());
        own_clock_pass(ago);
}

static void launched(const Queue *q, uint64_t ago) {
        told(q);
        flies(q, ago);
}

static void drained(const Queue *q, uint64_t ago) {
        uint64_t now = now_ns();

        assert_int_equal(page_slot_end(q->page_slot, 1), PAGE_END_IDLE);
        atomic_fetch_add(&q->page_slot->busy_ns, now - atomic_load(&q->page_slot->launched_ns));
        atomic_store(&q->page_slot->drained_ns, now);
        own_clock_pass(ago);
}

/* A program that is alone, with one queue. */
typedef struct Alone {
        Manager *m;
        Process p;
        Queue *q;
        uint64_t ran_ns; /* counted so far */
} Alone;

static Alone alone_make(void) {
        Alone a = {.m = manager_make_accounting(ACCOUNTING_EXACT)};

        a.p = join(a.m, "/a", 0);
        a.q = queue(&a.p, "d", 0);
        return a;
}

static void alone_done(Alone *a) {
        leave(&a->p);
        manager_free(a->m);
}

/* Returns how much more has been counted then. */
static uint64_t hear_late(Alone *a) {
        page_mark_dirty(a->p.client->page.header, a->q->slot);
        (void) arbiter_client_woke(a->p.client);
        arbiter_flush(a->m);
        check(a->m);

        uint64_t before = a->ran_ns;
        a->ran_ns = entity_counted(a->q->entity, now_ns());
        return a->ran_ns - before;
}

/* The time of who is alone is counted by the client's stamps, however late the service hears of its edges. */
static void test_late_service(void **state) {
        const uint64_t ms = NSEC_PER_MSEC, most = ms / 10;
        Alone a = alone_make();

        launched(a.q, 50 * ms);
        assert_in_range(hear_late(&a), 50 * ms, 50 * ms + most);
        own_clock_pass(7 * ms);
        drained(a.q, 30 * ms);
        assert_in_range(hear_late(&a), 7 * ms, 7 * ms + most);

        /* Between two looks, once and several times. */
        launched(a.q, 20 * ms);
        drained(a.q, 10 * ms);
        assert_in_range(hear_late(&a), 20 * ms, 20 * ms + most);
        for (unsigned i = 0; i < 5; i++) {
                launched(a.q, 20 * ms);
                drained(a.q, 10 * ms);
        }
        assert_in_range(hear_late(&a), 100 * ms, 100 * ms + most);
        alone_done(&a);
}

/* The service hears of a launch before the client stamps it, and does not take an earlier one's stamp for its own. */
static void test_quick_service(void **state) {
        const uint64_t ms = NSEC_PER_MSEC, most = ms / 10;
        Alone a = alone_make();

        launched(a.q, 7 * ms);
        drained(a.q, 30 * ms);
        assert_in_range(hear_late(&a), 7 * ms, 7 * ms + most);
        told(a.q);
        assert_in_range(hear_late(&a), 0, most);
        flies(a.q, 20 * ms);
        drained(a.q, 10 * ms);
        launched(a.q, 0);
        assert_in_range(hear_late(&a), 20 * ms, 20 * ms + most);
        drained(a.q, 0);
        assert_in_range(hear_late(&a), 0, most);
        alone_done(&a);
}

/* Of several queues the last end counts, whichever the service looks at first. */
static void test_late_service_of_two(void **state) {
        const uint64_t ms = NSEC_PER_MSEC, most = ms / 10;
        Alone a = alone_make();
        Queue *q[] = {a.q, queue(&a.p, "d", 1)};

        for (unsigned last = 0; last < 2; last++) {
                launched(q[0], 0);
                launched(q[1], 0);
                page_mark_dirty(a.p.client->page.header, q[1]->slot);
                assert_in_range(hear_late(&a), 0, most);
                own_clock_pass(10 * ms);
                drained(q[1 - last], 30 * ms);
                drained(q[last], 20 * ms);
                page_mark_dirty(a.p.client->page.header, q[1]->slot);
                assert_in_range(hear_late(&a), 40 * ms, 40 * ms + most);
        }
        alone_done(&a);
}

/* The service looks for another reason before the client stamps that it is ready: the time before is idle time. */
static void test_ready_without_stamp(void **state) {
        const uint64_t ms = NSEC_PER_MSEC, most = EDGE_LATE_MAX + ms / 10;
        Alone a = alone_make();

        launched(a.q, 7 * ms);
        drained(a.q, 0);
        assert_in_range(hear_late(&a), 7 * ms, 7 * ms + most);
        own_clock_pass(500 * ms);
        assert_true(page_slot_begin(a.q->page_slot) & PAGE_BEGIN_EDGE);
        assert_in_range(hear_late(&a), 0, most);
        assert_true(a.q->ready);
        alone_done(&a);
}

/* An idle queue has no timer, and its first launch is noticed. */
static void test_idle_sleeps(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_AUTO);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);

        assert_int_equal(watch(q), WATCHED);
        assert_true(sleeps(q));
        begin(q);
        launch(q, 1);
        finish(q);
        assert_false(sleeps(q));
        look(q); /* the lead */
        look(q); /* the window, in which there was nothing */
        assert_true(sleeps(q));
        assert_int_equal(watch(q), WATCHED);
        assert_int_equal(source(&p), ACCOUNT_TRACKED);
        leave(&p);
        manager_free(m);
}

/* A queue with few launches stays tracked; looks get rarer while none come. */
static void test_slow_is_tracked(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_SAMPLED);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);

        begin(q);
        look(q);
        for (unsigned i = 0; i < 5; i++) {
                launch(q, 1);
                look(q);
                assert_int_equal(watch(q), WATCHED);
                assert_int_equal(q->device->account.look_ns, ACCOUNT_LOOK_NS);
        }
        for (unsigned i = 0; i < 20; i++)
                look(q);
        assert_int_equal(q->device->account.look_ns, ACCOUNT_LOOK_MAX_NS);
        assert_int_equal(watch(q), WATCHED);
        assert_int_equal(source(&p), ACCOUNT_TRACKED);
        finish(q);
        look(q);
        assert_true(sleeps(q));
        leave(&p);
        manager_free(m);
}

static void test_samples(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_SAMPLED);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);
        uint64_t shortest = NSEC_INFINITY, longest = 0;

        begin(q);
        for (unsigned i = 0; i < 20; i++) {
                look(q);
                launch(q, 10000);
                look(q);
                assert_int_equal(watch(q), 0);
                assert_int_equal(source(&p), ACCOUNT_SAMPLED);
                const Entity *e = q->entity;
                assert_true(e->estimate.away);
                uint64_t pause = q->device->account.at - e->estimate.away_since;
                assert_in_range(pause, ACCOUNT_AWAY_NS / 2, ACCOUNT_AWAY_NS * 3 / 2);
                shortest = MIN(shortest, pause);
                longest = MAX(longest, pause);
                look(q); /* watched again */
                assert_int_equal(watch(q), WATCHED);
                assert_false(e->estimate.away);
        }
        assert_true(longest > shortest + ACCOUNT_AWAY_NS / 4);

        /* The queue ends while it is not watched: nothing is left behind, and nothing is counted after that. */
        look(q);
        launch(q, 10000);
        look(q);
        Group *g = p.client->group;
        g->suspended = true; /* keeps the group after its client has gone */
        leave(&p);
        uint64_t ran = group_gpu_time(g, now_ns());
        assert_int_equal(group_gpu_time(g, now_ns() + NSEC_PER_SEC), ran);
        assert_int_equal(account_group_source(g), ACCOUNT_SAMPLED);
        g->suspended = false;
        manager_free(m);
}

/* The part of the time in which a program that launches without pause is watched, if looks are late by `late_ns`. */
static double watched_part(uint64_t late_ns) {
        Manager *m = manager_make_accounting(ACCOUNTING_SAMPLED);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);
        uint64_t begun = now_ns(), watched_ns = 0;

        begin(q);
        look(q);
        for (unsigned i = 0; i < 6000; i++) {
                uint64_t before = now_ns();
                bool watched = watch(q) != 0;

                own_clock_pass(ns_sub(q->device->account.at, before) + late_ns);
                launch(q, 100000);
                device_touch(q->device);
                arbiter_flush(m);
                watched_ns += watched ? now_ns() - before : 0;
        }
        assert_true(watched_ns > 0);
        double part = (double) watched_ns / (double) (now_ns() - begun);
        leave(&p);
        manager_free(m);
        return part;
}

/* A program that launches without pause is watched for at most a hundredth of the time. */
static void test_samples_are_a_hundredth(void **state) {
        for (uint64_t late_ns = 0; late_ns <= 100 * NSEC_PER_MSEC; late_ns += 20 * NSEC_PER_MSEC)
                assert_true(watched_part(late_ns) <= 1.0 / ACCOUNT_COST_SHARE);
}

/* A client reports impossible numbers. */
static void test_liar(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_SAMPLED);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);

        begin(q);
        look(q);
        atomic_store(&q->page_slot->submitted, UINT64_MAX);
        look(q);
        assert_int_equal(watch(q), 0);
        look(q);
        look(q);
        atomic_store(&q->page_slot->submitted, 0);
        look(q);
        assert_int_equal(watch(q), WATCHED);
        assert_true(run_ns(&p) <= now_ns());
        leave(&p);
        manager_free(m);
}

/* With a neighbour, the policy counts both. When the neighbour has gone, the entity is counted alone again. */
static void test_neighbour(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_SAMPLED);
        Process a = join(m, "/a", 0);
        Queue *q = queue(&a, "d", 0);

        begin(q);
        look(q);
        launch(q, 10000);
        look(q);
        assert_int_equal(watch(q), 0);
        Process b = join(m, "/b", 0);
        Queue *r = queue(&b, "d", 0);
        assert_int_equal(watch(q), CONTENDED);
        assert_int_equal(watch(r), CONTENDED);
        assert_false(q->entity->estimate.away);
        assert_int_equal(source(&a), ACCOUNT_TRACKED);
        assert_true(sleeps(q));
        check(m);
        leave(&b);
        assert_int_equal(watch(q), WATCHED);
        assert_false(sleeps(q));
        check(m);
        leave(&a);
        manager_free(m);
}

/* The group's own setting counts in place of the device's, its auto means the device's; changes of both count at
 * once. */
static void test_settings(void **state) {
        Manager *m = manager_make_accounting(ACCOUNTING_OFF);
        Process p = join(m, "/a", 0);
        Queue *q = queue(&p, "d", 0);
        Group *g = p.client->group;
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        assert_int_equal(watch(q), 0);
        assert_int_equal(settings_set_accounting(&g->override, "exact"), 0);
        group_settings_changed(g);
        arbiter_flush(m);
        assert_int_equal(watch(q), WATCHED);
        assert_int_equal(settings_set_accounting(&g->override, "auto"), 0);
        group_settings_changed(g);
        arbiter_flush(m);
        assert_int_equal(watch(q), 0);

        assert_int_equal(device_settings_set_accounting(&s, "exact"), 0);
        assert_int_equal(device_configure(q->device, &s), 0);
        arbiter_flush(m);
        assert_int_equal(watch(q), WATCHED);
        assert_int_equal(settings_set_accounting(&g->override, "off"), 0);
        group_settings_changed(g);
        arbiter_flush(m);
        assert_int_equal(watch(q), 0);
        check(m);
        leave(&p);
        manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_off),
                        cmocka_unit_test(test_exact),
                        cmocka_unit_test(test_late_service),
                        cmocka_unit_test(test_quick_service),
                        cmocka_unit_test(test_late_service_of_two),
                        cmocka_unit_test(test_ready_without_stamp),
                        cmocka_unit_test(test_idle_sleeps),
                        cmocka_unit_test(test_slow_is_tracked),
                        cmocka_unit_test(test_samples),
                        cmocka_unit_test(test_samples_are_a_hundredth),
                        cmocka_unit_test(test_liar),
                        cmocka_unit_test(test_neighbour),
                        cmocka_unit_test(test_settings),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
