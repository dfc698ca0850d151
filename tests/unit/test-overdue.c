/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Holds that take no effect: which queues are overdue, and which only seem so. The test makes each look at its due
 * time, and lets no time pass by itself.
 */

#include "service/enforce/overdue.h"
#include "service/settings/xsched-conf.h"
#include "tests/unit/arbiter-harness.h"

#define AFTER_US 600000000U /* longer than the test, so that no timer of the service fires in between */

static void set_freeze(Manager *m, bool freeze, uint32_t after_us) {
        Class *c = (Class *) classes_find(&m->config->classes, "default");

        c->freeze = freeze;
        c->freeze_after_us = after_us;
        m->config->classes.any_freeze = freeze;
        manager_settings_changed(m);
        arbiter_flush(m);
}

static Two frozen_make(void) {
        Two t = two_make(0, NULL, NULL);

        set_freeze(t.m, true, AFTER_US);
        return t;
}

/* Makes the due look; false: none is due. */
static bool look(Two *t) {
        uint64_t at = t->l->entity->overdue.look_at;

        if (at == NSEC_INFINITY)
                return false;
        bool was = t->l->entity->overdue.is;
        assert_false(overdue_look(t->l->entity, at - 1));
        assert_int_equal(t->l->entity->overdue.look_at, at); /* too early */
        bool changed = overdue_look(t->l->entity, at);
        assert_int_equal(changed, was != t->l->entity->overdue.is);
        return true;
}

static bool is_overdue(const Two *t) {
        assert_int_equal(group_is_overdue(t->low.client->group), t->l->entity->overdue.is);
        assert_false(group_is_overdue(t->high.client->group));
        return t->l->entity->overdue.is;
}

static void let_go(Two *t) {
        finish(t->h);
        while (held(t->l)) {
                device_touch(t->l->device);
                arbiter_flush(t->m);
        }
}

/* Puts a launch of the queue at the gate. */
static void wait_at_gate(Queue *q) {
        begin(q);
        atomic_fetch_add(&q->page_slot->waiters, 1);
}

static void test_long_kernel(void **state) {
        Two t = frozen_make();

        begin(t.l);
        uint64_t before = now_ns();
        begin(t.h);
        assert_true(held(t.l));
        assert_in_range(t.l->entity->overdue.look_at, before + AFTER_US * NSEC_PER_USEC / 2,
                        now_ns() + AFTER_US * NSEC_PER_USEC / 2);
        uint64_t first = t.l->entity->overdue.look_at;
        assert_true(look(&t));
        assert_false(is_overdue(&t));
        assert_int_equal(t.l->entity->overdue.look_at, first + AFTER_US * NSEC_PER_USEC / 2);
        assert_true(look(&t));
        assert_true(is_overdue(&t));
        assert_false(look(&t)); /* no look is due until its release */

        let_go(&t);
        assert_false(is_overdue(&t));
        assert_false(look(&t));
        two_done(&t);
}

static void test_drains_in_time(void **state) {
        Two t = frozen_make();

        begin(t.l);
        begin(t.h);
        assert_true(look(&t));
        finish(t.l);
        wait_at_gate(t.l);
        assert_true(look(&t));
        assert_false(is_overdue(&t));
        assert_false(look(&t)); /* the hold has taken effect: nothing is looked at any more */
        two_done(&t);
}

/* A look meets a launch between its count and the gate once. */
static void test_on_its_way_to_the_gate(void **state) {
        Two t = frozen_make();

        begin(t.h);
        begin(t.l);
        assert_true(held(t.l));
        assert_true(look(&t));
        atomic_fetch_add(&t.l->page_slot->waiters, 1);
        assert_true(look(&t));
        assert_false(is_overdue(&t));
        assert_false(look(&t));
        two_done(&t);
}

/* Short kernels past the gate: none is in flight at a look. */
static void test_launches_past_the_gate(void **state) {
        Two t = frozen_make();

        begin(t.h);
        while (look(&t))
                ;
        assert_false(is_overdue(&t));
        begin(t.l);
        atomic_fetch_add(&t.l->page_slot->submitted, 1);
        finish(t.l);
        assert_true(look(&t));
        assert_false(is_overdue(&t)); /* a launch that was on its way when the verdict came */
        atomic_fetch_add(&t.l->page_slot->submitted, 1);
        assert_true(look(&t));
        assert_true(is_overdue(&t));
        two_done(&t);
}

static void test_taken_off(void **state) {
        Two t = frozen_make();

        begin(t.l);
        begin(t.h);
        queue_slot(t.l)->level = LEVEL_INTERRUPT;
        atomic_store(&t.l->page_slot->applied, atomic_load(&t.l->page_slot->verdict));
        while (look(&t))
                ;
        assert_false(is_overdue(&t));
        queue_slot(t.l)->level = LEVEL_GATE;
        two_done(&t);
}

static void test_only_where_the_class_says_so(void **state) {
        Two t = frozen_make();

        set_freeze(t.m, false, AFTER_US);
        begin(t.l);
        begin(t.h);
        assert_true(held(t.l));
        assert_false(look(&t));

        /* The setting changes while the queue is held. */
        set_freeze(t.m, true, AFTER_US);
        assert_true(look(&t));
        assert_true(look(&t));
        assert_true(is_overdue(&t));
        set_freeze(t.m, true, 0);
        assert_false(is_overdue(&t));
        assert_false(look(&t));
        set_freeze(t.m, true, AFTER_US);
        while (look(&t))
                ;
        assert_true(is_overdue(&t));
        set_freeze(t.m, false, AFTER_US);
        assert_false(is_overdue(&t));
        two_done(&t);
}

/* The look is made in the device's turn that is due by then. */
static void test_timer(void **state) {
        Two t = frozen_make();

        set_freeze(t.m, true, 2000);
        begin(t.l);
        begin(t.h);
        for (unsigned i = 0; i < 2; i++) {
                uint64_t at = t.l->entity->overdue.look_at;

                assert_false(is_overdue(&t));
                assert_in_range(at, 1, NSEC_INFINITY - 1);
                assert_true(t.l->device->due.at <= at);
                while (now_ns() < at)
                        ;
                device_touch(t.l->device);
                arbiter_flush(t.m);
        }
        assert_true(is_overdue(&t));
        assert_true(held(t.l));
        two_done(&t);
}

static void test_ends_while_overdue(void **state) {
        Two t = frozen_make();
        Manager *m = t.m;

        begin(t.l);
        begin(t.h);
        while (look(&t))
                ;
        assert_true(is_overdue(&t));
        leave(&t.low);
        check(m);
        leave(&t.high);
        manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_long_kernel),
                        cmocka_unit_test(test_drains_in_time),
                        cmocka_unit_test(test_on_its_way_to_the_gate),
                        cmocka_unit_test(test_launches_past_the_gate),
                        cmocka_unit_test(test_taken_off),
                        cmocka_unit_test(test_only_where_the_class_says_so),
                        cmocka_unit_test(test_timer),
                        cmocka_unit_test(test_ends_while_overdue),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
