/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Wakes
 */

#include <inttypes.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <utlist.h>

#include "ahead.h"
#include "arbiter.h"
#include "numbers.h"
#include "service/base/log.h"
#include "service/base/messages.h"
#include "user.h"
#include "wakes.h"

/* Budget of a user: 10,000 looks at pages per second, and a tenth of a second's at once. An edge costs less than a
 * wake-up. */
#define WAKES_LOOK_NS (100 * NSEC_PER_USEC)
#define WAKES_EDGE_NS (5 * NSEC_PER_USEC)
#define WAKES_ROOM_NS (100 * NSEC_PER_MSEC)

#define WAKES_TICK_NS    (1 * NSEC_PER_MSEC)
#define WAKES_TICK_LOOKS 32U /* of all who are looked at by time */

/* How long a user's clients are silenced at least; twice as long each time they flood again right away. */
#define WAKES_SILENT_NS     (100 * NSEC_PER_MSEC)
#define WAKES_SILENT_MAX_NS (10 * NSEC_PER_SEC)

#define WAKES_LOG_NS (60 * NSEC_PER_SEC)

#define WAKES_EVENTS_MAX 64

/* In place of a client's id, which is never 0. */
#define WAKES_ALARM 0

/* The alarm is not set for less: a timeout costs as much. */
#define WAKES_ALARM_NS (500 * NSEC_PER_USEC)

static int control(Client *c, int operation, uint32_t events) {
        struct epoll_event e = {.events = events, .data.u64 = c->id};

        return epoll_ctl(c->manager->wakes.epoll, operation, c->wake, &e) < 0 ? negative_errno() : 0;
}

/* --- floods --- */

static void tick_arm(Manager *m, uint64_t now) {
        (void) sd_event_source_set_time(m->wakes.timer, DIV_ROUND_UP(now + WAKES_TICK_NS, NSEC_PER_USEC));
        (void) sd_event_source_set_enabled(m->wakes.timer, SD_EVENT_ONESHOT);
}

static void flood_begin(Manager *m, User *u, uint64_t now) {
        Wakes *w = &m->wakes;

        bool again = ns_sub(now, u->flood_ended_at) < 10 * WAKES_SILENT_NS && u->silent_ns > 0;
        u->silent_ns = again ? MIN(u->silent_ns * 2, WAKES_SILENT_MAX_NS) : WAKES_SILENT_NS;
        u->silent_until = now + u->silent_ns;
        if (!again && ns_sub(now, u->flood_logged_at) > WAKES_LOG_NS) {
                log_event(LOG_NOTICE, MESSAGE_QUOTA, LOG_FIELDS(.error = 0),
                                "Clients of user %u make more edges than a user's budget is for: "
                                "they are looked at every %" PRIu64 " ms for now",
                                (unsigned) u->uid, WAKES_TICK_NS / NSEC_PER_MSEC);
                u->flood_logged_at = now;
        }
        if (!w->flooded)
                tick_arm(m, now);
        u->flooded = true;
        w->n_flooded++;
        DL_APPEND2(w->flooded, u, flooded_prev, flooded_next);
}

static void flood_end(Manager *m, User *u, uint64_t now) {
        DL_DELETE2(m->wakes.flooded, u, flooded_prev, flooded_next);
        m->wakes.n_flooded--;
        u->flooded = false;
        u->flood_ended_at = now;
}

static void client_silence(Client *c) {
        if (c->silent)
                return;
        c->silent = true;
        (void) control(c, EPOLL_CTL_MOD, EPOLLET);
        DL_APPEND2(c->user->silent, c, silent_prev, silent_next);
}

static void client_unlist(Client *c) {
        if (!c->silent)
                return;
        c->silent = false;
        DL_DELETE2(c->user->silent, c, silent_prev, silent_next);
}

/* Listening to an eventfd again reports writes in the meantime at once, because its counter is never read. */
static void user_listen(User *u) {
        while (u->silent) {
                Client *c = u->silent;
                client_unlist(c);
                (void) control(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLET);
        }
}

/* --- looking --- */

/* A client that is looked at by time costs nothing when it has no edge: so a flood ends. */
static void look(Client *c, uint64_t now) {
        User *u = c->user;
        unsigned n = arbiter_client_woke(c);

        if (n == 0 && u->flooded)
                return;
        uint64_t cost = WAKES_LOOK_NS + n * WAKES_EDGE_NS;
        bucket_take(u->budgets + USER_EDGES, now, u->flooded ? cost * c->manager->wakes.n_flooded : cost);
}

/* Looks at each silenced client at most once, while there is credit; a client that was looked at goes to the end of the
 * list. */
static void user_look(User *u, unsigned n, uint64_t now) {
        const Client *first = u->silent;

        while (n-- > 0 && bucket_has_credit(u->budgets + USER_EDGES, now, WAKES_ROOM_NS)) {
                Client *c = u->silent;
                DL_DELETE2(u->silent, c, silent_prev, silent_next);
                DL_APPEND2(u->silent, c, silent_prev, silent_next);
                look(c, now);
                if (u->silent == first)
                        break;
        }
}

