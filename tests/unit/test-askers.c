/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Askers: which users may ask polkit, and when
 */

#include "service/base/askers.h"
#include "tests/lib/unit.h"

#define ALICE 4001U
#define BOB   4002U
#define MS    (UINT64_C(1000) * 1000)
#define NEVER UINT64_MAX

static Askers *askers;

static int setup(void **state) {
        return askers_new(&askers);
}

static int teardown(void **state) {
        askers = askers_free(askers);
        return 0;
}

static void ask(uid_t user, bool dialog, uint64_t now) {
        assert_true(askers_when(askers, user, dialog, now) <= now);
        assert_int_equal(askers_begin(askers, user, dialog, now), 0);
}

/* A user has one request at a time; the next one may begin when as much time as the last took is over. */
static void test_one_user(void **state) {
        uint64_t now = 1000 * MS;

        ask(ALICE, false, now);
        assert_int_equal(askers_when(askers, ALICE, false, now + 4 * MS), NEVER);
        askers_end(askers, ALICE, false, now + 5 * MS, 5 * MS);
        assert_int_equal(askers_when(askers, ALICE, false, now + 5 * MS), now + 10 * MS);
        ask(ALICE, false, now + 10 * MS);

        /* A request that gave polkit no work delays no other. */
        askers_end(askers, ALICE, false, now + 30 * MS, 0);
        ask(ALICE, false, now + 30 * MS);
}

static void test_others_do_not_wait(void **state) {
        ask(ALICE, false, MS);
        ask(BOB, false, MS);
        askers_end(askers, ALICE, false, 2 * MS, MS);
        assert_int_equal(askers_when(askers, BOB, false, 2 * MS), NEVER);
        askers_end(askers, BOB, false, 4 * MS, 3 * MS);
        assert_true(askers_when(askers, ALICE, false, 4 * MS) <= 4 * MS);
        assert_int_equal(askers_when(askers, BOB, false, 4 * MS), 7 * MS);
}

/* A user whose calls always wait gets half of polkit's time, and another user the other half. */
static void test_half(void **state) {
        enum { TAKES = 3, TURNS = 1000 };
        uint64_t now = MS, busy = 0, began = now;

        for (unsigned i = 0; i < TURNS; i++) {
                uint64_t takes = (1 + i % TAKES) * MS;

                ask(ALICE, false, now);
                now += takes;
                busy += takes;
                askers_end(askers, ALICE, false, now, takes);
                now = askers_when(askers, ALICE, false, now);
        }
        assert_int_equal(2 * busy, now - began);
}

/* The rest is bounded, and the time in which a person types a password does not count. */
static void test_rest_is_bounded(void **state) {
        uint64_t now = ASKER_REST_MAX_NS;

        ask(ALICE, false, now);
        now += 20 * ASKER_REST_MAX_NS;
        askers_end(askers, ALICE, false, now, 20 * ASKER_REST_MAX_NS);
        assert_int_equal(askers_when(askers, ALICE, false, now), now + ASKER_REST_MAX_NS);

        ask(BOB, true, now);
        now += 20 * ASKER_REST_MAX_NS;
        askers_end(askers, BOB, true, now, 20 * ASKER_REST_MAX_NS);
        ask(BOB, true, now);
        ask(BOB, false, now);
}

/* Dialogs have places of their own. A caller that has no dialog to offer is not the quicker for saying so. */
static void test_dialogs(void **state) {
        for (unsigned i = 0; i < ASKER_DIALOGS_MAX; i++)
                ask(ALICE, true, MS);
        assert_int_equal(askers_when(askers, ALICE, true, MS), NEVER);
        ask(ALICE, false, MS);
        askers_end(askers, ALICE, true, 3 * MS, 2 * MS);
        assert_int_equal(askers_when(askers, ALICE, true, 3 * MS), 5 * MS);
        askers_end(askers, ALICE, false, 4 * MS, 3 * MS);
        assert_int_equal(askers_when(askers, ALICE, false, 4 * MS), 7 * MS);
        assert_int_equal(askers_when(askers, ALICE, true, 4 * MS), 7 * MS);
}

static void test_all_together(void **state) {
        for (unsigned i = 0; i < ASKERS_OPEN_MAX; i++)
                ask(ALICE + i, false, MS);
        assert_int_equal(askers_when(askers, ALICE + ASKERS_OPEN_MAX, false, MS), NEVER);
        ask(ALICE + ASKERS_OPEN_MAX, true, MS);
        askers_end(askers, ALICE, false, 2 * MS, MS);
        ask(ALICE + ASKERS_OPEN_MAX, false, 2 * MS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_one_user, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_others_do_not_wait, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_half, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_rest_is_bounded, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_dialogs, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_all_together, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
