/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Relays
 *
 * After an event of either end, both directions are tried until neither moves. Events are edges: while a message is
 * incomplete, or the other end does not read, the pair is left alone until something changes. Users take turns, and so
 * do the pairs of one user.
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <uthash.h>
#include <utlist.h>

#include "common/bucket.h"
#include "common/dbus-prefix.h"
#include "common/fd-message.h"
#include "common/macro.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "ends.h"
#include "relay.h"
#include "short-slice.h"

#define EVENTS_MAX  64
#define FDS_OUT_MAX 16U
/* While so much is on its way to the service, no more is sent to it. */
#define UNTAKEN_MAX (4 << 10)
#define BEGIN       "BEGIN\r\n"
/* Messages that a pair relays in one direction before others have a turn. */
#define TURN_MAX 16U

typedef enum End {
        END_GUEST,
        END_SERVICE,
        _END_MAX,
} End;

typedef struct Pair Pair;

/* A user with pairs in this relay, or with a debt. */
typedef struct Lane {
        uid_t user;
        unsigned n_pairs;
        Pair *ready;   /* list: the next first */
        bool is_ready; /* is in Relay.ready */
        Bucket slow;
        struct Lane *prev, *next;
        UT_hash_handle hh;
} Lane;

struct Pair {
        int fds[_END_MAX];
        uid_t user;
        Lane *lane;    /* NULL until it has come */
        size_t n_auth; /* bytes of the authentication so far */
        bool begins;   /* what is taken next ends with BEGIN */
        bool begun;    /* BEGIN was taken: messages follow */
        bool is_ready, hung_up;
        bool ended, barred;
        Pair *prev, *next;
        Pair *ready_prev, *ready_next;
};

struct Relay {
        relay_gone_t gone;
        void *userdata;
        int epoll, add[2]; /* pipe: pairs that are new */
        Pair *pairs, *ended;
        Lane *lanes; /* uthash, by user */
        Lane *ready; /* list: the user of the next turn is the first */
        bool stopped;
};

/* --- turns --- */

static void lanes_gc(Relay *r, bool all) {
        uint64_t now = now_ns();
        Lane *l, *tmp;

        HASH_ITER(hh, r->lanes, l, tmp) {
                if (l->n_pairs > 0 || (!all && !bucket_is_empty(&l->slow, now)))
                        continue;
                HASH_DEL(r->lanes, l);
                free(l);
        }
}

static Lane *lane_get(Relay *r, uid_t user) {
        Lane *l;

        HASH_FIND(hh, r->lanes, &user, sizeof(user), l);
        if (l)
                return l;
        lanes_gc(r, false);
        l = calloc(1, sizeof(*l));
        if (!l)
                return NULL;
        l->user = user;
        HASH_ADD(hh, r->lanes, user, sizeof(l->user), l);
        return l;
}

/* Puts the pair behind the user's others, and the user behind the others. */
static void pair_ready(Relay *r, Pair *p) {
        if (p->is_ready || p->ended)
                return;
        p->is_ready = true;
        DL_APPEND2(p->lane->ready, p, ready_prev, ready_next);
        if (p->lane->is_ready)
                return;
        p->lane->is_ready = true;
        DL_APPEND(r->ready, p->lane);
}

static void pair_unready(Relay *r, Pair *p) {
        if (!p->is_ready)
                return;
        p->is_ready = false;
        DL_DELETE2(p->lane->ready, p, ready_prev, ready_next);
        if (p->lane->ready)
                return;
        p->lane->is_ready = false;
        DL_DELETE(r->ready, p->lane);
}

/* --- ends --- */

static void pair_free(const Relay *r, Pair *p) {
        /* Removes the fds from epoll now: they are closed later, and must not wake the relay until then. */
        for (End e = 0; e < _END_MAX; e++)
                (void) epoll_ctl(r->epoll, EPOLL_CTL_DEL, p->fds[e], NULL);
        (void) shutdown(p->fds[END_GUEST], SHUT_RDWR);
        (void) end_is_drained(p->fds[END_GUEST], &p->barred);
        end_close(p->fds[END_GUEST], p->user);
        safe_close(p->fds[END_SERVICE]);
}

