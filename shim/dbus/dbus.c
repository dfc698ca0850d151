/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A connection to a message bus, or to one peer: see dbus.h
 *
 * What is sent waits in one buffer until the other side has accepted us, and whenever its socket is full. What is
 * received is read message by message, never beyond one, so that descriptors belong to the message that they came with.
 */

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "common/apart.h"
#include "common/array.h"
#include "common/bus-names.h"
#include "common/fd-message.h"
#include "common/macro.h"
#include "common/own-fd.h"
#include "common/time-util.h"
#include "shim/dbus/dbus-connect.h"
#include "shim/dbus/dbus.h"

#define BUS_TIMEOUT (25 * NSEC_PER_SEC) /* of the connection's own calls; as in libdbus */

/* Limit of the other side's answers to the authentication, which are three short lines. */
#define AUTH_SAID_MAX 512U
/* Limit of kept answers to callers that do not read them. */
#define ANSWERS_MAX ((size_t) 64 << 10)
/* Limit of what waits while the other side does not read; a process sends less than this in years. */
#define OUT_MAX ((size_t) 1 << 20)

/* A call that has no reply yet. */
typedef struct Pending {
        uint32_t serial;
        uint64_t until_ns;
        DbusHandler handler;
        void *userdata;
        struct Pending *next;
} Pending;

struct Dbus {
        int fd;
        uint64_t mark; /* of that: own-fd.h */
        int error;     /* the connection has ended with this error */

        size_t auth_sent;
        bool accepted;
        uint64_t accept_until_ns;
        char said[AUTH_SAID_MAX];
        size_t n_said;

        uint32_t serial;
        uint8_t *out;
        size_t out_size, out_allocated;
        Pending *pending;

        /* the message that is being received */
        uint8_t prefix[DBUS_PREFIX_SIZE];
        uint8_t *in; /* when its length is known */
        size_t in_at, in_size;
        int fds[DBUS_FDS_MAX];
        unsigned n_fds;
        size_t skip;     /* bytes of a message that is too long, still to be skipped */
        bool incomplete; /* there was no room for its descriptors */

        char *watched;
        void (*on_owner)(const char *owner, void *userdata);
        void *on_owner_userdata;
};

static int dbus_fail(Dbus *d, int error) {
        if (d->error == 0)
                d->error = error;
        return d->error;
}

/* --- sending --- */

static int send_some(Dbus *d, const void *data, size_t size, size_t *ret_sent) {
        ssize_t n;

        do
                n = send(d->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0 && errno != EAGAIN)
                return dbus_fail(d, negative_errno());
        *ret_sent = n < 0 ? 0 : (size_t) n;
        return 0;
}

/* Sends the authentication and then calls, without waiting for an answer to the former: a peer that refuses it hangs
 * up. */
static int dbus_flush(Dbus *d) {
        size_t n = 0;
        int r = 0;

        if (d->auth_sent < DBUS_AUTH_SIZE) {
                r = send_some(d, dbus_auth + d->auth_sent, DBUS_AUTH_SIZE - d->auth_sent, &n);
                d->auth_sent += n;
        }
        if (r >= 0 && d->auth_sent == DBUS_AUTH_SIZE && d->out_size > 0) {
                r = send_some(d, d->out, d->out_size, &n);
                d->out_size -= n;
                if (d->out_size > 0)
                        memmove(d->out, d->out + n, d->out_size);
        }
        return r;
}

/* Serial numbers are never 0. */
static int dbus_send(Dbus *d, DbusWriter *w) {
        int r = dbus_writer_seal(w, d->serial + 1);

        if (r < 0)
                return r;
        if (d->out_size + w->size > OUT_MAX)
                (void) dbus_fail(d, -ENOBUFS);
        if (d->error < 0)
                return -ENOTCONN;
        uint8_t *out = array_reserve(d->out, &d->out_allocated, MAX(d->out_size + w->size, APART_MIN), 1);
        if (!out)
                return -ENOMEM;
        d->out = out;
        memcpy(d->out + d->out_size, w->data, w->size);
        d->out_size += w->size;
        if (++d->serial == UINT32_MAX)
                d->serial = 0;
        return dbus_flush(d) < 0 ? -ENOTCONN : 0;
}

