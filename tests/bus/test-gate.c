/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate, in front of a service some of whose functions have no rule, with a slow polkit. The service, its caller and
 * polkit are connections of this process, in one event loop; the caller's uid is what the test says.
 */

#include <stdio.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "service/base/log.h"
#include "service/bus/gate.h"
#include "tests/bus/outcome.h"
#include "tests/lib/private-bus.h"
#include "tests/lib/unit.h"

#define NAME       "org.xsched.test.Service"
#define POLKIT     "org.freedesktop.PolicyKit1"
#define PROPERTIES "org.freedesktop.DBus.Properties"

#define ALICE 4001U

static uid_t sender;

int __wrap_sd_bus_creds_get_euid(sd_bus_creds *c, uid_t *ret);
int __wrap_sd_bus_creds_get_euid(sd_bus_creds *c, uid_t *ret) {
        *ret = sender;
        return 0;
}

typedef struct World {
        PrivateBus daemon;
        sd_event *event;
        sd_bus *service, *caller, *polkit;
        Auth *auth;
        Gate *gate;

        unsigned n_done, n_signals; /* changes; what the service has heard */
        int value, forgotten;
        const char *target; /* the target of changes now */

        char asked[256]; /* the targets that polkit was asked about */
        sd_bus_message *question;

        char outcome[1024];
        unsigned n_outcomes;
} World;

static World world;

/* --- the service --- */

static int check(sd_bus_message *m, void *userdata, const char *member, sd_bus_error *error) {
        World *w = userdata;
        return auth_check(
                        w->auth, m, &(AuthRequest){.action = AUTH_MANAGE, .verb = member, .target = w->target}, error);
}

static int check_owner(sd_bus_message *m, void *userdata, const char *member, sd_bus_error *error) {
        World *w = userdata;
        return auth_grant(w->auth, m);
}

/* Allows the call without asking polkit. */
static int check_careless(sd_bus_message *m, void *userdata, const char *member, sd_bus_error *error) {
        return 1;
}

static int change(World *w, sd_bus_message *m, sd_bus_error *error) {
        int r = auth_take(w->auth, m, error);
        if (r < 0)
                return r;
        w->n_done++;
        return 0;
}

static int method_change(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        int r = change(userdata, m, error);
        return r < 0 ? r : sd_bus_reply_method_return(m, NULL);
}

/* The same as another function: rules go by the function. */
#define METHOD(name)                                                                                                   \
        static int name(sd_bus_message *m, void *userdata, sd_bus_error *error) {                                      \
                return method_change(m, userdata, error);                                                              \
        }
METHOD(method_own)
METHOD(method_careless)
METHOD(method_reads) /* as its rule says */

static int method_forgotten(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        w->forgotten++;
        return sd_bus_reply_method_return(m, NULL);
}

/* Does not take its grant. */
static int method_wasteful(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        return sd_bus_reply_method_return(m, NULL);
}

static int method_twice(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        int r = change(userdata, m, error);
        return r < 0 ? r : method_change(m, userdata, error);
}

static int get_value(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                void *userdata, sd_bus_error *error) {
        World *w = userdata;
        return sd_bus_message_append(reply, "i", w->value);
}

static int set_value(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *value,
                void *userdata, sd_bus_error *error) {
        World *w = userdata;

        int r = change(w, value, error);
        return r < 0 ? r : sd_bus_message_read(value, "i", &w->value);
}

static int set_forgotten(sd_bus *bus, const char *path, const char *interface, const char *property,
                sd_bus_message *value, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        return sd_bus_message_read(value, "i", &w->forgotten);
}

static const GateRule rules[] = {
                {.setter = set_value, .check = check},
                {.method = method_change, .check = check},
                {.method = method_own, .check = check_owner},
                {.method = method_careless, .check = check_careless},
                {.method = method_wasteful, .check = check_owner},
                {.method = method_twice, .check = check_owner},
                {.method = method_reads},
                {},
};