static void pair_end(Relay *r, Pair *p, bool barred) {
        p->barred |= barred;
        if (p->ended)
                return;
        pair_unready(r, p);
        p->ended = true;
        DL_DELETE(r->pairs, p); /* NOLINT(clang-analyzer-core.NullDereference): p is one of them */
        DL_APPEND(r->ended, p);
}

/* Called between events, because a later event of the same turn may name an ended pair. */
static void free_ended(Relay *r) {
        Pair *p, *tmp;

        DL_FOREACH_SAFE(r->ended, p, tmp) {
                DL_DELETE(r->ended, p);
                pair_free(r, p);
                if (p->lane)
                        p->lane->n_pairs--;
                r->gone(p->user, p->barred, r->userdata);
                free(p);
        }
}

/* --- from the guest --- */

/* The authentication is a zero byte, then lines that end with "\r\n", and "BEGIN" is the last. Returns the length of
 * the complete lines; 0: there is none. */
static ssize_t lines_size(Pair *p, const char *data, size_t n) {
        size_t size = 0;
        const char *end;

        if (p->n_auth == 0 && data[size++] != '\0')
                return -EPROTO;
        p->begins = false;
        while (!p->begins && (end = memmem(data + size, n - size, "\r\n", 2))) {
                p->begins = n - size >= strlen(BEGIN) && memcmp(data + size, BEGIN, strlen(BEGIN)) == 0;
                size = (size_t) (end + 2 - data);
        }
        if (size > 0)
                return (ssize_t) size;
        return p->n_auth + n >= RELAY_AUTH_MAX ? -EPROTO : 0;
}

/* Returns the length of a D-Bus message, by its first bytes. */
static ssize_t message_size(const uint8_t *data, size_t n) {
        if (n < 1)
                return 0;
        if (!dbus_prefix_has_order(data))
                return -EPROTO;
        if (n < DBUS_PREFIX_SIZE)
                return 0;
        uint64_t size = dbus_prefix_message_size(data);
        return size > SSIZE_MAX ? -EMSGSIZE : (ssize_t) size;
}

/* Returns the size of the guest's next message or lines; 0: it is not complete yet. */
static ssize_t guest_size(Pair *p) {
        char data[RELAY_AUTH_MAX];
        int there = 0;
        ssize_t n = end_peek(p->fds[END_GUEST], data, p->begun ? DBUS_PREFIX_SIZE : sizeof(data));

        if (n < 0)
                return n == -EAGAIN || n == -EINTR ? 0 : n;
        if (n == 0)
                return -ECONNRESET;
        ssize_t size = p->begun ? message_size((const uint8_t *) data, (size_t) n) : lines_size(p, data, (size_t) n);
        if (size > (ssize_t) RELAY_MESSAGE_MAX)
                return -EMSGSIZE;
        if (size <= 0)
                return size;
        if (ioctl(p->fds[END_GUEST], SIOCINQ, &there) < 0)
                return negative_errno();
        return there < size ? 0 : size;
}

static bool has_room(int fd, int most) {
        int unread = 0;

        return ioctl(fd, SIOCOUTQ, &unread) >= 0 && unread <= most;
}

/* Returns > 0 when there may be more. */
static int take_from_guest(Pair *p) {
        char data[RELAY_MESSAGE_MAX];

        if (!has_room(p->fds[END_SERVICE], UNTAKEN_MAX))
                return 0;
        ssize_t size = guest_size(p);
        if (size <= 0)
                return (int) size;
        /* The whole message is peeked at before it is taken: what was peeked at has no descriptors. */
        ssize_t seen = end_peek(p->fds[END_GUEST], data, (size_t) size);
        if (seen != size || recv(p->fds[END_GUEST], data, (size_t) size, MSG_DONTWAIT) != size)
                return seen < 0 ? (int) seen : -EPROTO;
        size_t n = (size_t) size;
        if (!p->begun) {
                p->n_auth += n;
                p->begun = p->begins;
                if (p->n_auth > RELAY_AUTH_MAX)
                        return -EPROTO;
        }
        return send(p->fds[END_SERVICE], data, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t) n ? 1 : -EPIPE;
}

/* --- to the guest --- */

