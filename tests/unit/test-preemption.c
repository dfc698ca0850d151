/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Preemption: which rung of the ladder a hold takes
 */

#include "common/macro.h"
#include "policy/preemption.h"
#include "tests/lib/unit.h"

/* A process that can take its queues off, at a cost of 100 altogether. */
static const PreemptionInput stoppable = {
                .max_level = LEVEL_INTERRUPT,
                .drain_ns = 1000,
                .hold_ns = 60,
                .release_ns = 40,
};

static PreemptLevel level(PreemptionInput in) {
        PreemptionChoice c = preemption_choose(&in);

        assert_false(c.privileged);
        return c.level;
}

static void test_names(void **state) {
        for (Preemption v = 0; v < _PREEMPTION_MAX; v++)
                assert_int_equal(preemption_from_string(preemption_to_string(v)), v);
        assert_true(preemption_from_string("0") < 0);
        assert_true(preemption_from_string("yes") < 0);
}

/* The cheaper of draining and taking off is chosen. */
static void test_costs(void **state) {
        PreemptionInput in = stoppable;

        assert_int_equal(level(in), LEVEL_INTERRUPT);
        in.drain_ns = 101;
        assert_int_equal(level(in), LEVEL_INTERRUPT);
        in.drain_ns = 100;
        assert_int_equal(level(in), LEVEL_GATE);
        in.drain_ns = 0;
        assert_int_equal(level(in), LEVEL_GATE);
        in.held_ns = UINT64_MAX; /* no launch to be taken off, however long the hold */
        assert_int_equal(level(in), LEVEL_GATE);

        /* A driver that was never measured is tried. */
        in = (PreemptionInput){.max_level = LEVEL_DEQUEUE, .drain_ns = 1};
        assert_int_equal(level(in), LEVEL_DEQUEUE);
        in.drain_ns = PREEMPTION_UNKNOWN;
        assert_int_equal(level(in), LEVEL_DEQUEUE);

        in = stoppable;
        in.hold_ns = in.release_ns = UINT64_MAX - 5;
        assert_int_equal(level(in), LEVEL_GATE);
}

/* Adaptive=no: estimates do not matter. But there must be something to take off, and a driver that can do it. */
static void test_eager(void **state) {
        PreemptionInput in = stoppable;

        in.eager = true;
        in.drain_ns = 1;
        assert_int_equal(level(in), LEVEL_INTERRUPT);
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
        in.drain_ns = PREEMPTION_UNKNOWN;
        assert_int_equal(level(in), LEVEL_INTERRUPT);
        in.setting = PREEMPTION_DEQUEUE;
        assert_int_equal(level(in), LEVEL_DEQUEUE);
        in.setting = PREEMPTION_GATE;
        assert_int_equal(level(in), LEVEL_GATE);
        in.setting = PREEMPTION_OFF;
        assert_int_equal(level(in), LEVEL_OBSERVE);
        in.setting = PREEMPTION_AUTO;
        in.drain_ns = 0;
        assert_int_equal(level(in), LEVEL_GATE);
        in.drain_ns = 1;
        in.mes = true;
        assert_int_equal(level(in), LEVEL_GATE);
}

/* A wrong or missing estimate is noticed by waiting for as long as the other way would have cost. */
static void test_patience(void **state) {
        static const uint64_t drains[] = {1, 100, PREEMPTION_UNKNOWN};

        for (size_t i = 0; i < ELEMENTSOF(drains); i++) {
                PreemptionInput in = stoppable;
                in.drain_ns = drains[i];
                assert_int_equal(level(in), LEVEL_GATE);
                uint64_t patience = preemption_patience(&in);
                assert_int_equal(patience, 100);
                in.held_ns = patience - 1;
                assert_int_equal(level(in), LEVEL_GATE);
                in.held_ns = patience;
                assert_int_equal(level(in), LEVEL_INTERRUPT);
                assert_int_equal(preemption_patience(&in), UINT64_MAX);
        }

        /* No wake-up for a choice that stays the same. */
        PreemptionInput in = stoppable;
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
        in.drain_ns = 0;
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
        in.drain_ns = 10;
        in.max_level = LEVEL_GATE;
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
        in.max_level = LEVEL_INTERRUPT;
        in.setting = PREEMPTION_GATE;
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
        in.setting = PREEMPTION_OFF;
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
}