static const sd_bus_vtable vtable[] = {
                SD_BUS_VTABLE_START(0),
                SD_BUS_METHOD("Change", "", "", method_change, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("Own", "", "", method_own, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("Careless", "", "", method_careless, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("Wasteful", "", "", method_wasteful, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("Twice", "", "", method_twice, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("Reads", "", "", method_reads, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_METHOD("Forgotten", "", "", method_forgotten, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_WRITABLE_PROPERTY("Value", "i", get_value, set_value, 0, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_WRITABLE_PROPERTY("New", "i", get_value, set_forgotten, 0, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_PROPERTY("Constant", "i", get_value, 0, 0),
                SD_BUS_VTABLE_END,
};

static int find(sd_bus *bus, const char *path, const char *interface, void *userdata, void **found,
                sd_bus_error *error) {
        *found = userdata;
        return streq(path, "/things/1");
}

static int on_signal(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        w->n_signals++;
        return 0;
}

/* --- polkit --- */

static int on_question(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;
        const char *s, *key, *value;

        int r = sd_bus_message_read(m, "(sa{sv})s", &s, 1, &s, "s", &s, &s);
        if (r >= 0)
                r = sd_bus_message_enter_container(m, 'a', "{ss}");
        while (r >= 0 && (r = sd_bus_message_read(m, "{ss}", &key, &value)) > 0)
                if (streq(key, "target")) {
                        size_t n = strlen(w->asked);
                        (void) snprintf(w->asked + n, sizeof(w->asked) - n, "%s;", value);
                }
        assert_true(r >= 0);
        w->question = sd_bus_message_ref(m);
        return 1;
}

static void turn(World *w) {
        assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
}

static void answer_next(World *w, bool yes) {
        while (!w->question)
                turn(w);
        assert_true(sd_bus_reply_method_return(w->question, "(bba{ss})", (int) yes, 0, 0) >= 0);
        w->question = sd_bus_message_unref(w->question);
}

/* --- the caller --- */

static int on_outcome(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;

        outcome_append(m, w->outcome, sizeof(w->outcome));
        w->n_outcomes++;
        return 0;
}

static sd_bus_message *new_call(World *w, const char *path, const char *interface, const char *member) {
        sd_bus_message *m = NULL;
        assert_true(sd_bus_message_new_method_call(w->caller, &m, NAME, path, interface, member) >= 0);
        return m;
}

static void send_off(World *w, sd_bus_message *m) {
        assert_true(sd_bus_call_async(w->caller, NULL, m, on_outcome, w, 0) >= 0);
        sd_bus_message_unref(m);
}

static void expect(World *w, const char *outcome) {
        unsigned n = 0;

        for (const char *p = outcome; *p; p++)
                n += *p == ';';
        while (w->n_outcomes < n)
                turn(w);
        assert_string_equal(w->outcome, outcome);
        w->outcome[0] = '\0';
        w->n_outcomes = 0;
}

static void call(World *w, const char *member, const char *outcome) {
        send_off(w, new_call(w, "/test", NAME, member));
        expect(w, outcome);
}

static void set(World *w, const char *path, const char *interface, const char *property, const char *outcome) {
        sd_bus_message *m = new_call(w, path, PROPERTIES, "Set");
        assert_true(sd_bus_message_append(m, "ssv", interface, property, "i", 7) >= 0);
        send_off(w, m);
        expect(w, outcome);
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

static int setup(void **state) {
        World *w = &world;

        *w = (World){.target = "the thing"};
        sender = 0;
        log_set_max_level(LOG_EMERG);
        if (private_bus_start(&w->daemon) < 0 || sd_event_new(&w->event) < 0)
                return -1;
        w->service = connect_to(w, NAME);
        w->caller = connect_to(w, NULL);
        w->polkit = connect_to(w, POLKIT);
        assert_true(sd_bus_add_object(w->polkit, NULL, "/org/freedesktop/PolicyKit1/Authority", on_question, w) >= 0);
        assert_int_equal(auth_new(w->service, true, &w->auth), 0);
        assert_int_equal(gate_new(w->service, w->auth, &w->gate), 0);
        const GateInterface one = {.path = "/test", .name = NAME, .vtable = vtable, .rules = rules, .userdata = w};
        const GateInterface many = {
                        .path = "/things", .name = NAME, .vtable = vtable, .rules = rules, .find = find, .userdata = w};
        assert_int_equal(gate_add(w->gate, &one), 0);
        assert_int_equal(gate_add(w->gate, &many), 0);
        *state = w;
        return 0;
}

static int teardown(void **state) {
        World *w = *state;

        sd_bus_message_unref(w->question);
        gate_free(w->gate);
        auth_free(w->auth);
        sd_bus_close_unref(w->service);
        sd_bus_close_unref(w->caller);
        sd_bus_close_unref(w->polkit);
        sd_event_unref(w->event);
        private_bus_stop(&w->daemon);
        return 0;
}

/* --- cases --- */

static void test_what_has_rules_works(void **state) {
        World *w = *state;

        call(w, "Change", "ok;");
        call(w, "Own", "ok;");
        set(w, "/test", NAME, "Value", "ok;");
        set(w, "/things/1", NAME, "Value", "ok;");
        assert_int_equal(w->value, 7);
        assert_int_equal(w->n_done, 4);
}

/* A method and a writable property without a rule are refused to every caller, root included. */
static void test_what_has_no_rule_is_refused(void **state) {
        World *w = *state;

        set(w, "/test", NAME, "New", "AccessDenied;");
        set(w, "/things/1", NAME, "New", "AccessDenied;");
        call(w, "Forgotten", "AccessDenied;");
        sender = ALICE;
        set(w, "/test", NAME, "New", "AccessDenied;");
        call(w, "Forgotten", "AccessDenied;");
        assert_int_equal(w->forgotten, 0);
}

/* A change is refused where its rule says yes without a grant, or says that nothing is changed. */
static void test_changes_need_a_grant(void **state) {
        World *w = *state;

        call(w, "Careless", "AccessDenied;");
        call(w, "Reads", "AccessDenied;");
        call(w, "Wasteful", "ok;"); /* an earlier grant does not count for this call */
        call(w, "Reads", "AccessDenied;");
        assert_int_equal(w->n_done, 0);
        call(w, "Twice", "AccessDenied;");
        assert_int_equal(w->n_done, 1);
}

static void test_exported_beside_the_gate(void **state) {
        World *w = *state;

        assert_true(sd_bus_add_object_vtable(w->service, NULL, "/beside", NAME, vtable, w) >= 0);
        set(w, "/beside", NAME, "New", "UnknownObject;");
        send_off(w, new_call(w, "/beside", NAME, "Forgotten"));
        expect(w, "UnknownObject;");
        assert_int_equal(w->forgotten, 0);
}

static void test_wrong_forms(void **state) {
        World *w = *state;
        sd_bus_message *m;

        set(w, "/test", "", "Value", "UnknownInterface;");
        set(w, "/test", "org.xsched.Other", "Value", "UnknownInterface;");
        set(w, "/test", NAME, "Other", "UnknownProperty;");
        set(w, "/test", NAME, "Constant", "PropertyReadOnly;");
        set(w, "/test/x", NAME, "Value", "UnknownObject;");
        set(w, "/things/2", NAME, "Value", "UnknownObject;");
        set(w, "/things", NAME, "Value", "UnknownObject;");
        send_off(w, new_call(w, "/test", NULL, "Change"));
        expect(w, "UnknownMethod;");
        call(w, "Other", "UnknownMethod;");

        m = new_call(w, "/test", NAME, "Change");
        assert_true(sd_bus_message_append(m, "s", "more") >= 0);
        send_off(w, m);
        expect(w, "InvalidArgs;");
        m = new_call(w, "/test", PROPERTIES, "Set");
        assert_true(sd_bus_message_append(m, "ssvs", NAME, "Value", "i", 7, "more") >= 0);
        send_off(w, m);
        expect(w, "InvalidArgs;");
        m = new_call(w, "/test", PROPERTIES, "Set");
        assert_true(sd_bus_message_append(m, "ssv", NAME, "Value", "v", "i", 7) >= 0);
        send_off(w, m);
        expect(w, "InvalidArgs;");
        m = new_call(w, "/test", PROPERTIES, "Set");
        assert_true(sd_bus_message_append(m, "ss", NAME, "Value") >= 0);
        send_off(w, m);
        expect(w, "InvalidArgs;");
        assert_int_equal(w->value, 0);
        assert_int_equal(w->n_done, 0);
}

/* A call that wants no reply is asked about all the same. */
static void test_no_reply_expected(void **state) {
        World *w = *state;

        sender = ALICE;
        sd_bus_message *m = new_call(w, "/test", PROPERTIES, "Set");
        assert_true(sd_bus_message_append(m, "ssv", NAME, "Value", "i", 7) >= 0);
        assert_true(sd_bus_message_set_expect_reply(m, 0) >= 0);
        assert_true(sd_bus_send(w->caller, m, NULL) >= 0);
        sd_bus_message_unref(m);
        answer_next(w, false);
        call(w, "Own", "ok;");
        assert_int_equal(w->value, 0);
        assert_int_equal(w->n_done, 1);
}

/* polkit has allowed the change of the target that it was asked about. If the target has changed since, polkit is asked
 * again. */
static void test_changed_meanwhile(void **state) {
        World *w = *state;

        sender = ALICE;
        w->target = "mine";
        send_off(w, new_call(w, "/test", NAME, "Change"));
        while (!w->question)
                turn(w);
        w->target = "yours";
        answer_next(w, true);
        answer_next(w, false);
        expect(w, "AccessDenied;");
        assert_string_equal(w->asked, "mine;yours;");
        assert_int_equal(w->n_done, 0);

        w->asked[0] = '\0';
        set(w, "/test", NAME, "Constant", "PropertyReadOnly;"); /* polkit is not asked about that */
        send_off(w, new_call(w, "/test", NAME, "Change"));
        answer_next(w, true);
        expect(w, "ok;");
        assert_string_equal(w->asked, "yours;");
        assert_int_equal(w->n_done, 1);
}

/* Other calls that come while one waits for polkit do not take its grant. */
static void test_others_meanwhile(void **state) {
        World *w = *state;

        sender = ALICE;
        send_off(w, new_call(w, "/test", NAME, "Change"));
        while (!w->question)
                turn(w);
        call(w, "Reads", "AccessDenied;");
        call(w, "Own", "ok;");
        call(w, "Careless", "AccessDenied;");
        assert_int_equal(w->n_done, 1);
        answer_next(w, true);
        expect(w, "ok;");
        assert_int_equal(w->n_done, 2);
}

/* The bus lets any connection send a signal that looks like a service's. */
static void test_forged_signals(void **state) {
        World *w = *state;
        const char *unique;
        sd_bus_message *m = NULL;

        assert_true(sd_bus_match_signal(w->service, NULL, POLKIT, "/test", NAME, "Changed", on_signal, w) >= 0);
        assert_true(sd_bus_get_unique_name(w->service, &unique) >= 0);
        assert_true(sd_bus_message_new_signal(w->caller, &m, "/test", NAME, "Changed") >= 0);
        assert_true(sd_bus_message_set_destination(m, unique) >= 0);
        assert_true(sd_bus_send(w->caller, m, NULL) >= 0);
        sd_bus_message_unref(m);
        call(w, "Own", "ok;"); /* comes after it */
        assert_int_equal(w->n_signals, 0);

        assert_true(sd_bus_emit_signal(w->polkit, "/test", NAME, "Changed", NULL) >= 0);
        while (w->n_signals == 0)
                turn(w);
        assert_int_equal(w->n_signals, 1);
}

#define CASE_OF(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                        CASE_OF(test_what_has_rules_works),
                        CASE_OF(test_what_has_no_rule_is_refused),
                        CASE_OF(test_changes_need_a_grant),
                        CASE_OF(test_exported_beside_the_gate),
                        CASE_OF(test_wrong_forms),
                        CASE_OF(test_no_reply_expected),
                        CASE_OF(test_changed_meanwhile),
                        CASE_OF(test_others_meanwhile),
                        CASE_OF(test_forged_signals),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