/* Returns how much of the service's data may be sent in one piece. That ends with a message: the guest would get the
 * next one's descriptors with this one. */
static ssize_t service_size(const Pair *p) {
        char data[RELAY_AUTH_MAX];
        ssize_t n = recv(p->fds[END_SERVICE], data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : negative_errno();
        if (n == 0)
                return -ECONNRESET;
        if (dbus_prefix_has_order((const uint8_t *) data))
                return message_size((const uint8_t *) data, (size_t) n);
        ssize_t size = 0;
        const char *end;
        while (size < n && !dbus_prefix_has_order((const uint8_t *) data + size) &&
                        (end = memchr(data + size, '\n', (size_t) (n - size))))
                size = end + 1 - data;
        return size > 0 ? size : n;
}

static int send_with_fds(int fd, void *data, size_t size, const struct msghdr *from) {
        struct iovec part = {.iov_base = data, .iov_len = size};
        struct msghdr h = fd_message(&part, from->msg_control, from->msg_controllen);

        return sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t) size ? 1 : -EPIPE;
}

/* The guest has its own copy now. If it has gone already, this is the last copy, and its close walks past all
 * waiters. */
static void close_sent(int *fd, void *userdata) {
        const Pair *p = userdata;

        end_close(*fd, p->user);
}

static int give_to_guest(Pair *p) {
        FD_MESSAGE_SPACE(FDS_OUT_MAX) control;
        uint8_t data[RELAY_MESSAGE_MAX];
        struct iovec part = {.iov_base = data};
        struct msghdr h = fd_message(&part, &control, sizeof(control));

        if (!has_room(p->fds[END_GUEST], RELAY_UNREAD_MAX))
                return 0;
        ssize_t size = service_size(p);
        if (size <= 0)
                return (int) size;
        if (size > (ssize_t) sizeof(data))
                return -EMSGSIZE;
        part.iov_len = (size_t) size;
        ssize_t n = recvmsg(p->fds[END_SERVICE], &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n <= 0)
                return n < 0 ? negative_errno() : -ECONNRESET;
        int r = n == size ? send_with_fds(p->fds[END_GUEST], data, (size_t) n, &h) : -EPROTO;
        fd_message_each(&h, close_sent, p);
        return r;
}

/* --- turns --- */

static uint64_t cpu_time_ns(void) {
        struct timespec ts = {0};

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return timespec_to_ns(&ts);
}

/* Relays until neither direction moves, or until TURN_MAX. Returns > 0 when the pair wants another turn. Adds the
 * messages to *n. */
static int pair_relay(Pair *p, unsigned *n) {
        int in = 1, out = 1;

        for (unsigned i = 0; i < TURN_MAX && (in > 0 || out > 0); i++) {
                /* The last answer of a service that refuses a message and hangs up is still delivered. */
                out = give_to_guest(p);
                if (out < 0)
                        return out;
                in = take_from_guest(p);
                if (in < 0)
                        return in;
                *n += (unsigned) (in + out);
        }
        return in > 0 || out > 0;
}

static int watch(Relay *r, Pair *p, End end) {
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = p};

        return epoll_ctl(r->epoll, EPOLL_CTL_ADD, p->fds[end], &e) < 0 ? negative_errno() : 0;
}

/* Cuts off all pairs of the user: each further call would take as long. */
static void cut_off(Relay *r, const Lane *l) {
        Pair *p, *tmp;

        DL_FOREACH_SAFE(r->pairs, p, tmp)
                if (p->lane == l)
                        pair_end(r, p, true);
}

/* Charges the turn to the user. Returns whether the user's turns have taken too long. */
static bool lane_is_slow(Lane *l, uint64_t took, unsigned n_messages) {
        uint64_t fair = RELAY_FAIR_NS * (1 + (uint64_t) n_messages), now = now_ns();

        if (took <= fair)
                return false;
        bucket_take(&l->slow, now, (took - fair) * RELAY_SLOW_COST);
        return took > RELAY_SLOW_NS || !bucket_has_credit(&l->slow, now, RELAY_SLOW_NS * RELAY_SLOW_COST);
}

