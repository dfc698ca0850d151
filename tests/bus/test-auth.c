/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asking polkit: the questions, and the effect of the answers
 */

#include "tests/bus/auth-world.h"

static void test_granted(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = ANSWER_YES;
        call_try(w, AUTH_MANAGE, true);
        run_until(w, 1);
        assert_string_equal(w->outcome, "ok;");
        assert_string_equal(w->asked, "org.xsched.manage try the thing 1;");
        assert_int_equal(w->n_entered, 2); /* asked, and called again with the answer */
        assert_int_equal(w->n_done, 1);
}

/* An answer is for its message: the next call is a new question. */
static void test_answers_are_not_kept(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = ANSWER_YES;
        w->answers[1] = ANSWER_NO;
        w->answers[2] = ANSWER_YES;
        for (unsigned i = 1; i <= 3; i++) {
                call_try(w, AUTH_MANAGE, false);
                run_until(w, i);
        }
        assert_string_equal(w->outcome, "ok;AccessDenied;ok;");
        assert_int_equal(w->n_asked, 3);
        assert_int_equal(w->n_done, 2);
}

static void test_refused(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = ANSWER_NO;
        w->answers[1] = ANSWER_CHALLENGE;
        w->answers[2] = ANSWER_CHALLENGE;
        w->answers[3] = ANSWER_ERROR;
        w->answers[4] = ANSWER_NONSENSE;
        call_try(w, AUTH_SUSPEND, true);
        run_until(w, 1);
        call_try(w, AUTH_SUSPEND, true); /* the dialog was closed */
        run_until(w, 2);
        call_try(w, AUTH_SUSPEND, false); /* a dialog would have helped */
        run_until(w, 3);
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 4);
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 5);
        assert_string_equal(w->outcome,
                        "AccessDenied;AccessDenied;InteractiveAuthorizationRequired;AccessDenied;AccessDenied;");
        assert_int_equal(w->n_asked, 5);
        assert_int_equal(w->n_done, 0);
}

static void test_owners(void **state) {
        World *w = *state;

        start_polkit(w);
        call_try(w, AUTH_MANAGE_OWN, false);
        run_until(w, 1);
        sender = BOB; /* it is not the caller's own */
        call_try(w, AUTH_MANAGE_OWN, false);
        run_until(w, 2);
        assert_string_equal(w->asked, "org.xsched.manage-own try the thing 0;org.xsched.manage try the thing 0;");
        assert_string_equal(w->outcome, "ok;ok;");
}

static void test_privileged_are_not_asked_about(void **state) {
        World *w = *state;
        static const AuthAction actions[] = {AUTH_REGISTER, AUTH_MANAGE_OWN, AUTH_MANAGE, AUTH_SUSPEND};

        start_polkit(w);
        w->answers[0] = ANSWER_NO;
        for (size_t i = 0; i < ELEMENTSOF(actions); i++) {
                sender = 0;
                call_try(w, actions[i], false);
                run_until(w, (unsigned) (2 * i + 1));
                sender = geteuid();
                call_try(w, actions[i], false);
                run_until(w, (unsigned) (2 * i + 2));
        }
        assert_string_equal(w->outcome, "ok;ok;ok;ok;ok;ok;ok;ok;");
        assert_int_equal(w->n_asked, 0);
        assert_int_equal(w->n_entered, 8);
}

/* polkit's name has no owner: the table decides. */
static void test_polkit_absent(void **state) {
        World *w = *state;

        call_try(w, AUTH_REGISTER, false);
        run_until(w, 1);
        call_try(w, AUTH_MANAGE_OWN, false);
        run_until(w, 2);
        call_try(w, AUTH_MANAGE, true);
        run_until(w, 3);
        call_try(w, AUTH_SUSPEND, true);
        run_until(w, 4);
        sender = BOB;
        call_try(w, AUTH_MANAGE_OWN, false);
        run_until(w, 5);
        assert_string_equal(w->outcome, "ok;ok;AccessDenied;AccessDenied;AccessDenied;");
}

/* A bus on which polkit is not trusted: the owner of its name is not asked. */
static void test_private_bus(void **state) {
        World *w = *state;

        start_polkit(w);
        w->auth = auth_free(w->auth);
        assert_int_equal(auth_new(w->service, false, &w->auth), 0);
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 1);
        call_try(w, AUTH_MANAGE, false);
        run_until(w, 2);
        assert_string_equal(w->outcome, "ok;AccessDenied;");
        assert_int_equal(w->n_asked, 0);
        assert_int_equal(w->n_entered, 2);
}

static void test_two_questions_in_one_call(void **state) {
        World *w = *state;

        start_polkit(w);
        send_off(w, new_call(w, SERVICE_NAME, "TryBoth"));
        run_until(w, 1);
        assert_string_equal(w->outcome, "ok;");
        assert_string_equal(w->asked, "org.xsched.manage first the thing 0;org.xsched.suspend second the thing 0;");
        assert_int_equal(w->n_entered, 3);
        assert_int_equal(w->n_done, 1);

        w->answers[2] = ANSWER_YES;
        w->answers[3] = ANSWER_NO;
        send_off(w, new_call(w, SERVICE_NAME, "TryBoth"));
        run_until(w, 2);
        assert_string_equal(w->outcome, "ok;AccessDenied;");
        assert_int_equal(w->n_done, 1);
}

static void test_property(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = ANSWER_YES;
        w->answers[1] = ANSWER_NO;
        for (int i = 1; i <= 2; i++) {
                sd_bus_message *m = new_call(w, "org.freedesktop.DBus.Properties", "Set");
                assert_true(sd_bus_message_append(m, "ssv", SERVICE_NAME, "Value", "i", i) >= 0);
                send_off(w, m);
                run_until(w, (unsigned) i);
        }
        assert_string_equal(w->outcome, "ok;AccessDenied;");
        assert_int_equal(w->property, 1);
        assert_int_equal(w->n_done, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_granted, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_answers_are_not_kept, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_refused, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_owners, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(
                                        test_privileged_are_not_asked_about, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_polkit_absent, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_private_bus, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_two_questions_in_one_call, world_setup, world_teardown),
                        cmocka_unit_test_setup_teardown(test_property, world_setup, world_teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