static int on_tick(sd_event_source *s, uint64_t usec, void *userdata) {
        Manager *m = userdata;
        uint64_t now = now_ns();
        User *u, *tmp;

        unsigned each = DIV_ROUND_UP(WAKES_TICK_LOOKS, MAX(m->wakes.n_flooded, 1U));
        DL_FOREACH_SAFE2(m->wakes.flooded, u, tmp, flooded_next) {
                user_look(u, each, now);
                if (now < u->silent_until || !bucket_is_empty(u->budgets + USER_EDGES, now))
                        continue;
                flood_end(m, u, now);
                user_listen(u);
        }
        if (m->wakes.flooded)
                tick_arm(m, now);
        return 0;
}

static void woke(Client *c, uint64_t now) {
        User *u = c->user;

        if (c->silent)
                return; /* the event was reported before the client was silenced */
        if (!u->flooded && !bucket_has_credit(u->budgets + USER_EDGES, now, WAKES_ROOM_NS))
                flood_begin(c->manager, u, now);
        if (u->flooded)
                client_silence(c);
        else
                look(c, now);
}

static unsigned hear(Manager *m, const struct epoll_event *events, int n) {
        uint64_t now = now_ns();
        unsigned n_woke = 0;

        m->wakes.looked_at = now;
        if (n <= 0)
                return 0;
        ahead_fetch(m, events[0].data.u64);
        for (int i = 0; i < n; i++) {
                if (i + 1 < n)
                        ahead_fetch(m, events[i + 1].data.u64);
                if (events[i].data.u64 == WAKES_ALARM) {
                        m->wakes.alarm_at = NSEC_INFINITY;
                        continue;
                }
                Client *c = client_find(m, events[i].data.u64);
                if (c) /* NULL: another process may still have a copy of a freed client's eventfd */
                        woke(c, now);
                n_woke++;
        }
        if (n_woke > 0)
                turn_due(m);
        return n_woke;
}

unsigned wakes_turn(Manager *m) {
        struct epoll_event events[WAKES_EVENTS_MAX];

        return hear(m, events, epoll_wait(m->wakes.epoll, events, WAKES_EVENTS_MAX, 0));
}

/* Returns whether the alarm rings by then. One that is on is set again only to ring earlier, so it may ring too early.
 */
static bool set_alarm(Wakes *w, uint64_t now, uint64_t at) {
        const struct itimerspec t = {.it_value = ns_to_timespec(ns_sub(at, now))};

        if (w->alarm_at <= at)
                return true;
        if (at - now < WAKES_ALARM_NS || timerfd_settime(w->alarm, 0, &t, NULL) < 0)
                return false;
        w->alarm_at = at;
        return true;
}

/* The same by two system calls, for kernels before 5.11, and where the service may not make the other one. */
static int sleep_in_poll(Manager *m, const struct timespec *timeout, unsigned *ret_n_woke) {
        struct pollfd fd = {.fd = m->wakes.epoll, .events = POLLIN};

        if (ppoll(&fd, 1, timeout, NULL) < 0)
                return errno == EINTR ? 0 : negative_errno();
        *ret_n_woke = fd.revents != 0 ? wakes_turn(m) : 0;
        return 0;
}

int wakes_sleep(Manager *m, uint64_t now, uint64_t until, unsigned *ret_n_woke) {
        const struct timespec timeout = ns_to_timespec(ns_sub(until, now));
        bool rings = until > now && set_alarm(&m->wakes, now, until);
        struct epoll_event events[WAKES_EVENTS_MAX];

        if (m->wakes.polls)
                return sleep_in_poll(m, &timeout, ret_n_woke);
        int n = epoll_pwait2(m->wakes.epoll, events, WAKES_EVENTS_MAX, rings ? NULL : &timeout, NULL);
        if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
                m->wakes.polls = true;
                return sleep_in_poll(m, &timeout, ret_n_woke);
        }
        if (n < 0)
                return errno == EINTR ? 0 : negative_errno();
        *ret_n_woke = hear(m, events, n);
        return 0;
}

/* --- life --- */

int wakes_init(Manager *m, void (*on_look)(Manager *m)) {
        m->wakes.look = on_look;
        m->wakes.epoll = epoll_create1(EPOLL_CLOEXEC);
        m->wakes.alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (m->wakes.epoll < 0 || m->wakes.alarm < 0)
                return negative_errno();
        struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKES_ALARM};
        if (epoll_ctl(m->wakes.epoll, EPOLL_CTL_ADD, m->wakes.alarm, &e) < 0)
                return negative_errno();
        int r = sd_event_add_time(m->event, &m->wakes.timer, CLOCK_MONOTONIC, UINT64_MAX, 1, on_tick, m);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(m->wakes.timer, "wakes");
        (void) sd_event_source_set_priority(m->wakes.timer, PRIORITY_EDGES);
        return sd_event_source_set_enabled(m->wakes.timer, SD_EVENT_OFF);
}

void wakes_done(Manager *m) {
        m->wakes.timer = sd_event_source_disable_unref(m->wakes.timer);
        m->wakes.epoll = safe_close(m->wakes.epoll);
        m->wakes.alarm = safe_close(m->wakes.alarm);
}

int wakes_add(Client *c) {
        int r = control(c, EPOLL_CTL_ADD, EPOLLIN | EPOLLET);

        c->watched = r >= 0;
        return r;
}

void wakes_forget(Client *c) {
        if (!c->watched)
                return;
        c->watched = false;
        (void) control(c, EPOLL_CTL_MOD, EPOLLET);
        client_unlist(c);
        if (c->user->flooded && !c->user->silent)
                flood_end(c->manager, c->user, now_ns());
}