/* Gives a turn to the next user. */
static void turn(Relay *r) {
        Lane *l = r->ready;
        Pair *p = l->ready;
        unsigned n = 0;

        DL_DELETE(r->ready, l); /* NOLINT(clang-analyzer-core.NullDereference): l is one of them */
        DL_APPEND(r->ready, l);
        pair_unready(r, p);
        uint64_t before = cpu_time_ns();
        int more = pair_relay(p, &n);
        bool slow = lane_is_slow(l, cpu_time_ns() - before, n);
        if (more < 0 || p->hung_up)
                pair_end(r, p, more == -EBADMSG);
        else if (more > 0)
                pair_ready(r, p);
        if (slow || p->barred)
                cut_off(r, l);
}

static void pair_come(Relay *r, Pair *p) {
        DL_APPEND(r->pairs, p);
        p->lane = lane_get(r, p->user);
        if (p->lane)
                p->lane->n_pairs++;
        if (!p->lane || watch(r, p, END_SERVICE) < 0 || watch(r, p, END_GUEST) < 0)
                pair_end(r, p, false);
}

static void take_new(Relay *r) {
        Pair *p;

        while (read(r->add[0], &p, sizeof(p)) == sizeof(p)) {
                if (!p) {
                        r->stopped = true;
                        return;
                }
                pair_come(r, p);
        }
}

/* --- life --- */

static void relay_end(Relay *r) {
        Pair *p, *tmp;

        DL_FOREACH_SAFE(r->pairs, p, tmp)
                pair_end(r, p, false);
        free_ended(r);
        lanes_gc(r, true);
        r->gone(UID_NONE, false, r->userdata);
        safe_close(r->epoll);
        safe_close(r->add[0]);
        safe_close(r->add[1]);
        free(r);
}

static void note(Relay *r, const struct epoll_event *e, int n) {
        for (int i = 0; i < n; i++) {
                Pair *p = e[i].data.ptr;

                if (!p) {
                        take_new(r);
                        continue;
                }
                p->hung_up |= (e[i].events & (EPOLLHUP | EPOLLERR)) != 0;
                pair_ready(r, p);
        }
}

static void *relay_main(void *userdata) {
        struct epoll_event events[EVENTS_MAX];
        Relay *r = userdata;

        (void) pthread_setname_np(pthread_self(), "relay");
        (void) short_slice_set();
        for (;;) {
                int n = epoll_wait(r->epoll, events, EVENTS_MAX, r->ready ? 0 : -1);

                note(r, events, n);
                if (r->ready)
                        turn(r);
                free_ended(r);
                if (r->stopped) {
                        relay_end(r);
                        return NULL;
                }
        }
}

int relay_new(relay_gone_t gone, void *userdata, Relay **ret) {
        struct epoll_event e = {.events = EPOLLIN};
        Relay *r = malloc(sizeof(*r));

        if (!r)
                return -ENOMEM;
        *r = (Relay){.gone = gone, .userdata = userdata, .epoll = -EBADF, .add = {-EBADF, -EBADF}};
        r->epoll = epoll_create1(EPOLL_CLOEXEC);
        int error = r->epoll < 0 || pipe2(r->add, O_CLOEXEC | O_NONBLOCK) < 0 ||
                                        epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->add[0], &e) < 0
                        ? negative_errno()
                        : thread_start(relay_main, r, 0);
        if (error < 0) {
                safe_close(r->epoll);
                safe_close(r->add[0]);
                safe_close(r->add[1]);
                free(r);
                return error;
        }
        *ret = r;
        return 0;
}

int relay_add(Relay *r, int guest, int service, uid_t user) {
        Pair *p = malloc(sizeof(*p));

        if (!p)
                return -ENOMEM;
        *p = (Pair){.fds = {[END_GUEST] = guest, [END_SERVICE] = service}, .user = user};
        if (write(r->add[1], &p, sizeof(p)) == sizeof(p))
                return 0;
        free(p);
        return -EAGAIN;
}

void relay_stop(Relay *r) {
        Pair *none = NULL;
        struct pollfd p = {.fd = r->add[1], .events = POLLOUT};

        /* After this write the relay belongs to its thread, and may be freed. */
        while (write(p.fd, &none, sizeof(none)) < 0 && (errno == EAGAIN || errno == EINTR))
                (void) poll(&p, 1, -1);
}