static uint32_t last_serial(const Dbus *d) {
        return d->serial == 0 ? UINT32_MAX : d->serial;
}

/* --- receiving --- */

/* The application decides how many descriptors may be open: a message whose descriptors find no room is lost, but the
 * connection is not. */
static void take_fd(int *fd, void *userdata) {
        Dbus *d = userdata;

        if (d->n_fds < DBUS_FDS_MAX) {
                d->fds[d->n_fds++] = *fd;
                return;
        }
        safe_close(*fd);
        d->incomplete = true;
}

/* Returns the number of bytes; 0: there are none now. */
static ssize_t receive_some(Dbus *d, void *data, size_t size) {
        FD_MESSAGE_SPACE(DBUS_FDS_MAX) control;
        struct iovec part = {.iov_base = data, .iov_len = size};
        struct msghdr h = fd_message(&part, &control, sizeof(control));
        ssize_t n;

        do
                n = recvmsg(d->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? 0 : dbus_fail(d, negative_errno());
        fd_message_each(&h, take_fd, d);
        if (h.msg_flags & MSG_CTRUNC)
                d->incomplete = true;
        if (n == 0)
                return dbus_fail(d, -ECONNRESET);
        return n;
}

static int receive_auth(Dbus *d) {
        if (now_ns() >= d->accept_until_ns)
                return dbus_fail(d, -ETIMEDOUT);
        if (d->n_said == sizeof(d->said))
                return dbus_fail(d, -EPROTO);
        /* Reads byte by byte and not beyond the line, because a message may follow it. */
        ssize_t n = receive_some(d, d->said + d->n_said, 1);
        if (n <= 0)
                return (int) n;
        d->n_said += (size_t) n;
        int r = dbus_auth_verify(d->said, d->n_said);
        if (r < 0)
                return dbus_fail(d, r);
        d->accepted = r > 0;
        return 1;
}

/* Begins the next message. */
static void receive_begin(Dbus *d) {
        for (unsigned i = 0; i < d->n_fds; i++)
                safe_close(d->fds[i]);
        free(TAKE_PTR(d->in));
        d->in_at = d->in_size = 0;
        d->n_fds = 0;
        d->incomplete = false;
}

/* Any process on the bus may send a message that is too long. */
static int receive_skipped(Dbus *d) {
        uint8_t scratch[4096];

        while (d->skip > 0) {
                ssize_t n = receive_some(d, scratch, MIN(d->skip, sizeof(scratch)));
                if (n <= 0)
                        return (int) n;
                d->skip -= (size_t) n;
        }
        receive_begin(d);
        return 1;
}

/* The prefix tells how long the message is. */
static int receive_sized(Dbus *d) {
        size_t size;
        int r = dbus_message_size(d->prefix, &size);

        if (r < 0)
                return dbus_fail(d, r);
        if (size > DBUS_MESSAGE_MAX)
                d->skip = size - DBUS_PREFIX_SIZE;
        else if (!(d->in = malloc_apart(size)))
                return dbus_fail(d, -ENOMEM);
        else
                memcpy(d->in, d->prefix, DBUS_PREFIX_SIZE);
        d->in_size = size;
        return 0;
}

/* Skips bytes that are no D-Bus message but have a length, because any process may send them. */
static int receive_message(Dbus *d, DbusMessage **ret) {
        while (d->skip == 0 && (d->in_size == 0 || d->in_at < d->in_size)) {
                size_t want = d->in ? d->in_size : DBUS_PREFIX_SIZE;
                ssize_t n = receive_some(d, (d->in ?: d->prefix) + d->in_at, want - d->in_at);
                if (n <= 0)
                        return (int) n;
                d->in_at += (size_t) n;
                int r = !d->in && d->in_at == DBUS_PREFIX_SIZE ? receive_sized(d) : 0;
                if (r < 0)
                        return r;
        }
        if (d->skip > 0)
                return receive_skipped(d);
        int r = d->incomplete ? -EBADMSG : dbus_message_new(d->in, d->in_size, d->fds, d->n_fds, ret);
        if (r == -ENOMEM)
                return dbus_fail(d, r);
        if (r >= 0) {
                d->in = NULL; /* the message's, as are the descriptors */
                d->n_fds = 0;
        }
        receive_begin(d);
        return 1;
}

/* --- what is received --- */

static Pending *take_pending(Dbus *d, uint32_t serial) {
        for (Pending **p = &d->pending; *p; p = &(*p)->next)
                if ((*p)->serial == serial) {
                        Pending *found = *p;
                        *p = found->next;
                        return found;
                }
        return NULL;
}

static void end_pending(Pending *p, const DbusMessage *m) {
        DbusHandler handler = p->handler;
        void *userdata = p->userdata;

        free(p);
        handler(m, userdata);
}

static void on_owner_changed(Dbus *d, const DbusMessage *m) {
        DbusReader r;

        if (!d->watched || !streq(m->sender, DRIVER_NAME) || !streq(m->interface, DRIVER_INTERFACE) ||
                        !streq(m->path, DRIVER_PATH) || !streq(m->member, "NameOwnerChanged") ||
                        !dbus_message_read(m, "sss", &r))
                return;
        const char *name = dbus_read_string(&r);
        (void) dbus_read_string(&r);
        const char *owner = dbus_read_string(&r);
        if (!r.bad && streq(name, d->watched))
                d->on_owner(owner, d->on_owner_userdata);
}

/* Answers a call with an error: this connection has no objects. */
static void refuse_call(Dbus *d, const DbusMessage *m) {
        const DbusHeader h = {
                        .type = DBUS_ERROR,
                        .flags = DBUS_NO_REPLY_EXPECTED,
                        .reply_serial = m->serial,
                        .destination = isempty(m->sender) ? NULL : m->sender,
                        .error = DRIVER_ERROR("UnknownMethod"),
                        .signature = "s",
        };
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        if ((m->flags & DBUS_NO_REPLY_EXPECTED) || d->out_size > ANSWERS_MAX)
                return;
        dbus_writer_begin(&w, &h);
        dbus_write_string(&w, "This is a client of org.xsched.Scheduler: there is nothing to be called here.");
        (void) dbus_send(d, &w); /* ignoring: nothing depends on the answer */
}

static void dbus_dispatch(Dbus *d, const DbusMessage *m) {
        Pending *p;

        switch (m->type) {
        case DBUS_METHOD_CALL:
                refuse_call(d, m);
                break;
        case DBUS_METHOD_RETURN:
        case DBUS_ERROR:
                p = take_pending(d, m->reply_serial);
                if (p)
                        end_pending(p, m);
                break;
        case DBUS_SIGNAL:
                on_owner_changed(d, m);
                break;
        default: /* a type of a later specification, which is to be ignored */
                break;
        }
}

static bool dbus_expire(Dbus *d) {
        const DbusMessage late = {
                        .type = DBUS_ERROR,
                        .error = DRIVER_ERROR("NoReply"),
                        .text = "Nobody replied in time",
                        .path = "",
                        .interface = "",
                        .member = "",
                        .sender = "",
                        .signature = "",
        };
        uint64_t now = d->pending ? now_ns() : 0;

        for (Pending *p = d->pending; p; p = p->next)
                if (now >= p->until_ns) {
                        end_pending(take_pending(d, p->serial), &late);
                        return true;
                }
        return false;
}

/* Sends what waits, and returns a received message without handling it. */
static int dbus_turn(Dbus *d, DbusMessage **ret) {
        if (d->error < 0)
                return d->error;
        if (!own_fd_is(d->fd, d->mark))
                return dbus_fail(d, -ENOTCONN);
        int r = dbus_flush(d);
        if (r < 0)
                return r;
        return d->accepted ? receive_message(d, ret) : receive_auth(d);
}

int dbus_process(Dbus *d) {
        DbusMessage *m = NULL;
        int r = dbus_turn(d, &m);

        if (r < 0)
                return r;
        if (m) {
                dbus_dispatch(d, m);
                (void) dbus_message_free(m);
        }
        /* Timeouts are handled first, so that a flood of messages cannot delay them. */
        if (dbus_expire(d))
                r = 1;
        return d->error < 0 ? d->error : r;
}

/* --- calls --- */

void dbus_call_begin(DbusWriter *w, const char *destination, const char *path, const char *interface,
                const char *member, const char *signature) {
        dbus_writer_begin(w,
                        &(DbusHeader){
                                        .type = DBUS_METHOD_CALL,
                                        .flags = DBUS_NO_AUTO_START,
                                        .destination = destination,
                                        .path = path,
                                        .interface = interface,
                                        .member = member,
                                        .signature = signature,
                        });
}

int dbus_call(Dbus *d, DbusWriter *w, DbusHandler handler, void *userdata, uint64_t timeout_ns) {
        _cleanup_free_ Pending *p = NULL;

        if (w->error < 0)
                return w->error;
        if (!handler)
                w->data[2] |= DBUS_NO_REPLY_EXPECTED;
        else if (!(p = malloc_apart(sizeof(*p))))
                return -ENOMEM;
        int r = dbus_send(d, w);
        if (r < 0 || !p)
                return r;
        *p = (Pending){
                        .serial = last_serial(d),
                        .until_ns = ns_add(now_ns(), timeout_ns),
                        .handler = handler,
                        .userdata = userdata,
                        .next = d->pending,
        };
        d->pending = TAKE_PTR(p);
        return 0;
}

static int dbus_wait(const Dbus *d, uint64_t until_ns) {
        uint64_t now = now_ns(), until = MIN(until_ns, dbus_next_ns(d));
        struct timespec left = ns_to_timespec(ns_sub(until, now));
        struct pollfd fd = {.fd = d->fd, .events = dbus_events(d)};

        if (now >= until_ns)
                return -ETIMEDOUT;
        return ppoll(&fd, 1, &left, NULL) < 0 && errno != EINTR ? negative_errno() : 0;
}

static int errno_of(const DbusMessage *m) {
        static const char *const nobody[] = {
                        DRIVER_ERROR("NameHasNoOwner"), DRIVER_ERROR("NoReply"), DRIVER_ERROR("ServiceUnknown")};

        for (size_t i = 0; i < ELEMENTSOF(nobody); i++)
                if (streq(m->error, nobody[i]))
                        return -EHOSTUNREACH;
        return streq(m->error, DRIVER_ERROR("InvalidArgs")) ? -EINVAL : -EREMOTEIO;
}

int dbus_call_and_wait(Dbus *d, DbusWriter *w, uint64_t timeout_ns, DbusMessage **ret) {
        uint64_t until = ns_add(now_ns(), timeout_ns);
        int r = dbus_send(d, w);
        uint32_t serial = last_serial(d);

        while (r >= 0) {
                DbusMessage *m = NULL;

                r = dbus_turn(d, &m);
                if (r == 0)
                        r = dbus_wait(d, until);
                else if (r > 0 && now_ns() >= until)
                        r = -ETIMEDOUT;
                if (!m)
                        continue;
                if (m->reply_serial == serial && m->type == DBUS_METHOD_RETURN) {
                        *ret = m;
                        return 0;
                }
                if (m->reply_serial == serial && m->type == DBUS_ERROR)
                        r = errno_of(m);
                else
                        dbus_dispatch(d, m);
                (void) dbus_message_free(m);
        }
        return r;
}

/* --- the connection --- */

int dbus_fd(const Dbus *d) {
        return d->fd;
}

bool dbus_is_accepted(const Dbus *d) {
        return d->accepted;
}

bool dbus_is_hung_up(const Dbus *d) {
        return d->error == -ECONNRESET || d->error == -EPIPE;
}

short dbus_events(const Dbus *d) {
        bool has_more = d->auth_sent < DBUS_AUTH_SIZE || d->out_size > 0;
        return (short) (POLLIN | (has_more ? POLLOUT : 0));
}

uint64_t dbus_next_ns(const Dbus *d) {
        uint64_t next = d->accepted ? NSEC_INFINITY : d->accept_until_ns;

        for (const Pending *p = d->pending; p; p = p->next)
                next = MIN(next, p->until_ns);
        return next;
}

/* A connection without them is of no use, so it ends, and is made again later. */
static void on_own_reply(const DbusMessage *m, void *userdata) {
        if (m->type == DBUS_ERROR)
                (void) dbus_fail(userdata, -ECONNRESET);
}

static void on_owner_told(const DbusMessage *m, void *userdata) {
        Dbus *d = userdata;
        DbusReader r;

        if (m->type == DBUS_ERROR || !dbus_message_read(m, "s", &r))
                return;
        const char *owner = dbus_read_string(&r);
        if (!r.bad)
                d->on_owner(owner, d->on_owner_userdata);
}

static int dbus_call_bus(Dbus *d, const char *member, const char *argument, DbusHandler handler) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        dbus_call_begin(&w, DRIVER_NAME, DRIVER_PATH, DRIVER_INTERFACE, member, argument ? "s" : NULL);
        if (argument)
                dbus_write_string(&w, argument);
        return dbus_call(d, &w, handler, d, BUS_TIMEOUT);
}