/* Somebody is expected: what drains may do so for as long as taking off can wait. */
static void test_expected(void **state) {
        PreemptionInput in = stoppable;

        in.expected = true;
        in.expected_ns = 85; /* 60, and a quarter of it: it can wait for 10 */
        in.drain_ns = 10;
        assert_int_equal(level(in), LEVEL_GATE);
        in.held_ns = 7;
        assert_int_equal(preemption_patience(&in), 17);
        in.held_ns = 95;
        assert_int_equal(preemption_patience(&in), 100);
        in.held_ns = 0;
        in.drain_ns = 11;
        assert_int_equal(level(in), LEVEL_INTERRUPT);
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
        in.drain_ns = PREEMPTION_UNKNOWN;
        assert_int_equal(level(in), LEVEL_INTERRUPT);
        in.drain_ns = 1;
        in.expected_ns = 60;
        assert_int_equal(level(in), LEVEL_INTERRUPT);
        in.drain_ns = 0;
        assert_int_equal(level(in), LEVEL_GATE);

        /* It would not be off in time, or the wait is longer than taking off is worth: as if nobody was expected. */
        in.drain_ns = 100;
        in.expected_ns = 59;
        assert_int_equal(level(in), LEVEL_GATE);
        assert_int_equal(preemption_patience(&in), 100);
        in.expected_ns = UINT64_MAX;
        assert_int_equal(level(in), LEVEL_GATE);
        assert_int_equal(preemption_patience(&in), 100);
        in.expected_ns = 1000;
        in.hold_ns = UINT64_MAX - 5;
        assert_int_equal(level(in), LEVEL_GATE);

        /* The gate is all there is. */
        in = stoppable;
        in.expected = true;
        in.max_level = LEVEL_GATE;
        assert_int_equal(level(in), LEVEL_GATE);
        assert_int_equal(preemption_patience(&in), UINT64_MAX);
}

static void test_limits(void **state) {
        PreemptionInput in = stoppable;

        in.setting = PREEMPTION_OFF;
        assert_int_equal(level(in), LEVEL_OBSERVE);
        in.setting = PREEMPTION_GATE;
        assert_int_equal(level(in), LEVEL_GATE);
        in.setting = PREEMPTION_DEQUEUE;
        assert_int_equal(level(in), LEVEL_DEQUEUE);
        in.setting = PREEMPTION_INTERRUPT;
        assert_int_equal(level(in), LEVEL_INTERRUPT);

        /* The level is at most the process's own; a process without any is held at the gate. */
        in.max_level = LEVEL_DEQUEUE;
        assert_int_equal(level(in), LEVEL_DEQUEUE);
        in.max_level = LEVEL_GATE;
        assert_int_equal(level(in), LEVEL_GATE);
        in.max_level = LEVEL_OBSERVE;
        assert_int_equal(level(in), LEVEL_GATE);
}

static void test_mes(void **state) {
        PreemptionInput in = stoppable;

        for (Preemption v = PREEMPTION_GATE; v < _PREEMPTION_MAX; v++) {
                in.setting = v;
                in.mes = true;
                in.privileged = true;
                in.mes_allowed = false;
                assert_int_equal(level(in), LEVEL_GATE);
                assert_int_equal(preemption_patience(&in), UINT64_MAX);
        }
        in.setting = PREEMPTION_AUTO;
        in.mes_allowed = true;
        assert_int_equal(level(in), LEVEL_INTERRUPT);
}

static void test_privileged(void **state) {
        PreemptionInput in = stoppable;
        PreemptionChoice c;

        /* Where the process can take its queue off itself, it does. */
        in.setting = PREEMPTION_PRIVILEGED;
        in.privileged = true;
        assert_int_equal(level(in), LEVEL_INTERRUPT);

        in.ignored = true;
        c = preemption_choose(&in);
        assert_true(c.privileged);
        assert_int_equal(c.level, LEVEL_INTERRUPT);

        in.ignored = false;
        in.max_level = LEVEL_GATE;
        c = preemption_choose(&in);
        assert_true(c.privileged);
        assert_int_equal(c.level, LEVEL_GATE);
        in.drain_ns = 50;
        assert_int_equal(level(in), LEVEL_GATE);
        assert_int_equal(preemption_patience(&in), 100);

        /* The privileged level is used only where it is asked for and available. */
        in.drain_ns = 1000;
        in.privileged = false;
        assert_int_equal(level(in), LEVEL_GATE);
        in.privileged = true;
        in.setting = PREEMPTION_AUTO;
        assert_int_equal(level(in), LEVEL_GATE);
        in.setting = PREEMPTION_INTERRUPT;
        assert_int_equal(level(in), LEVEL_GATE);
}

/* Of two settings the one that allows less counts, in either order. */
static void test_combine(void **state) {
        for (Preemption a = 0; a < _PREEMPTION_MAX; a++)
                for (Preemption b = 0; b < _PREEMPTION_MAX; b++) {
                        Preemption c = preemption_combine(a, b);
                        assert_int_equal(c, preemption_combine(b, a));
                        assert_true(c == a || c == b);
                        if (a == PREEMPTION_AUTO || b == PREEMPTION_AUTO)
                                assert_int_equal(c, a == PREEMPTION_AUTO ? b : a);
                        else
                                assert_true(preemption_is_lower_or_equal(a, c) && preemption_is_lower_or_equal(b, c));
                        assert_true(preemption_is_lower_or_equal(a, b) || preemption_is_lower_or_equal(b, a));
                }
        assert_int_equal(preemption_combine(PREEMPTION_PRIVILEGED, PREEMPTION_DEQUEUE), PREEMPTION_DEQUEUE);
        assert_int_equal(preemption_combine(PREEMPTION_OFF, PREEMPTION_PRIVILEGED), PREEMPTION_OFF);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_names),
                        cmocka_unit_test(test_costs),
                        cmocka_unit_test(test_eager),
                        cmocka_unit_test(test_patience),
                        cmocka_unit_test(test_expected),
                        cmocka_unit_test(test_limits),
                        cmocka_unit_test(test_mes),
                        cmocka_unit_test(test_privileged),
                        cmocka_unit_test(test_combine),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
