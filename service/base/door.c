/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The door
 *
 * The thread that lets in, the relays, and the service share the counts, under a lock. The last of them frees the door:
 * the service waits for none of the others.
 */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <uthash.h>

#include "bans.h"
#include "common/bucket.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "door.h"
#include "ends.h"
#include "log.h"
#include "messages.h"
#include "relay.h"
#include "short-slice.h"

#ifndef SO_PEERPIDFD
#        define SO_PEERPIDFD 77
#endif

#define RELAYS_MAX 4U
/* With so many before it a program waits for a moment (DBUS_CONNECT_WAIT_US), and then goes to the bus. */
#define BACKLOG 128
/* The kernel doubles it. */
#define PAIR_BUFFER     (4 << 10)
#define NO_ROOM_WAIT_MS 10

/* A user who is connected, or who has to wait for something. */
typedef struct Visitor {
        uid_t user;
        unsigned n;
        Bucket rate;
        Bucket refused;
        uint64_t barred_until;
        UT_hash_handle hh;
} Visitor;

struct Door {
        pthread_mutex_t lock;
        unsigned n_refs; /* references of the service, the thread and each relay */
        bool closed;
        int fd, come[2]; /* pipe: guests */
        door_user_t user;
        void *userdata;
        unsigned guests_max, n_guests;
        Visitor *visitors; /* uthash, by user */
        Relay *relays[RELAYS_MAX];
        Bans bans; /* the thread's */
};

void door_guest_done(DoorGuest *g) {
        g->fd = safe_close(g->fd);
        g->pidfd = safe_close(g->pidfd);
}

/* --- who is in --- */

static uid_t user_of_uid(Door *d, uid_t uid) {
        (void) pthread_mutex_lock(&d->lock);
        uid_t user = d->user && !d->closed ? d->user(uid, d->userdata) : uid;
        (void) pthread_mutex_unlock(&d->lock);
        return user;
}

static unsigned places_each(const Door *d) {
        return DIV_ROUND_UP(d->guests_max, 8);
}

static Visitor *visitor_find(Door *d, uid_t user) {
        Visitor *v;

        HASH_FIND(hh, d->visitors, &user, sizeof(user), v);
        return v;
}

static void visitor_gc(Door *d, Visitor *v, uint64_t now) {
        if (v->n > 0 || !bucket_is_empty(&v->rate, now) || !bucket_is_empty(&v->refused, now) || v->barred_until > now)
                return;
        HASH_DEL(d->visitors, v);
        free(v);
}

/* Frees the oldest visitors without connections when there are more of them than there may be guests: they are kept
 * only to remember what they have used. */
static void visitors_trim(Door *d, uint64_t now) {
        Visitor *v, *tmp;
        unsigned n = 0;

        if (HASH_COUNT(d->visitors) <= d->guests_max)
                return;
        HASH_ITER(hh, d->visitors, v, tmp) {
                visitor_gc(d, v, now);
                if (++n == 64)
                        return;
        }
}

static Visitor *visitor_get(Door *d, uid_t user) {
        Visitor *v = visitor_find(d, user);

        if (v || HASH_COUNT(d->visitors) >= 2 * d->guests_max)
                return v;
        v = calloc(1, sizeof(*v));
        if (!v)
                return NULL;
        v->user = user;
        HASH_ADD(hh, d->visitors, user, sizeof(v->user), v);
        return v;
}

/* Takes a place for one more. Returns whether there is one. */
static bool take_place(Door *d, uid_t user) {
        uint64_t now = now_ns();
        bool room = false;

        (void) pthread_mutex_lock(&d->lock);
        visitors_trim(d, now);
        Visitor *v = visitor_get(d, user);
        if (v && d->n_guests < d->guests_max && v->n < places_each(d) && v->barred_until <= now &&
                        bucket_has_credit(&v->rate, now, DOOR_ROOM * DOOR_COST_NS)) {
                bucket_take(&v->rate, now, DOOR_COST_NS);
                v->n++;
                d->n_guests++;
                room = true;
        }
        (void) pthread_mutex_unlock(&d->lock);
        return room;
}