int dbus_watch_name(Dbus *d, const char *name, void (*handler)(const char *owner, void *userdata), void *userdata) {
        static const char rule[] = "type='signal',sender='" DRIVER_NAME "',path='" DRIVER_PATH
                                   "',interface='" DRIVER_INTERFACE "',member='NameOwnerChanged',arg0='";
        size_t size = sizeof(rule) + strlen(name) + 1;
        _cleanup_free_ char *watched = strdup_apart(name), *whole = malloc_apart(size);

        if (!watched || !whole)
                return -ENOMEM;
        (void) snprintf(whole, size, "%s%s'", rule, name);
        free(d->watched);
        d->watched = TAKE_PTR(watched);
        d->on_owner = handler;
        d->on_owner_userdata = userdata;
        return dbus_call_bus(d, "AddMatch", whole, on_own_reply);
}

int dbus_ask_owner(Dbus *d) {
        return d->watched ? dbus_call_bus(d, "GetNameOwner", d->watched, on_owner_told) : -EINVAL;
}

Dbus *dbus_close(Dbus *d) {
        if (!d)
                return NULL;
        for (Pending *p = d->pending, *next; p; p = next) {
                next = p->next;
                free(p);
        }
        receive_begin(d);
        if (own_fd_is(d->fd, d->mark))
                safe_close(d->fd);
        free(d->out);
        free(d->watched);
        free(d);
        return NULL;
}

static void dbus_closep(Dbus **d) {
        (void) dbus_close(*d);
}

int dbus_open(const char *addresses, bool is_bus, Dbus **ret) {
        _cleanup_(dbus_closep)
        Dbus *d = malloc_apart(sizeof(*d));

        if (!d)
                return -ENOMEM;
        *d = (Dbus){};
        d->fd = -EBADF;
        d->accept_until_ns = ns_add(now_ns(), BUS_TIMEOUT);
        int r = dbus_connect(addresses, &d->fd);
        d->mark = own_fd_mark(d->fd);
        if (r >= 0 && is_bus)
                r = dbus_call_bus(d, "Hello", NULL, on_own_reply);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(d);
        return 0;
}
