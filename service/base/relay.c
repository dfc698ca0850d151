/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Relays
 *
 * Every event of either end has both directions tried until nothing goes any more. Events are edges: while a message is
 * not whole, or nobody takes what was sent, nothing is looked at again before something changes.
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utlist.h>

#include "common/macro.h"
#include "common/thread-util.h"
#include "common/time-util.h"
#include "relay.h"
#include "strangers.h"

#define EVENTS_MAX  64
#define FDS_IN_MAX  253U /* of one message of the kernel: SCM_MAX_FD */
#define FDS_OUT_MAX 16U
/* While so much is on its way to the service, it is not given more. */
#define UNTAKEN_MAX (4 << 10)
/* Of one direction, before others have a turn. */
#define TURN_MAX 16U

#define MESSAGE_PREFIX 16U

typedef enum End {
        END_GUEST,
        END_SERVICE,
        _END_MAX,
} End;

typedef struct Pair {
        int fds[_END_MAX];
        uid_t uid;
        size_t n_auth; /* bytes of the authentication so far */
        bool begun;    /* it has sent BEGIN: from here on there are messages */
        bool ended, barred;
        struct Pair *prev, *next;
} Pair;

struct Relay {
        relay_gone_t gone;
        void *userdata;
        int epoll, add[2]; /* pipe: pairs that are new */
        Pair *pairs, *ended;
        bool stopped;
};

/* --- ends --- */

static void pair_free(const Relay *r, Pair *p) {
        /* Its descriptor is there for a while. */
        for (End e = 0; e < _END_MAX; e++)
                (void) epoll_ctl(r->epoll, EPOLL_CTL_DEL, p->fds[e], NULL);
        /* Nobody writes to it any more: what waits there can be looked at, and may be strangers. */
        (void) shutdown(p->fds[END_GUEST], SHUT_RDWR);
        strangers_take_socket(p->fds[END_GUEST]);
        safe_close(p->fds[END_SERVICE]);
        free(p);
}

static void pair_end(Relay *r, Pair *p, bool barred) {
        p->barred |= barred;
        if (p->ended)
                return;
        p->ended = true;
        DL_DELETE(r->pairs, p); /* NOLINT(clang-analyzer-core.NullDereference): p is one of them */
        DL_APPEND(r->ended, p);
}

/* Between events: one that is ended may still be named by the next. */
static void free_ended(Relay *r) {
        Pair *p, *tmp;

        DL_FOREACH_SAFE(r->ended, p, tmp) {
                uid_t uid = p->uid;
                bool barred = p->barred;

                DL_DELETE(r->ended, p);
                pair_free(r, p);
                r->gone(uid, barred, r->userdata);
        }
}

/* --- from the guest --- */

static ssize_t receive_from_guest(Pair *p, void *data, size_t size) {
        union {
                struct cmsghdr align;
                uint8_t space[CMSG_SPACE(sizeof(int) * FDS_IN_MAX)];
        } control;
        struct iovec part = {.iov_base = data, .iov_len = size};
        struct msghdr h = {
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control),
        };
        ssize_t n = recvmsg(p->fds[END_GUEST], &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        if (n < 0)
                return negative_errno();
        if (strangers_take_all(&h) > 0 || (h.msg_flags & MSG_CTRUNC))
                p->barred = true;
        return n == 0 || p->barred ? -ECONNRESET : n;
}

/* Of the authentication: a zero, then lines that end with "\r\n". How long the next is; 0: it is not whole. */
static ssize_t line_size(const Pair *p, const char *data, size_t n) {
        if (p->n_auth == 0)
                return data[0] == '\0' ? 1 : -EPROTO;
        const char *end = memmem(data, n, "\r\n", 2);
        if (end)
                return end + 2 - data;
        return p->n_auth + n >= RELAY_AUTH_MAX ? -EPROTO : 0;
}

static uint32_t read_u32(const uint8_t *p, bool big) {
        return big ? (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3]
                   : (uint32_t) p[3] << 24 | (uint32_t) p[2] << 16 | (uint32_t) p[1] << 8 | p[0];
}

/* Of a message of D-Bus, by its first bytes. */
static ssize_t message_size(const uint8_t *data, size_t n) {
        if (n < 1)
                return 0;
        bool big = data[0] == 'B';
        if (!big && data[0] != 'l')
                return -EPROTO;
        if (n < MESSAGE_PREFIX)
                return 0;
        uint64_t body = read_u32(data + 4, big), fields = read_u32(data + 12, big);
        uint64_t size = MESSAGE_PREFIX + DIV_ROUND_UP(fields, 8) * 8 + body;
        return size > SSIZE_MAX ? -EMSGSIZE : (ssize_t) size;
}