static void give_place(Door *d, uid_t user, bool barred) {
        uint64_t now = now_ns();

        (void) pthread_mutex_lock(&d->lock);
        Visitor *v = visitor_find(d, user);
        if (v) {
                v->n--;
                d->n_guests--;
                if (barred)
                        v->barred_until = now + DOOR_BARRED_NS;
                visitor_gc(d, v, now);
        }
        (void) pthread_mutex_unlock(&d->lock);
}

static void bar(Door *d, uid_t user) {
        uint64_t now = now_ns();

        (void) pthread_mutex_lock(&d->lock);
        Visitor *v = visitor_get(d, user);
        if (v)
                v->barred_until = now + DOOR_BARRED_NS;
        (void) pthread_mutex_unlock(&d->lock);
}

static bool is_barred(Door *d, uid_t user) {
        (void) pthread_mutex_lock(&d->lock);
        const Visitor *v = visitor_find(d, user);
        bool barred = v && v->barred_until > now_ns();
        (void) pthread_mutex_unlock(&d->lock);
        return barred;
}

static void take_rate(Door *d, uid_t user, uint64_t now, uint64_t cost_ns) {
        (void) pthread_mutex_lock(&d->lock);
        Visitor *v = visitor_find(d, user);
        if (v)
                bucket_take(&v->rate, now, cost_ns);
        (void) pthread_mutex_unlock(&d->lock);
}

/* Counts one that was not let in. Returns whether the user has had too many. */
static bool take_refusal(Door *d, uid_t user) {
        uint64_t now = now_ns();

        (void) pthread_mutex_lock(&d->lock);
        Visitor *v = visitor_get(d, user);
        if (v)
                bucket_take(&v->refused, now, DOOR_REFUSED_COST_NS);
        bool many = v && !bucket_has_credit(&v->refused, now, DOOR_REFUSED_ROOM * DOOR_REFUSED_COST_NS);
        (void) pthread_mutex_unlock(&d->lock);
        return many;
}

/* --- the last one --- */

static void door_unref(Door *d) {
        Visitor *v, *tmp;

        (void) pthread_mutex_lock(&d->lock);
        bool last = --d->n_refs == 0;
        (void) pthread_mutex_unlock(&d->lock);
        if (!last)
                return;
        HASH_ITER(hh, d->visitors, v, tmp) {
                HASH_DEL(d->visitors, v);
                free(v);
        }
        bans_done(&d->bans);
        safe_close(d->fd);
        safe_close(d->come[0]);
        safe_close(d->come[1]);
        (void) pthread_mutex_destroy(&d->lock);
        free(d);
}

static void on_gone(uid_t user, bool barred, void *userdata) {
        Door *d = userdata;

        if (user == UID_NONE)
                door_unref(d);
        else
                give_place(d, user, barred);
}

/* --- letting in --- */

static uint64_t boot_time_ns(void) {
        struct timespec ts = {0};

        (void) clock_gettime(CLOCK_BOOTTIME, &ts);
        return timespec_to_ns(&ts);
}

/* Returns -ESRCH when the process has gone already, or cannot be seen from here. */
static int open_process(int fd, DoorGuest *g) {
        socklen_t size = sizeof(g->pidfd);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &g->pidfd, &size) >= 0)
                return 0;
        g->pidfd = -EBADF;
        if (errno != ENOPROTOOPT)
                return negative_errno();
        if (g->pid <= 0)
                return -ESRCH;
        g->made_by = boot_time_ns();
        g->pidfd = pidfd_open(g->pid, 0);
        return g->pidfd < 0 ? negative_errno() : 0;
}

static int read_process(int fd, DoorGuest *g) {
        struct ucred u;
        socklen_t size = sizeof(u);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &size) < 0)
                return negative_errno();
        g->pid = u.pid;
        g->uid = u.uid;
        return 0;
}

