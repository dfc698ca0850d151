/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Registration of the process with the service: what the process tells, and what it gets
 *
 * Application threads may still use what an earlier registration gave: pages stay mapped, and a new wake descriptor
 * takes the number of the old one.
 */

#include <fcntl.h>
#include <stdio.h>

#include "common/apart.h"
#include "common/bus-names.h"
#include "common/macro.h"
#include "common/own-fd.h"
#include "common/time-util.h"
#include "common/why-name.h"
#include "config.h"
#include "link-register.h"
#include "link-units.h"
#include "link.h"
#include "shim/core/client.h"
#include "shim/core/why.h"

int link_send_hints(Control *c, uint64_t queue, const HintSet *hints) {
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        link_begin_call(&w, "Hint", "ta{sv}");
        dbus_write_u64(&w, queue);
        size_t entries = dbus_begin_array(&w, DBUS_ALIGN_8);
        hints_write(hints, &w);
        dbus_end_array(&w, entries, DBUS_ALIGN_8);
        return dbus_call(c->bus, &w, NULL, NULL, 0);
}

static bool fd_is_eventfd(int fd) {
        char path[64], target[64];

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        return n > 0 && startswith((target[n] = '\0', target), "anon_inode:[eventfd]");
}

/* Threads of the application write to the descriptor number they have read, so the new descriptor takes the old number,
 * unless the application has closed that number and uses it for something else. */
static int link_adopt_wake(int fd) {
        int old = client_fd(CLIENT_FD_WAKE), flags = fcntl(fd, F_GETFL);

        /* Without O_NONBLOCK a launch could block on a service that does not read. */
        if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0))
                return negative_errno();
        if (old >= 0 && fd_is_eventfd(old))
                return dup3(fd, old, O_CLOEXEC) < 0 ? negative_errno() : 0;

        int copy = own_fd_copy(fd);
        if (copy < 0)
                return copy;
        client_set_fd(CLIENT_FD_WAKE, copy);
        return 0;
}

static int link_adopt_page(int fd, Page *ret) {
        _cleanup_close_ int copy = own_fd_copy(fd);
        if (copy < 0)
                return copy;

        int r = page_open(copy, ret);
        if (r < 0)
                return r;
        ret->fd = -EBADF; /* the fd is not needed once the page is mapped */
        return 0;
}

static int link_accept(Control *c, const DbusMessage *m) {
        DbusReader body;

        (void) dbus_message_read(m, "ohhh", &body);
        const char *object = dbus_read_string(&body);
        int page_fd = dbus_read_fd(&body), lifeline_fd = dbus_read_fd(&body), wake_fd = dbus_read_fd(&body);
        if (body.bad)
                return -EBADMSG;

        _cleanup_close_ int lifeline = own_fd_copy(lifeline_fd);
        if (lifeline < 0)
                return lifeline;
        int r = link_adopt_wake(wake_fd);
        if (r < 0)
                return r;
        r = link_adopt_page(page_fd, &c->page);
        if (r < 0)
                return r;

        c->n_pages++;
        c->object = strdup_apart(object);
        if (!c->object)
                return -ENOMEM;
        client_set_fd(CLIENT_FD_LIFELINE, TAKE_FD(lifeline));
        return 0;
}

/* The name of the error that the service or the bus answered with. */
static const char *refusal_name(const DbusMessage *m, int r) {
        if (m->type == DBUS_ERROR)
                return m->error;
        return r == -EPROTO ? WHY_OTHER_PAGE : strerror(-r);
}

static void tell_refused(Control *c, const DbusMessage *m, int r) {
        char text[256];

        (void) snprintf(text, sizeof(text), "%s%s%s", refusal_name(m, r), m->type == DBUS_ERROR ? ": " : "", m->text);
        link_tell(c, "not taken by the service", text);
}

/* Returns whether another attempt would get the same error. Other errors (a quota, memory) are temporary, and are tried
 * again soon, with growing intervals. */
static bool error_is_lasting(const DbusMessage *m) {
        static const char *const names[] = {
                        DRIVER_ERROR("InvalidArgs"),
                        DRIVER_ERROR("NotSupported"),
                        DRIVER_ERROR("UnknownInterface"),
                        DRIVER_ERROR("UnknownMethod"),
                        DRIVER_ERROR("UnknownObject"),
                        BUS_ERROR("NoSuchJob"),
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq(m->error, names[i]))
                        return true;
        return false;
}

static void link_on_registered(const DbusMessage *m, void *userdata) {
        Control *c = userdata;
        bool is_error = m->type == DBUS_ERROR;
        int r = is_error ? -EACCES : link_accept(c, m);

        if (r >= 0) {
                c->attached_at_ns = now_ns();
                c->told = false;
                why_clear();
                link_set_state(c, LINK_ATTACHED);
                return;
        }

        link_set_state(c, LINK_WAITING);
        /* A connection belongs to the process and user that made it, and the process may have changed its user: the
         * next attempt makes a new one. */
        if (streq(m->error, DRIVER_ERROR("AccessDenied"))) {
                tell_refused(c, m, r);
                c->lost = true;
                return;
        }
        if (c->direct && link_error_is_absence(m)) { /* the socket accepted us, but there is no answer */
                c->socket_refused = c->lost = true;
                return;
        }
        if (!is_error || !link_error_is_absence(m)) {
                tell_refused(c, m, r);
                if (!is_error || error_is_lasting(m))
                        c->backoff_ns = LINK_BACKOFF_MAX_NS;
        } else
                link_tell(c, "no service on the bus", m->text);
        if (link_error_is_no_owner(m))
                /* The bus reports the next owner after this reply: nothing to try until then. */
                c->retry_at_ns = NSEC_INFINITY;
        else
                link_back_off(c);
}

int link_register(Control *c) {
        const ClientEnvironment *env = client_environment();
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;

        link_begin_call(&w, "RegisterClient", "ta{sv}");
        dbus_write_u64(&w, 0);
        size_t properties = dbus_begin_array(&w, DBUS_ALIGN_8);
        link_write_string(&w, "ShimVersion", XSCHED_VERSION);
        link_write_string(&w, "Job", env->job);
        link_write_string(&w, "Class", env->class);
        /* Later changes of hints are sent separately. */
        c->hints_due = false;
        (void) hints_take_changed(client_hints());
        hints_write(client_hints(), &w);
        link_write_units(&w);
        dbus_end_array(&w, properties, DBUS_ALIGN_8);
        int r = dbus_call(c->bus, &w, link_on_registered, c, LINK_CALL_TIMEOUT_NS);
        if (r >= 0)
                link_set_state(c, LINK_REGISTERING);
        return r;
}