/* What is next of the guest: how many bytes belong together; 0: they are not all there. */
static ssize_t guest_size(const Pair *p) {
        char data[RELAY_AUTH_MAX];
        int there = 0;
        ssize_t n = recv(p->fds[END_GUEST], data, p->begun ? MESSAGE_PREFIX : sizeof(data),
                        MSG_PEEK | MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : negative_errno();
        if (n == 0)
                return -ECONNRESET;
        ssize_t size = p->begun ? message_size((const uint8_t *) data, (size_t) n)
                                : line_size(p, data, (size_t) n);
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

/* > 0: there may be more. */
static int take_from_guest(Pair *p) {
        char data[RELAY_MESSAGE_MAX];
        size_t n = 0;

        if (!has_room(p->fds[END_SERVICE], UNTAKEN_MAX))
                return 0;
        ssize_t size = guest_size(p);
        if (size <= 0)
                return (int) size;
        while (n < (size_t) size) {
                ssize_t got = receive_from_guest(p, data + n, (size_t) size - n);
                if (got < 0)
                        return (int) got;
                n += (size_t) got;
        }
        if (!p->begun) {
                p->n_auth += n;
                p->begun = n == strlen("BEGIN\r\n") && memcmp(data, "BEGIN\r\n", n) == 0;
                if (p->n_auth > RELAY_AUTH_MAX)
                        return -EPROTO;
        }
        return send(p->fds[END_SERVICE], data, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t) n ? 1 : -EPIPE;
}

/* --- to the guest --- */

/* How much of what the service has sent may go in one: nothing of the next message, whose descriptors the guest would
 * have with this one. */
static ssize_t service_size(const Pair *p) {
        char data[RELAY_AUTH_MAX];
        ssize_t n = recv(p->fds[END_SERVICE], data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : negative_errno();
        if (n == 0)
                return -ECONNRESET;
        if (data[0] == 'l' || data[0] == 'B')
                return message_size((const uint8_t *) data, (size_t) n);
        const char *end = memchr(data, '\n', (size_t) n);
        return end ? end + 1 - data : n;
}

static int send_with_fds(int fd, void *data, size_t size, struct msghdr *from) {
        struct iovec part = {.iov_base = data, .iov_len = size};
        struct msghdr h = {
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = from->msg_control,
                        .msg_controllen = from->msg_controllen,
        };

        return sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t) size ? 1 : -EPIPE;
}

static int give_to_guest(Pair *p) {
        union {
                struct cmsghdr align;
                uint8_t space[CMSG_SPACE(sizeof(int) * FDS_OUT_MAX)];
        } control;
        uint8_t data[RELAY_MESSAGE_MAX];
        struct iovec part = {.iov_base = data};
        struct msghdr h = {
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control),
        };

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
        (void) strangers_take_all(&h); /* the guest has its own now */
        return r;
}

/* --- turns --- */

static uint64_t cpu_time_ns(void) {
        struct timespec ts = {0};

        (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        return timespec_to_ns(&ts);
}

/* > 0: somebody else's turn, and then this one's again. */
static int pair_relay(Pair *p) {
        int in = 1, out = 1;

        for (unsigned i = 0; i < TURN_MAX && (in > 0 || out > 0); i++) {
                /* The last answer of a service that has refused something is not lost. */
                out = give_to_guest(p);
                if (out < 0)
                        return out;
                in = take_from_guest(p);
                if (in < 0)
                        return in;
        }
        return in > 0 || out > 0;
}

static int rearm(Relay *r, Pair *p, End end, int operation) {
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = p};

        return epoll_ctl(r->epoll, operation, p->fds[end], &e) < 0 ? negative_errno() : 0;
}

/* Of all of the same uid the next call would be as long. */
static void cut_off(Relay *r, uid_t uid) {
        Pair *p, *tmp;

        DL_FOREACH_SAFE(r->pairs, p, tmp)
                if (p->uid == uid)
                        pair_end(r, p, true);
}

static void pair_turn(Relay *r, Pair *p, bool hung_up) {
        if (p->ended)
                return;
        int more = pair_relay(p);
        if (more < 0 || hung_up || (more > 0 && rearm(r, p, END_GUEST, EPOLL_CTL_MOD) < 0))
                pair_end(r, p, false);
}

static void take_new(Relay *r) {
        Pair *p;

        while (read(r->add[0], &p, sizeof(p)) == sizeof(p)) {
                if (!p) {
                        r->stopped = true;
                        return;
                }
                DL_APPEND(r->pairs, p);
                if (rearm(r, p, END_SERVICE, EPOLL_CTL_ADD) < 0 || rearm(r, p, END_GUEST, EPOLL_CTL_ADD) < 0)
                        pair_end(r, p, false);
        }
}

/* --- life --- */

static void relay_end(Relay *r) {
        Pair *p, *tmp;

        DL_FOREACH_SAFE(r->pairs, p, tmp)
                pair_end(r, p, false);
        free_ended(r);
        r->gone((uid_t) -1, false, r->userdata);
        safe_close(r->epoll);
        safe_close(r->add[0]);
        safe_close(r->add[1]);
        free(r);
}

static void handle(Relay *r, const struct epoll_event *e, int n) {
        uint64_t now = cpu_time_ns();

        for (int i = 0; i < n; i++) {
                Pair *p = e[i].data.ptr;

                if (!p) {
                        take_new(r);
                        continue;
                }
                pair_turn(r, p, e[i].events & (EPOLLHUP | EPOLLERR));
                uint64_t before = now;
                now = cpu_time_ns();
                if (p->barred || now - before > RELAY_SLOW_NS)
                        cut_off(r, p->uid);
        }
}

static void *relay_main(void *userdata) {
        struct epoll_event events[EVENTS_MAX];
        Relay *r = userdata;

        (void) pthread_setname_np(pthread_self(), "relay");
        for (;;) {
                int n = epoll_wait(r->epoll, events, EVENTS_MAX, -1);

                handle(r, events, n);
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

int relay_add(Relay *r, int guest, int service, uid_t uid) {
        Pair *p = malloc(sizeof(*p));

        if (!p)
                return -ENOMEM;
        *p = (Pair){.fds = {[END_GUEST] = guest, [END_SERVICE] = service}, .uid = uid};
        if (write(r->add[1], &p, sizeof(p)) == sizeof(p))
                return 0;
        free(p);
        return -EAGAIN;
}

void relay_stop(Relay *r) {
        Pair *none = NULL;
        struct pollfd p = {.fd = r->add[1], .events = POLLOUT};

        /* With that the relay is its thread's, and may be gone. */
        while (write(p.fd, &none, sizeof(none)) < 0 && (errno == EAGAIN || errno == EINTR))
                (void) poll(&p, 1, -1);
}