/* Makes a socket pair: one end goes to the relay, one to the service. */
static int announce(Door *d, int fd, uid_t user, DoorGuest *g) {
        const int size = PAIR_BUFFER;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return negative_errno();
        (void) setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        g->fd = pair[1];
        int r = relay_add(d->relays[user % RELAYS_MAX], fd, pair[0], user);
        if (r < 0) {
                safe_close(pair[0]);
                return r;
        }
        /* From here on the relay owns the guest, and hears of its end by the pair. */
        if (write(d->come[1], g, sizeof(*g)) == sizeof(*g))
                *g = DOOR_GUEST_NULL;
        return 1;
}

static uint64_t cpu_time_ns(void) {
        struct timespec ts = {0};

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return timespec_to_ns(&ts);
}

static bool is_closed(Door *d) {
        (void) pthread_mutex_lock(&d->lock);
        bool closed = d->closed;
        (void) pthread_mutex_unlock(&d->lock);
        return closed;
}

/* While a user is banned the thread looks at the clock. Otherwise it sleeps until a guest comes. */
static void set_accept_timeout(Door *d) {
        const struct timeval t = {.tv_sec = d->bans.n > 0};

        (void) setsockopt(d->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
}

/* Bans the uid. After the ban the user has no places to take at once, and gets one after the other: otherwise each ban
 * would end with a full budget. Returns whether the uid is banned. */
static bool ban(Door *d, uid_t uid, uid_t user) {
        uint64_t now = now_ns();

        if (!bans_add(&d->bans, uid, user, now + DOOR_BANNED_NS))
                return bans_has(&d->bans, uid);
        take_rate(d, user, now, DOOR_BANNED_NS);
        set_accept_timeout(d);
        log_event(LOG_NOTICE, MESSAGE_QUOTA, LOG_FIELDS(.error = -EDQUOT),
                        "User %u has connected to the socket too often, and cannot for %u s", (unsigned) uid,
                        (unsigned) (DOOR_BANNED_NS / NSEC_PER_SEC));
        return true;
}

/* Whether more sockets of the user wait to be closed than the user may have connections. */
static bool has_many_ends(const Door *d, uid_t user) {
        return ends_left(user) > MAX(places_each(d), ENDS_HERE_MAX);
}

/* Closes a refused socket, which is mostly quick. Once that has taken long, the user is barred, and other threads close
 * the user's sockets. */
static void hang_up(Door *d, int fd, uid_t uid, uid_t user) {
        uint64_t start = cpu_time_ns();
        bool strange = false;

        (void) shutdown(fd, SHUT_RDWR);
        if (is_barred(d, user) || !end_is_drained(fd, &strange)) {
                if (strange)
                        bar(d, user);
                end_close(fd, user);
                while (has_many_ends(d, user) && !ban(d, uid, user) && !is_closed(d))
                        (void) poll(NULL, 0, NO_ROOM_WAIT_MS);
                return;
        }
        safe_close(fd);
        if (cpu_time_ns() - start > RELAY_SLOW_NS)
                bar(d, user);
}

static void end_bans(Door *d) {
        if (d->bans.n == 0)
                return;
        bans_expire(&d->bans, now_ns());
        if (d->bans.n == 0)
                set_accept_timeout(d);
}

static void refuse(Door *d, int fd, uid_t uid, uid_t user) {
        if (take_refusal(d, user))
                (void) ban(d, uid, user);
        hang_up(d, fd, uid, user);
}

/* Takes the socket. */
static void let_in(Door *d, int fd) {
        _cleanup_(door_guest_done)
        DoorGuest g = DOOR_GUEST_NULL;

        end_prepare(fd);
        int r = read_process(fd, &g);
        uid_t user = user_of_uid(d, g.uid);
        if (r < 0 || !take_place(d, user)) {
                refuse(d, fd, g.uid, user);
                return;
        }
        if (open_process(fd, &g) >= 0 && announce(d, fd, user, &g) > 0)
                return;
        give_place(d, user, false);
        refuse(d, fd, g.uid, user);
}

static void *door_main(void *userdata) {
        Door *d = userdata;

        (void) pthread_setname_np(pthread_self(), "door");
        (void) short_slice_set();
        while (!is_closed(d)) {
                end_bans(d);
                int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd >= 0)
                        let_in(d, fd);
                else if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN)
                        (void) poll(NULL, 0, NO_ROOM_WAIT_MS); /* no event tells of room, or of the error's end */
        }
        for (unsigned i = 0; i < RELAYS_MAX; i++)
                relay_stop(d->relays[i]);
        door_unref(d);
        return NULL;
}

