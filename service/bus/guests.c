/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Guests
 *
 * Each has a connection of sd-bus of its own, which is in no loop: it is processed when it is the guest's turn, message
 * by message. Its connection is made in its first turn, so that the time for that is charged to its user, too.
 */

#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <utlist.h>

#include "callers.h"
#include "calls.h"
#include "gate.h"
#include "guests.h"
#include "service/base/auth.h"
#include "service/base/door.h"
#include "service/base/log.h"
#include "service/base/subuid-file.h"
#include "service/core/user.h"

/* A fourth of all descriptors is for guests. */
#define FD_SHARE 4U
/* Guests that come in before the loop looks at everything else again. */
#define COME_MAX 16U
/* The kernel doubles it. */
#define UNREAD_SIZE_MAX (4 << 10)

typedef struct Guest {
        Guests *guests;
        int fd; /* until there is a connection */
        sd_bus *bus;
        Caller *caller;
        sd_event_source *source;
        uint64_t until; /* 0: no timeout */
        bool resumed;   /* a call of it has polkit's answer: is in Guests.resumed */
        char name[24];
        struct Guest *prev, *next;
        struct Guest *waiting_prev, *waiting_next;
        struct Guest *resumed_prev, *resumed_next;
        UT_hash_handle hh;
} Guest;

struct Guests {
        Manager *manager;
        Door *door;
        unsigned guests_max;
        uint64_t n_come;
        Guest *all, *waiting; /* lists; the latter by `until` */
        Guest *resumed;       /* list */
        Guest *connected;     /* uthash, by the connection */
        sd_event_source *come, *timer, *resume;
        char *path;
        dev_t dev;
        ino_t ino;
};

/* --- waiting --- */

