/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * awf and logind's sessions: the client of the active session goes first, and a change of session is seen at once
 *
 * The test replaces the functions of sd-login.
 */

#include <sys/eventfd.h>
#include <systemd/sd-login.h>

#include "service/base/seats.h"
#include "tests/unit/arbiter-harness.h"

#define SESSION(n) "/user.slice/user-1000.slice/session-" n ".scope"
#define MANAGER(n) "/user.slice/user-" n ".slice/user@" n ".service"

static struct {
        const char *session; /* active session of the only seat; NULL: none */
        uid_t uid;
        bool absent; /* there is no logind */
        int fd;
} logind = {.fd = -EBADF};

/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __wrap_sd_login_monitor_new(const char *category, sd_login_monitor **ret);
sd_login_monitor *__wrap_sd_login_monitor_unref(sd_login_monitor *m);
int __wrap_sd_login_monitor_get_fd(sd_login_monitor *m);
int __wrap_sd_login_monitor_flush(sd_login_monitor *m);
int __wrap_sd_get_seats(char ***ret);
int __wrap_sd_seat_get_active(const char *seat, char **ret_session, uid_t *ret_uid);

int __wrap_sd_login_monitor_new(const char *category, sd_login_monitor **ret) {
        assert_string_equal(category, "seat");
        if (logind.absent)
                return -ENOENT;
        logind.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_true(logind.fd >= 0);
        *ret = (sd_login_monitor *) &logind;
        return 0;
}

sd_login_monitor *__wrap_sd_login_monitor_unref(sd_login_monitor *m) {
        if (m)
                logind.fd = safe_close(logind.fd);
        return NULL;
}

int __wrap_sd_login_monitor_get_fd(sd_login_monitor *m) {
        return logind.fd;
}

int __wrap_sd_login_monitor_flush(sd_login_monitor *m) {
        eventfd_t n;

        return eventfd_read(logind.fd, &n);
}

int __wrap_sd_get_seats(char ***ret) {
        *ret = calloc(2, sizeof(char *));
        (*ret)[0] = strdup("seat0");
        return 1;
}

int __wrap_sd_seat_get_active(const char *seat, char **ret_session, uid_t *ret_uid) {
        assert_string_equal(seat, "seat0");
        if (!logind.session)
                return -ENODATA;
        *ret_session = strdup(logind.session);
        *ret_uid = logind.uid;
        return 0;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void set_active(Manager *m, const char *session, uid_t uid) {
        logind.session = session;
        logind.uid = uid;
        if (logind.fd >= 0)
                assert_int_equal(eventfd_write(logind.fd, 1), 0);
        for (unsigned i = 0; m && i < 4; i++)
                assert_true(manager_turn(m, 0) >= 0);
}

static void unused(void *userdata) {
        fail();
}

/* Only cgroups that logind and systemd have named count, and none of the same name further down. */
static void test_cgroups(void **state) {
        sd_event *event = NULL;
        Seats *s = NULL;

        assert_int_equal(sd_event_new(&event), 0);
        set_active(NULL, "2", 1000);
        assert_int_equal(seats_new(event, unused, NULL, &s), 0);
        assert_true(seats_is_active(s, SESSION("2")));
        assert_true(seats_is_active(s, SESSION("2") "/below/it"));
        assert_true(seats_is_active(s, MANAGER("1000") "/app.slice/app-game.scope"));
        assert_false(seats_is_active(s, SESSION("3")));
        assert_false(seats_is_active(s, SESSION("22")));
        assert_false(seats_is_active(s, SESSION("")));
        assert_false(seats_is_active(s, MANAGER("100")));
        assert_false(seats_is_active(s, MANAGER("1001") "/session-2.scope"));
        assert_false(seats_is_active(s, MANAGER("1001") "/user.slice/user-1000.slice/session-2.scope"));
        assert_false(seats_is_active(s, "/system.slice/session-2.scope"));
        assert_false(seats_is_active(s, "/user.slice"));
        assert_false(seats_is_active(s, "/user.slice/user-1000.slice"));
        assert_false(seats_is_active(s, ""));
        assert_false(seats_is_active(s, NULL));
        assert_false(seats_is_active(NULL, SESSION("2")));
        s = seats_free(s);
        assert_null(seats_free(NULL));
        sd_event_unref(event);
}

static Device *device_of(const Queue *q) {
        return q->device;
}

static void set_policy(Device *d, const PolicyOps *ops) {
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        s.ops = ops;
        assert_int_equal(device_configure(d, &s), 0);
        arbiter_flush(d->manager);
}

/* The client of the active session runs. Without an active session clients are equals. Active= counts like a
 * session. */
static void test_followed(void **state) {
        Manager *m = manager_make();
        Process a = join(m, SESSION("2"), 0), b = join(m, MANAGER("1001") "/app.slice", 0);
        Queue *qa = queue(&a, "d", 0), *qb = queue(&b, "d", 0);

        set_active(m, "2", 1000);
        begin(qa);
        begin(qb);
        assert_null(m->seats); /* no policy asks for it */
        set_policy(device_of(qa), &policy_awf_ops);
        assert_non_null(m->seats);
        assert_true(held(qb) && !held(qa));
        set_active(m, "7", 1001);
        assert_true(held(qa) && !held(qb));
        set_active(m, "2", 1000);
        assert_true(held(qb) && !held(qa));
        set_active(m, NULL, 0);
        assert_int_equal(held(qa) + held(qb), 1);

        assert_int_equal(settings_set_active(&b.client->group->override, true), 0);
        group_settings_changed(b.client->group);
        arbiter_flush(m);
        assert_true(held(qa) && !held(qb));
        set_active(m, "2", 1000); /* now both are active */
        assert_int_equal(held(qa) + held(qb), 1);
        check(m);

        /* Another policy ignores the session; then the first one is set again. */
        set_policy(device_of(qa), &policy_hpf_ops);
        set_active(m, "7", 1001);
        set_policy(device_of(qa), &policy_awf_ops);
        assert_true(held(qa) && !held(qb));
        finish(qa);
        finish(qb);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* Without logind the settings count, and it is no error. */
static void test_without_logind(void **state) {
        Manager *m = manager_make();
        Process a = join(m, SESSION("2"), 0), b = join(m, "/system.slice/b.service", 0);
        Queue *qa = queue(&a, "d", 0), *qb = queue(&b, "d", 0);

        logind.absent = true;
        set_policy(device_of(qa), &policy_awf_ops);
        assert_null(m->seats);
        begin(qa);
        begin(qb);
        assert_int_equal(settings_set_active(&b.client->group->override, true), 0);
        group_settings_changed(b.client->group);
        arbiter_flush(m);
        assert_true(held(qa) && !held(qb));
        logind.absent = false;
        leave(&a);
        leave(&b);
        manager_free(m);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_cgroups),
                        cmocka_unit_test(test_followed),
                        cmocka_unit_test(test_without_logind),
        };

        return cmocka_run_group_tests_name("activity", tests, NULL, NULL);
}
