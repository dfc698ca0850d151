/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The connection: what the service is told of the process, and what it hands out
 *
 * Application threads may look at what an earlier registration handed out: pages stay mapped, and a new wake descriptor
 * takes the number of the old one.
 */

#include <fcntl.h>
#include <stdio.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "config.h"
#include "shim/core/client.h"
#include "shim/core/link-internal.h"
#include "shim/core/why.h"

static int append_hint(sd_bus_message *m, ClientHint h) {
        int64_t value;

        if (!client_get_hint(h, &value))
                return 0;
        if (h == CLIENT_HINT_PRIORITY)
                return sdbus.sd_bus_message_append(
                                m, "{sv}", client_hint_to_string(h), "i", (int32_t) value);
        return sdbus.sd_bus_message_append(m, "{sv}", client_hint_to_string(h), "u", (uint32_t) value);
}

int link_send_hints(Control *c) {
        _cleanup_(link_message_unrefp)
        sd_bus_message *m = NULL;
        int r = link_new_call(c, "Hint", &m);

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "t", UINT64_C(0));
        if (r >= 0)
                r = sdbus.sd_bus_message_open_container(m, 'a', "{sv}");
        for (ClientHint h = 0; r >= 0 && h < _CLIENT_HINT_MAX; h++)
                r = append_hint(m, h);
        if (r >= 0)
                r = sdbus.sd_bus_message_close_container(m);
        if (r >= 0)
                r = sdbus.sd_bus_call_async(c->bus, NULL, m, NULL, NULL, 0);
        return r;
}

static int adopt_fd(int fd) {
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return copy < 0 ? negative_errno() : copy;
}

static bool fd_is_eventfd(int fd) {
        char path[64], target[64];

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        return n > 0 && startswith((target[n] = '\0', target), "anon_inode:[eventfd]");
}

/* Threads of the application write to the descriptor they have seen: the new one takes the old one's number. Unless the
 * application has closed our number and uses it for something else by now. */
static int link_adopt_wake(int fd) {
        int old = client_fd(CLIENT_FD_WAKE), flags = fcntl(fd, F_GETFL);

        /* Without O_NONBLOCK a launch could block on a service that does not read. */
        if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0))
                return negative_errno();
        if (old >= 0 && fd_is_eventfd(old))
                return dup3(fd, old, O_CLOEXEC) < 0 ? negative_errno() : 0;

        int copy = adopt_fd(fd);
        if (copy < 0)
                return copy;
        client_set_fd(CLIENT_FD_WAKE, copy);
        return 0;
}

static int link_adopt_page(int fd, Page *ret) {
        _cleanup_close_ int copy = adopt_fd(fd);
        if (copy < 0)
                return copy;

        int r = page_open(copy, ret);
        if (r < 0)
                return r;
        ret->fd = -EBADF; /* ours; not needed once it is mapped */
        return 0;
}

static int link_accept(Control *c, sd_bus_message *m) {
        const char *object;
        int page_fd, lifeline_fd, wake_fd;
        int r = sdbus.sd_bus_message_read(m, "ohhh", &object, &page_fd, &lifeline_fd, &wake_fd);
        if (r < 0)
                return r;

        _cleanup_close_ int lifeline = adopt_fd(lifeline_fd);
        if (lifeline < 0)
                return lifeline;
        r = link_adopt_wake(wake_fd);
        if (r < 0)
                return r;
        r = link_adopt_page(page_fd, &c->page);
        if (r < 0)
                return r;

        c->n_pages++;
        c->object = strdup(object);
        if (!c->object)
                return -ENOMEM;
        client_set_fd(CLIENT_FD_LIFELINE, TAKE_FD(lifeline));
        return 0;
}

/* The service, or the bus before it. */
static const char *refusal_name(const sd_bus_error *e, int r) {
        if (e)
                return strempty(e->name);
        return r == -EPROTO ? WHY_OTHER_PAGE : strerrordesc_np(-r);
}

static void tell_refused(Control *c, const sd_bus_error *e, int r) {
        char text[256];

        (void) snprintf(text, sizeof(text), "%s%s%s", refusal_name(e, r), e ? ": " : "",
                        e ? strempty(e->message) : "");
        link_tell(c, "not taken by the service", text);
}

/* What another attempt would be told again. All else (a quota, memory) is of the moment, and tried again soon, if ever
 * less often. */
static bool error_is_lasting(const sd_bus_error *e) {
        static const char *const names[] = {
                        "org.freedesktop.DBus.Error.InvalidArgs",
                        "org.freedesktop.DBus.Error.NotSupported",
                        "org.freedesktop.DBus.Error.UnknownInterface",
                        "org.freedesktop.DBus.Error.UnknownMethod",
                        "org.freedesktop.DBus.Error.UnknownObject",
                        "org.xsched.Scheduler.Error.NoSuchJob",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq_ptr(e->name, names[i]))
                        return true;
        return false;
}

static int link_on_registered(sd_bus_message *m, void *userdata, sd_bus_error *unused) {
        Control *c = userdata;
        const sd_bus_error *e = sdbus.sd_bus_message_get_error(m);
        int r = e ? -EACCES : link_accept(c, m);

        if (r >= 0) {
                c->attached_at_ns = now_ns();
                c->told = false;
                why_clear();
                link_set_state(c, LINK_ATTACHED);
                return 1;
        }

        link_set_state(c, LINK_WAITING);
        /* A connection is its maker's and his user's, and the process may have become another user's meanwhile: the
         * next attempt makes one anew. */
        if (e && streq(strempty(e->name), "org.freedesktop.DBus.Error.AccessDenied")) {
                tell_refused(c, e, r);
                c->lost = true;
                return 1;
        }
        if (!e || !link_error_is_absence(e)) {
                tell_refused(c, e, r);
                if (!e || error_is_lasting(e))
                        c->backoff_ns = LINK_BACKOFF_MAX_NS;
        } else
                link_tell(c, "no service on the bus", strempty(e->message));
        if (e && link_error_is_no_owner(e))
                /* The bus tells of the next owner after this reply: until then there is nothing to try. */
                c->retry_at_ns = NSEC_INFINITY;
        else
                link_back_off(c);
        return 1;
}

int link_register(Control *c) {
        const ClientEnvironment *env = client_environment();
        _cleanup_(link_message_unrefp)
        sd_bus_message *m = NULL;
        int r = link_new_call(c, "RegisterClient", &m);

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "t", UINT64_C(0));
        if (r >= 0)
                r = sdbus.sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0)
                r = link_append_string(m, "ShimVersion", XSCHED_VERSION);
        if (r >= 0)
                r = link_append_string(m, "Job", env->job);
        if (r >= 0)
                r = link_append_string(m, "Class", env->class);
        /* What changes from here on is sent by itself. */
        c->hints_due = false;
        (void) client_take_hints_changed();
        for (ClientHint h = 0; r >= 0 && h < _CLIENT_HINT_MAX; h++)
                r = append_hint(m, h);
        if (r >= 0)
                r = link_append_units(m);
        if (r >= 0)
                r = sdbus.sd_bus_message_close_container(m);
        if (r >= 0)
                r = sdbus.sd_bus_call_async(c->bus, NULL, m, link_on_registered, c, LINK_CALL_TIMEOUT_USEC);
        if (r >= 0)
                link_set_state(c, LINK_REGISTERING);
        return r;
}
