/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asking polkit, on a bus of its own: a service with two protected methods and a property, its caller, and a polkit that answers as it
 * is told. All three are connections of this process, in one event loop.
 *
 * The caller's uid is what the test says: sd_bus_creds_get_euid() is wrapped by the linker.
 */

#include <stdio.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "common/macro.h"
#include "service/auth.h"
#include "service/log.h"
#include "tests/lib/private-bus.h"
#include "tests/lib/unit.h"

#define SERVICE_NAME "org.xsched.test.Service"
#define POLKIT_NAME  "org.freedesktop.PolicyKit1"

#define ALICE 4001U
#define BOB   4002U

static uid_t sender = ALICE;

int __wrap_sd_bus_creds_get_euid(sd_bus_creds *c, uid_t *ret);
int __wrap_sd_bus_creds_get_euid(sd_bus_creds *c, uid_t *ret) {
        *ret = sender;
        return 0;
}

typedef enum Answer {
        ANSWER_YES,
        ANSWER_NO,
        ANSWER_CHALLENGE,
        ANSWER_ERROR,
        ANSWER_NONSENSE,
        ANSWER_LATER, /* kept in `waiting` */
} Answer;

typedef struct World {
        PrivateBus daemon;
        sd_event *event;
        sd_bus *service, *caller, *polkit;
        Auth *auth;

        /* the service */
        unsigned n_entered, n_done;
        int property;

        /* polkit */
        Answer answers[8]; /* to the 1st, 2nd... question */
        unsigned n_asked;
        char asked[1024]; /* "action verb target interactive;" of each */
        sd_bus_message *waiting[128];
        unsigned n_waiting;
        unsigned n_taken_back;

        /* the caller */
        char outcome[1024]; /* "ok;" or the error's name of each call, as they come back */
        unsigned n_outcomes;
} World;

static World world;

static int authorise(World *w, sd_bus_message *m, AuthAction action, const char *verb, sd_bus_error *error) {
        return auth_check(w->auth, m,
                        &(AuthRequest){.action = action,
                                        .verb = verb,
                                        .target = "the thing",
                                        .owner = ALICE},
                        error);
}

static int on_try(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        int action;

        w->n_entered++;
        int r = sd_bus_message_read(m, "i", &action);
        if (r < 0)
                return r;
        r = authorise(w, m, (AuthAction) action, "try", error);
        if (r <= 0)
                return r < 0 ? r : 1;
        w->n_done++;
        return sd_bus_reply_method_return(m, NULL);
}

/* Two questions, one after the other. */
static int on_try_both(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;

        w->n_entered++;
        int r = authorise(w, m, AUTH_MANAGE, "first", error);
        if (r > 0)
                r = authorise(w, m, AUTH_SUSPEND, "second", error);
        if (r <= 0)
                return r < 0 ? r : 1;
        w->n_done++;
        return sd_bus_reply_method_return(m, NULL);
}

static int get_property(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        return sd_bus_message_append(reply, "i", w->property);
}

static int set_property(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *value, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        w->n_done++;
        return sd_bus_message_read(value, "i", &w->property);
}

/* In front of the setter, as the gate is. */
static int on_filter(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;

        if (!sd_bus_message_is_method_call(m, "org.freedesktop.DBus.Properties", "Set"))
                return 0;
        w->n_entered++;
        int r = authorise(w, m, AUTH_MANAGE, "set", error);
        return r < 0 ? r : r == 0;
}

