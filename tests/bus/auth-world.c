/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A service, its caller and polkit
 */

#include <stdio.h>

#include "service/base/auth-sender.h"
#include "service/base/log.h"
#include "tests/bus/auth-world.h"
#include "tests/bus/outcome.h"

static World world;
uid_t sender = ALICE, sender_user = UID_NONE;

int __wrap_sd_bus_creds_get_euid(sd_bus_creds *c, uid_t *ret);
int __wrap_sd_bus_creds_get_euid(sd_bus_creds *c, uid_t *ret) {
        *ret = sender;
        return 0;
}

int __real_sd_bus_call_async(sd_bus *bus, sd_bus_slot **slot, sd_bus_message *m, sd_bus_message_handler_t callback,
                void *userdata, uint64_t usec);
int __wrap_sd_bus_call_async(sd_bus *bus, sd_bus_slot **slot, sd_bus_message *m, sd_bus_message_handler_t callback,
                void *userdata, uint64_t usec);
int __wrap_sd_bus_call_async(sd_bus *bus, sd_bus_slot **slot, sd_bus_message *m, sd_bus_message_handler_t callback,
                void *userdata, uint64_t usec) {
        if (streq_ptr(sd_bus_message_get_destination(m), POLKIT_NAME)) {
                world.patience_usec = usec;
                if (world.hurry)
                        usec = 1;
        }
        return __real_sd_bus_call_async(bus, slot, m, callback, userdata, usec);
}

static int authorise(World *w, sd_bus_message *m, AuthAction action, const char *verb, sd_bus_error *error) {
        auth_know_sender(sender_user != UID_NONE ? m : NULL, sender, sender_user);
        return auth_check(w->auth, m,
                        &(AuthRequest){.action = action, .verb = verb, .target = "the thing", .owner = ALICE}, error);
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

/* Runs in front of the setter, as the gate does. */
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
                SD_BUS_WRITABLE_PROPERTY("Value", "i", get_property, set_property, 0, SD_BUS_VTABLE_UNPRIVILEGED),
                SD_BUS_VTABLE_END,
};

int answer(sd_bus_message *m, Answer a) {
        switch (a) {
        case ANSWER_ERROR:
                return sd_bus_reply_method_errorf(m, "org.freedesktop.PolicyKit1.Error.Failed", "out of order");
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
        assert_true(sd_bus_message_is_method_call(m, "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization"));
        int r = sd_bus_message_read(m, "(sa{sv})s", &kind, 1, &key, "s", &subject, &action);
        if (r >= 0)
                r = read_details(m, &verb, &target);
        if (r >= 0)
                r = sd_bus_message_read(m, "us", &flags, &cancellation);
        assert_true(r >= 0);
        assert_string_equal(kind, "system-bus-name");
        assert_string_equal(key, "name");

        /* polkit has to be asked about the caller, and not about the service. */
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

/* Everything is local: so long without an event is a failure. */
static void run_once(World *w) {
        assert_true(sd_event_run(w->event, 20 * UINT64_C(1000000)) > 0);
}

void run_until(World *w, unsigned n) {
        while (w->n_outcomes < n)
                run_once(w);
}

void run_until_waiting(World *w, unsigned n) {
        while (w->n_waiting < n)
                run_once(w);
}

void run_until_taken_back(World *w, unsigned n) {
        while (w->n_taken_back < n)
                run_once(w);
}

static int on_outcome(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        World *w = userdata;

        outcome_append(m, w->outcome, sizeof(w->outcome));
        w->n_outcomes++;
        return 0;
}

sd_bus_message *new_call(World *w, const char *interface, const char *member) {
        sd_bus_message *m = NULL;
        assert_true(sd_bus_message_new_method_call(w->caller, &m, SERVICE_NAME, "/test", interface, member) >= 0);
        return m;
}

void send_off(World *w, sd_bus_message *m) {
        assert_true(sd_bus_call_async(w->caller, NULL, m, on_outcome, w, 0) >= 0);
        sd_bus_message_unref(m);
}

void call_try(World *w, AuthAction action, bool interactive) {
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

/* Makes a polkit that has the name, or waits for it. */
static sd_bus *new_polkit(World *w) {
        sd_bus *bus = connect_to(w, NULL);

        assert_true(sd_bus_request_name(bus, POLKIT_NAME, SD_BUS_NAME_QUEUE) >= 0);
        assert_true(sd_bus_add_object(bus, NULL, "/org/freedesktop/PolicyKit1/Authority", on_check, w) >= 0);
        return bus;
}

void start_polkit(World *w) {
        w->polkit = new_polkit(w);
}

void restart_polkit(World *w) {
        sd_bus *next = new_polkit(w);

        sd_bus_close_unref(w->polkit);
        w->polkit = next;
}

int world_setup(void **state) {
        World *w = &world;

        *w = (World){0};
        sender = ALICE;
        sender_user = UID_NONE;
        log_set_max_level(LOG_EMERG);
        if (private_bus_start(&w->daemon) < 0 || sd_event_new(&w->event) < 0)
                return -1;
        w->service = connect_to(w, SERVICE_NAME);
        w->caller = connect_to(w, NULL);
        assert_true(sd_bus_add_object_vtable(w->service, NULL, "/test", SERVICE_NAME, service_vtable, w) >= 0);
        assert_true(sd_bus_add_filter(w->service, NULL, on_filter, w) >= 0);
        assert_int_equal(auth_new(w->service, true, &w->auth), 0);
        *state = w;
        return 0;
}

int world_teardown(void **state) {
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