/* --- life --- */

static int parse_address(const char *path, struct sockaddr_un *ret) {
        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        if (strlen(path) >= sizeof(ret->sun_path))
                return -ENAMETOOLONG;
        (void) snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
        return 0;
}

/* Returns -EADDRINUSE when another program listens there. */
static int clear_path(const struct sockaddr_un *a) {
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return negative_errno();
        if (connect(fd, (const struct sockaddr *) a, sizeof(*a)) >= 0 || errno == EAGAIN)
                return -EADDRINUSE;
        if (errno == ENOENT)
                return 0;
        if (errno != ECONNREFUSED)
                return negative_errno();
        return unlink(a->sun_path) < 0 && errno != ENOENT ? negative_errno() : 0;
}

int door_listen(const char *path, int *ret) {
        struct sockaddr_un a;

        int r = parse_address(path, &a);
        if (r >= 0)
                r = clear_path(&a);
        if (r < 0)
                return r;
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (const struct sockaddr *) &a, sizeof(a)) < 0)
                return negative_errno();
        /* Every user may connect; the gate decides which may register. */
        if (chmod(path, 0666) < 0 || listen(fd, BACKLOG) < 0) {
                r = negative_errno();
                (void) unlink(path);
                return r;
        }
        *ret = TAKE_FD(fd);
        return 0;
}

static int start_relays(Door *d) {
        for (unsigned i = 0; i < RELAYS_MAX; i++) {
                int r = relay_new(on_gone, d, d->relays + i);
                if (r < 0) {
                        while (i > 0)
                                relay_stop(d->relays[--i]);
                        return r;
                }
                (void) pthread_mutex_lock(&d->lock);
                d->n_refs++;
                (void) pthread_mutex_unlock(&d->lock);
        }
        return 0;
}

int door_new(int fd, unsigned guests_max, door_user_t user, void *userdata, Door **ret) {
        Door *d = malloc(sizeof(*d));

        if (!d)
                return -ENOMEM;
        *d = (Door){.n_refs = 1,
                        .fd = -EBADF,
                        .come = {-EBADF, -EBADF},
                        .bans = {.fd = -EBADF},
                        .user = user,
                        .userdata = userdata,
                        .guests_max = guests_max};
        (void) pthread_mutex_init(&d->lock, NULL);
        int r = pipe2(d->come, O_CLOEXEC | O_NONBLOCK) < 0 ? negative_errno() : start_relays(d);
        if (r < 0) {
                door_unref(d);
                return r;
        }
        d->fd = fd;
        bans_init(&d->bans, fd);
        d->n_refs++; /* of the thread */
        r = thread_start(door_main, d, 0);
        if (r < 0) {
                d->fd = -EBADF; /* still the caller's */
                for (unsigned i = 0; i < RELAYS_MAX; i++)
                        relay_stop(d->relays[i]);
                door_unref(d);
                door_unref(d);
                return r;
        }
        *ret = d;
        return 0;
}

Door *door_free(Door *d) {
        DoorGuest g;

        if (!d)
                return NULL;
        (void) pthread_mutex_lock(&d->lock);
        d->closed = true;
        (void) pthread_mutex_unlock(&d->lock);
        (void) shutdown(d->fd, SHUT_RDWR); /* wakes who lets in */
        while (door_take(d, &g) > 0)
                door_guest_done(&g);
        door_unref(d);
        return NULL;
}

int door_fd(const Door *d) {
        return d->come[0];
}

int door_take(Door *d, DoorGuest *ret) {
        ssize_t n = read(d->come[0], ret, sizeof(*ret));

        return n == sizeof(*ret) ? 1 : n < 0 && errno != EAGAIN ? negative_errno() : 0;
}
