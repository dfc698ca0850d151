/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asking polkit: calls that wait for it
 */

#include "tests/bus/auth-world.h"

/* polkit ends a script of its rules after this time, and answers no other question until then. By default a caller
 * waits for this time. */
#define POLKIT_SCRIPT_USEC (15 * UINT64_C(1000000))
#define CALLER_USEC        (25 * UINT64_C(1000000))

/* Dialogs that no user answers do not delay questions that need no dialog, and polkit is told when they are given
 * up. */
static void test_open_dialogs(void **state) {
        enum { USERS = 13, EACH = 9, AT_ONCE = 48 };
        World *w = *state;

        start_polkit(w);
        for (size_t i = 0; i < ELEMENTSOF(w->answers); i++)
                w->answers[i] = ANSWER_LATER;
        for (unsigned i = 0; i < USERS * EACH; i++) {
                sender = ALICE + 1 + i / EACH;
                call_try(w, AUTH_MANAGE, true);
                /* The caller is known when the call arrives. */
                while (w->n_entered < i + 1)
                        assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
        }
        run_until_waiting(w, AT_ONCE);

        sender = ALICE;
        w->answers[0] = ANSWER_YES;
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 1);
        assert_string_equal(w->outcome, "ok;");
        assert_int_equal(w->n_waiting, AT_ONCE);

        w->auth = auth_free(w->auth);
        assert_int_equal(auth_new(w->service, true, &w->auth), 0);
        run_until_taken_back(w, AT_ONCE);
}

/* polkit takes its time, as while a user types a password: other callers are served, answers find their calls, and the
 * calls of one user are bounded. */
static void test_many_wait(void **state) {
        World *w = *state;
        enum { PER_USER = 64, TOO_MANY = 10, AT_A_TIME = 4 };

        start_polkit(w);
        for (size_t i = 0; i < ELEMENTSOF(w->answers); i++)
                w->answers[i] = ANSWER_LATER;
        for (unsigned i = 0; i < PER_USER + TOO_MANY; i++)
                call_try(w, AUTH_MANAGE, true);
        run_until(w, TOO_MANY);
        assert_non_null(startswith(w->outcome, "LimitsExceeded;"));

        sender = 0;
        call_try(w, AUTH_MANAGE, false);
        run_until(w, TOO_MANY + 1);
        assert_int_equal(w->n_done, 1);
        sender = ALICE;

        /* Four dialogs are open at a time; the last of them is answered first, every other one by yes. */
        for (unsigned i = 0; i < PER_USER; i++) {
                if (i % AT_A_TIME == 0)
                        run_until_waiting(w, i + AT_A_TIME);
                assert_int_equal(w->n_waiting, i - i % AT_A_TIME + AT_A_TIME);
                assert_true(answer(w->waiting[w->n_waiting - 1 - i % AT_A_TIME], i % 2 == 0 ? ANSWER_YES : ANSWER_NO) >=
                                0);
                if (i % AT_A_TIME == AT_A_TIME - 1)
                        run_until(w, TOO_MANY + 1 + i + 1);
        }
        assert_int_equal(w->n_done, 1 + PER_USER / 2);

        /* No question is left: there is room for as many again. */
        w->outcome[0] = '\0';
        w->n_asked = 0;
        w->answers[0] = ANSWER_YES;
        call_try(w, AUTH_MANAGE, false);
        run_until(w, TOO_MANY + 2 + PER_USER);
        assert_string_equal(w->outcome, "ok;");
}

/* For a user with many uids no more questions are open at a time than for one with a single uid. */
static void test_subuids_share_places(void **state) {
        enum { UIDS = 10, EACH = 8, AT_A_TIME = 1, WAIT = 64 };
        World *w = *state;

        start_polkit(w);
        for (size_t i = 0; i < ELEMENTSOF(w->answers); i++)
                w->answers[i] = ANSWER_LATER;
        sender_user = ALICE;
        for (unsigned i = 0; i < UIDS * EACH; i++) {
                sender = 100000 + i / EACH;
                call_try(w, AUTH_MANAGE, false);
                while (w->n_entered < i + 1)
                        assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
        }
        run_until(w, UIDS * EACH - WAIT);
        run_until_waiting(w, AT_A_TIME);

        sender = sender_user = BOB;
        w->answers[AT_A_TIME] = ANSWER_YES;
        call_try(w, AUTH_REGISTER, false);
        run_until(w, UIDS * EACH - WAIT + 1);
        assert_int_equal(w->n_waiting, AT_A_TIME);
        assert_int_equal(w->n_done, 1);
}

/* The service ends while questions are open. */
static void test_freed_while_waiting(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = w->answers[1] = ANSWER_LATER;
        call_try(w, AUTH_MANAGE, true);
        call_try(w, AUTH_MANAGE, true);
        run_until_waiting(w, 2);
        w->auth = auth_free(w->auth);
        assert_int_equal(auth_new(w->service, true, &w->auth), 0);
        assert_true(answer(w->waiting[0], ANSWER_YES) >= 0);
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 1);
        assert_string_equal(w->outcome, "ok;");
        assert_int_equal(w->n_done, 1);
}

/* Without an answer of polkit the call is refused, but not before the time that polkit may take is over. */
static void test_no_answer(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = w->answers[1] = ANSWER_LATER;
        w->hurry = true; /* before its time, so that the question is asked again, as if polkit had left */
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 1);
        assert_string_equal(w->outcome, "AccessDenied;");
        assert_true(w->patience_usec > POLKIT_SCRIPT_USEC && w->patience_usec < CALLER_USEC);
        run_until_taken_back(w, 1);
        assert_int_equal(w->n_asked, 2);

        w->hurry = false;
        w->answers[2] = ANSWER_YES;
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 2);
        assert_string_equal(w->outcome, "AccessDenied;ok;");
}

/* polkit is upgraded while a question is open: the next polkit is asked, once, and in the time that is left. */
static void test_polkit_restarts(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = ANSWER_LATER;
        call_try(w, AUTH_MANAGE, false);
        run_until_waiting(w, 1);
        uint64_t patience = w->patience_usec;
        w->answers[1] = ANSWER_NO;
        restart_polkit(w);
        run_until(w, 1);
        assert_string_equal(w->outcome, "AccessDenied;");
        assert_int_equal(w->n_asked, 2);
        assert_true(w->patience_usec < patience);

        w->answers[2] = ANSWER_LATER;
        call_try(w, AUTH_MANAGE, false);
        run_until_waiting(w, 2);
        w->answers[3] = ANSWER_YES;
        restart_polkit(w);
        run_until(w, 2);
        assert_string_equal(w->outcome, "AccessDenied;ok;");
        assert_int_equal(w->n_asked, 4);

        w->answers[4] = w->answers[5] = ANSWER_LATER;
        call_try(w, AUTH_MANAGE, false);
        for (unsigned i = 3; i <= 4; i++) {
                run_until_waiting(w, i);
                restart_polkit(w);
        }
        run_until(w, 3);
        assert_string_equal(w->outcome, "AccessDenied;ok;AccessDenied;");
        assert_int_equal(w->n_asked, 6);
        assert_int_equal(w->n_done, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_open_dialogs, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_many_wait, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_freed_while_waiting, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_no_answer, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_polkit_restarts, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_subuids_share_places, world_setup, world_teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
