/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Seats
 */

#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <systemd/sd-login.h>

#include "common/macro.h"
#include "seats.h"

/* More than a host has seats. */
#define SEATS_MAX 64U

typedef struct ActiveSession {
        char *id;
        uid_t uid;
} ActiveSession;

struct Seats {
        sd_login_monitor *monitor;
        sd_event_source *source;
        ActiveSession active[SEATS_MAX];
        size_t n;
        void (*changed)(void *userdata);
        void *userdata;
};

static void sessions_free(ActiveSession *a, size_t n) {
        for (size_t i = 0; i < n; i++)
                free(a[i].id);
}

static void strings_free(char **l) {
        for (char **p = l; p && *p; p++)
                free(*p);
        free(l);
}

/* A seat may have no active session. */
static size_t read_active(ActiveSession ret[SEATS_MAX]) {
        char **seats = NULL;
        size_t n = 0;

        if (sd_get_seats(&seats) < 0)
                return 0;
        for (char **s = seats; s && *s && n < SEATS_MAX; s++) {
                ActiveSession a = {0};

                if (sd_seat_get_active(*s, &a.id, &a.uid) >= 0 && a.id)
                        ret[n++] = a;
        }
        strings_free(seats);
        return n;
}

static bool is_same(const Seats *s, const ActiveSession *a, size_t n) {
        if (n != s->n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (!streq(a[i].id, s->active[i].id) || a[i].uid != s->active[i].uid)
                        return false;
        return true;
}

/* Returns whether others are active now. */
static bool seats_read(Seats *s) {
        ActiveSession active[SEATS_MAX];
        size_t n = read_active(active);

        if (is_same(s, active, n)) {
                sessions_free(active, n);
                return false;
        }
        sessions_free(s->active, s->n);
        memcpy(s->active, active, n * sizeof(*active));
        s->n = n;
        return true;
}

static int on_change(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Seats *s = userdata;

        (void) sd_login_monitor_flush(s->monitor);
        if (seats_read(s))
                s->changed(s->userdata);
        return 0;
}

Seats *seats_free(Seats *s) {
        if (!s)
                return NULL;
        sd_event_source_disable_unref(s->source);
        sd_login_monitor_unref(s->monitor);
        sessions_free(s->active, s->n);
        free(s);
        return NULL;
}
DEFINE_TRIVIAL_CLEANUP_FUNC(Seats *, seats_free);

int seats_new(sd_event *event, void (*changed)(void *userdata), void *userdata, Seats **ret) {
        _cleanup_(seats_freep)
        Seats *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->changed = changed;
        s->userdata = userdata;
        int r = sd_login_monitor_new("seat", &s->monitor);
        if (r < 0)
                return r;
        int fd = sd_login_monitor_get_fd(s->monitor);
        r = fd < 0 ? fd : sd_event_add_io(event, &s->source, fd, EPOLLIN, on_change, s);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(s->source, "seats");
        (void) seats_read(s);
        *ret = TAKE_PTR(s);
        return 0;
}

/* The component that the path begins with, without `prefix` and `suffix`: of *ret_n bytes. Returns the rest of the path
 * after it, or NULL. */
static const char *component(
                const char *path, const char *prefix, const char *suffix, const char **ret, size_t *ret_n) {
        const char *begin = startswith(path, prefix), *end = begin ? strchrnul(begin, '/') : NULL;
        size_t n = end ? (size_t) (end - begin) : 0, n_suffix = strlen(suffix);

        if (n <= n_suffix || memcmp(end - n_suffix, suffix, n_suffix) != 0)
                return NULL;
        *ret = begin;
        *ret_n = n - n_suffix;
        return *end == '/' ? end + 1 : end;
}

static bool has_session(const Seats *s, const char *id, size_t n) {
        for (size_t i = 0; i < s->n; i++)
                if (strlen(s->active[i].id) == n && memcmp(s->active[i].id, id, n) == 0)
                        return true;
        return false;
}

static bool has_user(const Seats *s, const char *digits, size_t n) {
        char uid[32];

        for (size_t i = 0; i < s->n; i++) {
                (void) snprintf(uid, sizeof(uid), "%" PRIu32, (uint32_t) s->active[i].uid);
                if (strlen(uid) == n && memcmp(uid, digits, n) == 0)
                        return true;
        }
        return false;
}

bool seats_is_active(const Seats *s, const char *cgroup) {
        const char *below, *name;
        size_t n;

        if (!s || s->n == 0 || !cgroup)
                return false;
        below = component(cgroup, "/user.slice/user-", ".slice", &name, &n);
        if (!below)
                return false;
        if (component(below, "session-", ".scope", &name, &n))
                return has_session(s, name, n);
        return component(below, "user@", ".service", &name, &n) && has_user(s, name, n);
}