static const sd_bus_vtable service_vtable[] = {
                SD_BUS_VTABLE_START(0),
                SD_BUS_METHOD("Try", "i", "", on_try, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("TryBoth", "", "", on_try_both, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_WRITABLE_PROPERTY(
                                "Value", "i", get_property, set_property, 0, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_VTABLE_END,
};

static int answer(sd_bus_message *m, Answer a) {
        switch (a) {
        case ANSWER_ERROR:
                return sd_bus_reply_method_errorf(
                                m, "org.freedesktop.PolicyKit1.Error.Failed", "out of order");
        case ANSWER_NONSENSE:
                return sd_bus_reply_method_return(m, "s", "perhaps");
        default:
                return sd_bus_reply_method_return(m, "(bba{ss})", a == ANSWER_YES, a == ANSWER_CHALLENGE, 0);
        }
}

static int read_details(sd_bus_message *m, const char **ret_verb, const char **ret_target) {
        const char *key, *value;

        int r = sd_bus_message_enter_container(m, 'a', "{ss}");
        while (r >= 0 && (r = sd_bus_message_read(m, "{ss}", &key, &value)) > 0)
                *(streq(key, "verb") ? ret_verb : ret_target) = value;
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int on_check(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        const char *kind, *key, *subject, *action, *verb = "", *target = "", *cancellation;
        uint32_t flags = 0;

        if (sd_bus_message_is_method_call(m, NULL, "CancelCheckAuthorization")) {
                w->n_taken_back++;
                return 1;
        }
        assert_true(sd_bus_message_is_method_call(
                        m, "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization"));
        int r = sd_bus_message_read(m, "(sa{sv})s", &kind, 1, &key, "s", &subject, &action);
        if (r >= 0)
                r = read_details(m, &verb, &target);
        if (r >= 0)
                r = sd_bus_message_read(m, "us", &flags, &cancellation);
        assert_true(r >= 0);
        assert_string_equal(kind, "system-bus-name");
        assert_string_equal(key, "name");

        /* It is the caller who is asked about, not the service. */
        const char *unique = NULL;
        assert_true(sd_bus_get_unique_name(w->caller, &unique) >= 0);
        assert_string_equal(subject, unique);

        size_t n = strlen(w->asked);
        (void) snprintf(w->asked + n, sizeof(w->asked) - n, "%s %s %s %u;", action, verb, target, flags);
        Answer a = w->n_asked < ELEMENTSOF(w->answers) ? w->answers[w->n_asked] : w->answers[0];
        w->n_asked++;
        if (a != ANSWER_LATER)
                return answer(m, a);
        assert_true(w->n_waiting < ELEMENTSOF(w->waiting));
        w->waiting[w->n_waiting++] = sd_bus_message_ref(m);
        return 1;
}

/* Runs the loop until n calls have come back. Everything is local: a second without an event is a failure. */
static void run_until(World *w, unsigned n) {
        while (w->n_outcomes < n)
                assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
}

static int on_outcome(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(m);
        size_t n = strlen(w->outcome);

        (void) snprintf(w->outcome + n, sizeof(w->outcome) - n, "%s;", e ? strrchr(e->name, '.') + 1 : "ok");
        w->n_outcomes++;
        return 0;
}

static sd_bus_message *new_call(World *w, const char *interface, const char *member) {
        sd_bus_message *m = NULL;
        assert_true(sd_bus_message_new_method_call(
                                    w->caller, &m, SERVICE_NAME, "/test", interface, member) >= 0);
        return m;
}

static void send_off(World *w, sd_bus_message *m) {
        assert_true(sd_bus_call_async(w->caller, NULL, m, on_outcome, w, 0) >= 0);
        sd_bus_message_unref(m);
}

static void call_try(World *w, AuthAction action, bool interactive) {
        sd_bus_message *m = new_call(w, SERVICE_NAME, "Try");
        assert_true(sd_bus_message_append(m, "i", (int) action) >= 0);
        assert_true(sd_bus_message_set_allow_interactive_authorization(m, interactive) >= 0);
        send_off(w, m);
}

static sd_bus *connect_to(World *w, const char *name) {
        sd_bus *bus = NULL;

        assert_true(sd_bus_new(&bus) >= 0);
        assert_true(sd_bus_set_address(bus, w->daemon.address) >= 0);
        assert_true(sd_bus_set_bus_client(bus, true) >= 0);
        assert_true(sd_bus_start(bus) >= 0);
        if (name)
                assert_true(sd_bus_request_name(bus, name, 0) >= 0);
        assert_true(sd_bus_attach_event(bus, w->event, 0) >= 0);
        return bus;
}

static void start_polkit(World *w) {
        w->polkit = connect_to(w, POLKIT_NAME);
        assert_true(sd_bus_add_object(w->polkit, NULL, "/org/freedesktop/PolicyKit1/Authority", on_check,
                                    w) >= 0);
}

static int setup(void **state) {
        World *w = &world;

        *w = (World){0};
        sender = ALICE;
        log_set_max_level(LOG_EMERG);
        if (private_bus_start(&w->daemon) < 0 || sd_event_new(&w->event) < 0)
                return -1;
        w->service = connect_to(w, SERVICE_NAME);
        w->caller = connect_to(w, NULL);
        assert_true(sd_bus_add_object_vtable(w->service, NULL, "/test", SERVICE_NAME, service_vtable, w) >=
                        0);
        assert_true(sd_bus_add_filter(w->service, NULL, on_filter, w) >= 0);
        assert_int_equal(auth_new(w->service, true, &w->auth), 0);
        *state = w;
        return 0;
}

static int teardown(void **state) {
        World *w = *state;

        for (unsigned i = 0; i < w->n_waiting; i++)
                sd_bus_message_unref(w->waiting[i]);
        auth_free(w->auth);
        sd_bus_close_unref(w->service);
        sd_bus_close_unref(w->caller);
        sd_bus_close_unref(w->polkit);
        sd_event_unref(w->event);
        private_bus_stop(&w->daemon);
        return 0;
}

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
        sender = BOB; /* it is not his */
        call_try(w, AUTH_MANAGE_OWN, false);
        run_until(w, 2);
        assert_string_equal(w->asked,
                        "org.xsched.manage-own try the thing 0;org.xsched.manage try the thing 0;");
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

/* Nobody has polkit's name: the table decides. */
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

/* A bus on which polkit is not to be believed: whoever has the name is not asked. */
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
        assert_string_equal(w->asked,
                        "org.xsched.manage first the thing 0;org.xsched.suspend second the thing 0;");
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

static void run_until_waiting(World *w, unsigned n) {
        while (w->n_waiting < n)
                assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
}

/* Dialogs that nobody answers, of as many users as there are, hold up no question that takes no dialog; and they are not left with polkit. */
static void test_open_dialogs(void **state) {
        enum { USERS = 9, EACH = 10, AT_ONCE = 48 };
        World *w = *state;

        start_polkit(w);
        for (size_t i = 0; i < ELEMENTSOF(w->answers); i++)
                w->answers[i] = ANSWER_LATER;
        for (unsigned i = 0; i < USERS * EACH; i++) {
                sender = ALICE + 1 + i / EACH;
                call_try(w, AUTH_MANAGE, true);
                /* Who calls is known when the call arrives. */
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
        while (w->n_taken_back < AT_ONCE)
                assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
}

/* polkit takes its time (somebody looks for his password): other callers are served, answers find their calls, and one user
 * cannot pile up calls without end. */
static void test_many_wait(void **state) {
        World *w = *state;
        enum { PER_USER = 64, TOO_MANY = 10, AT_A_TIME = 8 };

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

        /* Eight are asked at a time; the last of them is answered first, every other one by yes. */
        for (unsigned i = 0; i < PER_USER; i++) {
                if (i % AT_A_TIME == 0)
                        run_until_waiting(w, i + AT_A_TIME);
                assert_int_equal(w->n_waiting, i - i % AT_A_TIME + AT_A_TIME);
                assert_true(answer(w->waiting[w->n_waiting - 1 - i % AT_A_TIME],
                                            i % 2 == 0 ? ANSWER_YES : ANSWER_NO) >= 0);
                if (i % AT_A_TIME == AT_A_TIME - 1)
                        run_until(w, TOO_MANY + 1 + i + 1);
        }
        assert_int_equal(w->n_done, 1 + PER_USER / 2);

        /* All is forgotten: there is room again. */
        w->outcome[0] = '\0';
        w->n_asked = 0;
        w->answers[0] = ANSWER_YES;
        call_try(w, AUTH_MANAGE, false);
        run_until(w, TOO_MANY + 2 + PER_USER);
        assert_string_equal(w->outcome, "ok;");
}

/* The service ends while questions are open. */
static void test_freed_while_waiting(void **state) {
        World *w = *state;

        start_polkit(w);
        w->answers[0] = w->answers[1] = ANSWER_LATER;
        call_try(w, AUTH_MANAGE, true);
        call_try(w, AUTH_MANAGE, true);
        while (w->n_waiting < 2)
                assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
        w->auth = auth_free(w->auth);
        assert_int_equal(auth_new(w->service, true, &w->auth), 0);
        assert_true(answer(w->waiting[0], ANSWER_YES) >= 0);
        call_try(w, AUTH_REGISTER, false);
        run_until(w, 1);
        assert_string_equal(w->outcome, "ok;");
        assert_int_equal(w->n_done, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_granted, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_answers_are_not_kept, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_owners, setup, teardown),
                        cmocka_unit_test_setup_teardown(
                                        test_privileged_are_not_asked_about, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_polkit_absent, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_private_bus, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_two_questions_in_one_call, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_property, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_open_dialogs, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_many_wait, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_freed_while_waiting, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