static void guests_set_timer(Guests *gs) {
        if (gs->waiting)
                (void) sd_event_source_set_time(gs->timer, DIV_ROUND_UP(gs->waiting->until, NSEC_PER_USEC));
        (void) sd_event_source_set_enabled(gs->timer, gs->waiting ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static void guest_set_waited_for(Guest *g, bool waited_for) {
        Guests *gs = g->guests;

        if (waited_for == (g->until > 0))
                return;
        if (waited_for) {
                g->until = now_ns() + GUEST_WAIT_NS;
                DL_APPEND2(gs->waiting, g, waiting_prev, waiting_next);
                if (gs->waiting != g)
                        return;
        } else {
                g->until = 0;
                DL_DELETE2(gs->waiting, g, waiting_prev, waiting_next);
        }
        guests_set_timer(gs);
}

static void guest_set_resumed(Guest *g, bool resumed) {
        Guests *gs = g->guests;

        if (resumed == g->resumed)
                return;
        g->resumed = resumed;
        if (resumed)
                DL_APPEND2(gs->resumed, g, resumed_prev, resumed_next);
        else
                DL_DELETE2(gs->resumed, g, resumed_prev, resumed_next);
}

/* --- ends --- */

static void guest_free(Guest *g) {
        Guests *gs = g->guests;

        guest_set_waited_for(g, false);
        guest_set_resumed(g, false);
        sd_event_source_disable_unref(g->source);
        if (g->caller)
                caller_free_guest(g->caller);
        if (g->bus)
                HASH_DEL(gs->connected, g);
        sd_bus_close_unref(g->bus);
        safe_close(g->fd);
        DL_DELETE(gs->all, g);
        free(g);
}

static void on_ended(void *userdata) {
        guest_free(userdata);
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        Guests *gs = userdata;
        uint64_t now = now_ns();

        for (unsigned i = 0; i < COME_MAX && gs->waiting && gs->waiting->until <= now; i++)
                guest_free(gs->waiting);
        guests_set_timer(gs);
        return 0;
}

/* --- turns --- */

static uint64_t n_unwritten(const Guest *g) {
        uint64_t n = 0;

        return sd_bus_get_n_queued_write(g->bus, &n) < 0 ? 0 : n;
}

/* A guest that does not read its answers is not read from. */
static int guest_await(Guest *g) {
        bool unwritten = g->bus && n_unwritten(g) > 0;

        guest_set_waited_for(g, unwritten || !g->bus || sd_bus_is_ready(g->bus) <= 0);
        int r = sd_event_source_set_io_events(g->source, unwritten ? EPOLLOUT : EPOLLIN);
        return r < 0 ? r : sd_event_source_set_enabled(g->source, SD_EVENT_ONESHOT);
}

static int on_message(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Guest *g = userdata;
        Manager *m = g->guests->manager;

        if (sd_bus_message_is_method_call(message, NULL, NULL) <= 0)
                return 0;
        /* No bus has set the sender: a guest that names one pretends to be another. */
        if (sd_bus_message_get_sender(message))
                return sd_bus_error_set(error, SD_BUS_ERROR_ACCESS_DENIED, "A message on this socket has no sender");
        if (auth_is_waiting(m->auth, message))
                guest_set_resumed(g, false);
        return caller_answer(g->caller, message, error);
}

/* The kernel has told who the guest is; what the authentication says is ignored. */
static int guest_connect(Guest *g) {
        _cleanup_(sd_bus_close_unrefp)
        sd_bus *bus = NULL;
        const int size = UNREAD_SIZE_MAX;
        sd_id128_t id;
        int fd = g->fd;

        int r = sd_id128_randomize(&id);
        if (r >= 0)
                r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_fd(bus, fd, fd);
        if (r < 0)
                return r;
        TAKE_FD(g->fd);
        r = sd_bus_set_server(bus, 1, id);
        if (r >= 0)
                r = sd_bus_set_anonymous(bus, 1);
        if (r >= 0)
                r = sd_bus_negotiate_fds(bus, 1);
        if (r >= 0)
                r = sd_bus_add_filter(bus, NULL, on_message, g);
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r < 0)
                return r;
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        g->bus = TAKE_PTR(bus);
        HASH_ADD_PTR(g->guests->connected, bus, g);
        return 0;
}

/* Processes one message at most. */
static int guest_turn(void *userdata) {
        Guest *g = userdata;

        int r = g->bus ? 0 : guest_connect(g);
        if (r >= 0)
                r = sd_bus_process(g->bus, NULL);
        if (r < 0 || !sd_bus_is_open(g->bus))
                return r < 0 ? r : -ECONNRESET;
        if (r > 0 && n_unwritten(g) == 0)
                return 1;
        return guest_await(g);
}

static int on_ready(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        Guest *g = userdata;

        caller_is_ready(g->caller);
        return 0;
}

/* --- after polkit --- */

static void on_resumed(sd_bus *bus, void *userdata) {
        Guests *gs = userdata;
        Guest *g;

        HASH_FIND_PTR(gs->connected, &bus, g);
        if (!g)
                return;
        guest_set_resumed(g, true);
        (void) sd_event_source_set_enabled(gs->resume, SD_EVENT_ONESHOT);
}

/* Calls that polkit has decided are dispatched before other calls of their guests. */
static int on_resume(sd_event_source *s, void *userdata) {
        Guests *gs = userdata;
        Guest *g = gs->resumed;

        if (!g)
                return 0;
        for (unsigned i = 0; g->resumed && i < 4 && sd_bus_process(g->bus, NULL) > 0; i++)
                ;
        guest_set_resumed(g, false);
        caller_is_ready(g->caller);
        return gs->resumed ? sd_event_source_set_enabled(s, SD_EVENT_ONESHOT) : 0;
}

/* --- coming in --- */

static int guest_new(Guests *gs, DoorGuest *d) {
        Guest *g = calloc(1, sizeof(*g));

        if (!g)
                return -ENOMEM;
        g->guests = gs;
        g->fd = TAKE_FD(d->fd);
        DL_APPEND(gs->all, g);
        (void) snprintf(g->name, sizeof(g->name), "guest/%llu", (unsigned long long) ++gs->n_come);
        const Credentials credentials = {
                        .pid = d->pid,
                        .uid = d->uid,
                        .pidfd = d->pidfd,
                        .name = g->name,
                        .made_by = d->made_by,
        };
        int r = caller_new_guest(gs->manager->calls, &credentials, DIV_ROUND_UP(gs->guests_max, 8),
                        &(CallerGuest){guest_turn, on_ended, g}, &g->caller);
        if (r >= 0) {
                TAKE_FD(d->pidfd); /* the caller's */
                r = sd_event_add_io(gs->manager->event, &g->source, g->fd, EPOLLIN, on_ready, g);
        }
        if (r >= 0)
                r = sd_event_source_set_priority(g->source, PRIORITY_BUS);
        if (r >= 0)
                r = guest_await(g);
        if (r < 0)
                guest_free(g);
        return r;
}

static int on_come(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        Guests *gs = userdata;

        for (unsigned i = 0; i < COME_MAX; i++) {
                _cleanup_(door_guest_done)
                DoorGuest d = DOOR_GUEST_NULL;

                if (door_take(gs->door, &d) <= 0)
                        break;
                int r = guest_new(gs, &d);
                if (r < 0)
                        log_debug_errno(r, "Failed to let a process of user %u in: %m", (unsigned) d.uid);
        }
        return 0;
}

/* --- life --- */

static int add_sources(Guests *gs) {
        sd_event *event = gs->manager->event;

        int r = sd_event_add_io(event, &gs->come, door_fd(gs->door), EPOLLIN, on_come, gs);
        if (r >= 0)
                r = sd_event_source_set_priority(gs->come, PRIORITY_BUS);
        if (r >= 0)
                r = sd_event_add_time(event, &gs->timer, CLOCK_MONOTONIC, UINT64_MAX, 1, on_timer, gs);
        if (r >= 0)
                r = sd_event_source_set_enabled(gs->timer, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_defer(event, &gs->resume, on_resume, gs);
        if (r >= 0)
                r = sd_event_source_set_enabled(gs->resume, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_priority(gs->resume, PRIORITY_CALLS_DUE);
        return r;
}

static uid_t on_user(uid_t uid, void *userdata) {
        return subuid_file_user_anywhere(userdata, uid);
}

static unsigned places(void) {
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == RLIM_INFINITY)
                return 65536 / DOOR_FDS;
        return (unsigned) MIN(l.rlim_cur / FD_SHARE / DOOR_FDS, (rlim_t) 1 << 20);
}

int guests_open(Manager *m, const char *path, Guests **ret) {
        _cleanup_close_ int fd = -EBADF;
        struct stat st;

        int r = door_listen(path, &fd);
        if (r < 0)
                return r;
        Guests *gs = calloc(1, sizeof(*gs));
        if (!gs)
                return -ENOMEM;
        gs->manager = m;
        gs->guests_max = places();
        gs->path = strdup(path);
        if (!gs->path)
                r = -ENOMEM;
        if (r >= 0 && stat(path, &st) >= 0) {
                gs->dev = st.st_dev;
                gs->ino = st.st_ino;
        }
        if (r >= 0)
                r = door_new(fd, gs->guests_max, on_user, m->subuids, &gs->door);
        if (r >= 0) {
                TAKE_FD(fd);
                auth_on_resumed(m->auth, on_resumed, gs);
                r = add_sources(gs);
        }
        if (r < 0) {
                guests_free(gs);
                return r;
        }
        *ret = gs;
        return 0;
}

/* Another service may have put its own socket there. */
static void remove_socket(const Guests *gs) {
        struct stat st;

        if (gs->path && gs->ino != 0 && stat(gs->path, &st) >= 0 && st.st_dev == gs->dev && st.st_ino == gs->ino)
                (void) unlink(gs->path);
}

Guests *guests_free(Guests *gs) {
        if (!gs)
                return NULL;
        remove_socket(gs);
        auth_on_resumed(gs->manager->auth, NULL, NULL);
        sd_event_source_disable_unref(gs->come);
        gs->door = door_free(gs->door);
        while (gs->all)
                guest_free(gs->all);
        sd_event_source_disable_unref(gs->timer);
        sd_event_source_disable_unref(gs->resume);
        free(gs->path);
        free(gs);
        return NULL;
}
