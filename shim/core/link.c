/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The connection to the service: bus, lifeline, and when to try again
 *
 * Every failure ends in link_down(): gates open first, then the descriptors and the connection are closed, and the next
 * attempt starts from nothing. What application threads may still use survives: pages stay mapped, and the wake
 * descriptor keeps its number (dup3() puts a new one in its place).
 *
 * A service that restarts and keeps our lifeline open (systemd's file-descriptor store) is no failure: verdicts still
 * come from the page, and calls without a reply are repeated when the name has an owner again. A bus that restarts is
 * no failure either: we connect anew, and the service, which knows the process by its credentials, takes our calls as
 * before. Only the lifeline tells whether the service is gone.
 *
 * A connection to the service's own socket ends with the service, whether or not it comes back: the next connection is
 * to the bus, and when the bus reports a service, we move to its socket. Where that hangs up before it accepts us, we
 * stay on the bus until there is another service: this may have been the end of one, or the socket's way to refuse us.
 */

#include <sys/socket.h>

#include "common/apart.h"
#include "common/bus-names.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "hold.h"
#include "link-open.h"
#include "link-queue.h"
#include "link-register.h"
#include "link.h"
#include "shim/core/client.h"
#include "shim/core/why.h"

#define BACKOFF_MIN_NS (100 * NSEC_PER_MSEC)
/* We join a new owner of the name at once, but spread by a random delay so that a thousand processes do not come
 * together. */
#define REJOIN_SPREAD_NS (20 * NSEC_PER_MSEC)
/* After an attachment of this length the service counts as working. */
#define STEADY_NS (5 * NSEC_PER_SEC)
#define STALL_NS  (1 * NSEC_PER_SEC)

/* Old pages stay mapped (gate.h), so their number is bounded: a process that has lost its service this often runs
 * unscheduled from then on. A page costs about 12 KiB. */
#define PAGES_MAX 256U

static const char *const link_state_table[_LINK_STATE_MAX] = {
                [LINK_DOWN] = "down",
                [LINK_WAITING] = "waiting",
                [LINK_REGISTERING] = "registering",
                [LINK_ATTACHED] = "attached",
                [LINK_CUT] = "cut",
};

const char *link_state_to_string(LinkState s) {
        return (size_t) s < ELEMENTSOF(link_state_table) ? link_state_table[s] : NULL;
}

void link_set_state(Control *c, LinkState state) {
        if (c->state == state)
                return;
        client_debug("xsched: link %s -> %s", link_state_to_string(c->state), link_state_to_string(state));
        c->state = state;
        if (state == LINK_ATTACHED || state == LINK_CUT)
                client_set_state(XSCHED_STATE_ATTACHED);
        else if (client_state() == XSCHED_STATE_ATTACHED)
                client_set_state(XSCHED_STATE_DETACHED);
        else if (client_state() == XSCHED_STATE_OFF)
                client_set_state(XSCHED_STATE_CONNECTING);
}

void link_tell(Control *c, const char *what, const char *why) {
        why_set(what, why);
        if (c->told)
                return;
        c->told = true;
        client_debug("xsched: %s (%s), running unscheduled", what, why);
}

/* --- when to try again --- */

/* xorshift: enough to keep processes from retrying at the same time. */
static uint64_t link_random(Control *c, uint64_t below) {
        c->random ^= c->random << 13;
        c->random ^= c->random >> 7;
        c->random ^= c->random << 17;
        return c->random % below;
}

void link_back_off(Control *c) {
        c->backoff_ns = c->backoff_ns == 0 ? BACKOFF_MIN_NS : MIN(c->backoff_ns * 2, LINK_BACKOFF_MAX_NS);
        c->retry_at_ns = now_ns() + c->backoff_ns / 2 + link_random(c, c->backoff_ns);
}

void link_init(Control *c) {
        c->page = PAGE_NULL;
        c->move_at_ns = NSEC_INFINITY;
        c->random = (now_ns() ^ (uint64_t) getpid() << 32) | 1;
        client_set_state(XSCHED_STATE_CONNECTING);
}

/* --- down --- */

/* Called before a connection is closed: a socket that refused us is not tried next. */
static void link_ended(Control *c) {
        if (!c->direct || !c->bus)
                return;
        if (dbus_is_accepted(c->bus)) {
                free(TAKE_PTR(c->moves_to));
                return;
        }
        c->socket_refused = true;
        c->hung_up = dbus_is_hung_up(c->bus);
}

static void link_drop_bus(Control *c) {
        if (!c->bus)
                return;
        client_set_fd(CLIENT_FD_BUS, -EBADF);
        c->bus = dbus_close(c->bus);
}

static void link_down(Control *c) {
        if (c->state == LINK_ATTACHED && now_ns() - c->attached_at_ns >= STEADY_NS)
                c->backoff_ns = 0;

        link_ended(c);
        link_set_state(c, LINK_DOWN);
        control_detach_all(c);
        hold_turn(c);

        client_close_fd(CLIENT_FD_LIFELINE);
        link_drop_bus(c);

        free(TAKE_PTR(c->object));
        while (c->goners) {
                Goner *g = c->goners;
                c->goners = g->next;
                free(g);
        }
        c->page = PAGE_NULL; /* stays mapped */
        c->n_calls = 0;
        c->stalled_until_ns = 0;
        c->lost = c->cut = false;
        link_back_off(c);
        if (c->socket_refused) /* there may be a bus */
                c->retry_at_ns = now_ns() + link_random(c, REJOIN_SPREAD_NS);
}

/* Forgets the calls of a lost connection. */
static void link_recall(Control *c) {
        control_recall(c);
        for (Goner *g = c->goners; g; g = g->next)
                g->sent = false;
        c->n_calls = 0;
        c->stalled_until_ns = 0;
}

/* Only the connection is lost. Gates keep their slots, and the page's verdicts count under their lease. */
static void link_cut(Control *c) {
        link_ended(c);
        bool steady = now_ns() - c->attached_at_ns >= STEADY_NS;

        if (steady)
                c->backoff_ns = 0;
        link_drop_bus(c);
        link_set_state(c, LINK_CUT);
        link_recall(c);
        c->cut = false;
        link_back_off(c);
        /* A bus may be there when the service is not. */
        if ((steady && c->direct) || c->socket_refused)
                c->retry_at_ns = now_ns() + link_random(c, REJOIN_SPREAD_NS);
}

void link_failed(Control *c, int r) {
        bool bus = r == -ENOTCONN || r == -ECONNRESET || r == -EPIPE || r == -ESHUTDOWN;

        if (bus && c->state == LINK_ATTACHED)
                c->cut = true;
        else
                c->lost = true;
}

/* --- calls --- */

/* A call never starts the service: an administrator who stopped it wants it stopped. The bus reports its return. */
void link_begin_call(DbusWriter *w, const char *method, const char *signature) {
        dbus_call_begin(w, BUS_NAME, BUS_PATH, BUS_INTERFACE, method, signature);
}

static void write_key(DbusWriter *w, const char *key, const char *signature) {
        dbus_write_struct(w);
        dbus_write_string(w, key);
        dbus_write_signature(w, signature);
}

void link_write_string(DbusWriter *w, const char *key, const char *value) {
        if (isempty(value))
                return;
        write_key(w, key, "s");
        dbus_write_string(w, value);
}

void link_write_u32(DbusWriter *w, const char *key, uint32_t value) {
        write_key(w, key, "u");
        dbus_write_u32(w, value);
}

void link_write_i32(DbusWriter *w, const char *key, int32_t value) {
        write_key(w, key, "i");
        dbus_write_u32(w, (uint32_t) value);
}

bool link_error_is_no_owner(const DbusMessage *m) {
        const char *name = startswith(m->error, DRIVER_ERROR(""));

        return name && (streq(name, "ServiceUnknown") || streq(name, "NameHasNoOwner"));
}

bool link_error_is_absence(const DbusMessage *m) {
        static const char *const names[] = {
                        "ServiceUnknown",
                        "NameHasNoOwner",
                        "NoReply",
                        "Timeout",
                        "Disconnected",
                        "LimitsExceeded",
        };
        const char *name = startswith(m->error, DRIVER_ERROR(""));

        for (size_t i = 0; name && i < ELEMENTSOF(names); i++)
                if (streq(name, names[i]))
                        return true;
        return false;
}

void link_stall(Control *c) {
        c->stalled_until_ns = now_ns() + STALL_NS;
}

/* --- the bus --- */

/* Moves to the socket of this owner of the name, unless it has hung up on us there. */
static void link_plan_move(Control *c, const char *owner) {
        if (streq_ptr(owner, c->moves_to))
                return;
        char *copy = strdup_apart(owner);
        if (!copy)
                return;
        free(c->moves_to);
        c->moves_to = copy;
        c->move_at_ns = now_ns() + link_random(c, REJOIN_SPREAD_NS);
}

static void link_on_owner(const char *owner, void *userdata) {
        Control *c = userdata;

        if (isempty(owner))
                return;
        if (c->state == LINK_WAITING)
                c->retry_at_ns = now_ns() + link_random(c, REJOIN_SPREAD_NS);
        else if (c->state == LINK_ATTACHED || c->state == LINK_REGISTERING)
                link_plan_move(c, owner);
        c->stalled_until_ns = 0;
        c->hints_due = true;
}

static void link_set_bus(Control *c, Dbus *bus, bool direct) {
        link_drop_bus(c);
        c->bus = bus;
        c->direct = direct;
        client_set_fd(CLIENT_FD_BUS, dbus_fd(bus));
        client_debug("xsched: connected to %s", direct ? "the service" : "a bus");
}

/* Returns 0, or why there is no bus. */
static int link_open(Control *c) {
        const char *configured = client_environment()->bus_address;
        bool refused = TAKE_GENERIC(c->socket_refused, false), hung_up = TAKE_GENERIC(c->hung_up, false);
        Dbus *bus = NULL;

        if (TAKE_GENERIC(c->move_at_ns, NSEC_INFINITY) != NSEC_INFINITY) /* that socket was not tried */
                free(TAKE_PTR(c->moves_to));
        if (!refused && link_open_socket(configured, &bus) >= 0) {
                link_set_bus(c, bus, true);
                return 0;
        }
        int r = link_open_bus(configured, &bus);
        if (r < 0)
                return r;
        link_set_bus(c, bus, false);
        r = dbus_watch_name(c->bus, BUS_NAME, link_on_owner, c);
        /* The service may have come between the attempt at its socket and the watch. Who hung up may have been one that
         * has ended since. */
        return r < 0 || (refused && !hung_up) ? r : dbus_ask_owner(c->bus);
}

/* Whether it is time to move. A queue whose registration has no reply yet would be registered twice. */
static bool link_moves(const Control *c) {
        return c->n_calls == 0 && now_ns() >= c->move_at_ns;
}

/* Moves from a bus to the socket, if there is one. Calls under way get no reply any more. */
static bool link_move(Control *c) {
        Dbus *bus = NULL;

        c->move_at_ns = NSEC_INFINITY;
        if (c->direct || link_open_socket(client_environment()->bus_address, &bus) < 0)
                return false;
        link_set_bus(c, bus, true);
        return true;
}

static void link_connect(Control *c) {
        int r = link_open(c);

        if (r < 0)
                link_tell(c, "no bus", strerror(-r));
        else
                r = link_register(c);
        if (r < 0)
                c->lost = true;
}

/* Connects anew while attached. The service still knows us: only calls without a reply are repeated. */
static void link_reconnect(Control *c) {
        if (link_open(c) < 0) {
                link_drop_bus(c);
                link_back_off(c);
                return;
        }
        c->attached_at_ns = now_ns();
        c->hints_due = true;
        link_set_state(c, LINK_ATTACHED);
}

static void link_process(Control *c) {
        int r = 1;

        for (unsigned i = 0; i < 256 && r > 0; i++)
                r = dbus_process(c->bus);
        if (r < 0)
                link_ended(c);
        if (r < 0 && c->state == LINK_ATTACHED)
                c->cut = true;
        else if (r < 0) {
                if (!c->socket_refused)
                        link_tell(c, "no bus", strerror(-r));
                c->lost = true;
        }
}

static void link_send(Control *c) {
        c->hints_due = hints_take_changed(client_hints()) || c->hints_due;
        if (now_ns() < c->stalled_until_ns)
                return;
        c->stalled_until_ns = 0;
        int r = c->hints_due ? link_send_hints(c, 0, client_hints()) : 0;
        if (r < 0) {
                link_failed(c, r);
                return;
        }
        c->hints_due = false;
        link_send_goners(c);
        if (!c->cut && !c->lost)
                link_send_queues(c);
        if (!c->cut && !c->lost)
                link_send_queue_hints(c);
}

void link_turn(Control *c) {
        bool due = now_ns() >= c->retry_at_ns;

        if (c->state == LINK_DOWN && due && c->n_pages < PAGES_MAX)
                link_connect(c);
        if (c->state == LINK_CUT && due)
                link_reconnect(c);
        if (c->state == LINK_WAITING && due) {
                (void) link_move(c);
                if (link_register(c) < 0)
                        c->lost = true;
        }
        if (c->bus && !c->lost)
                link_process(c);
        if (c->state == LINK_ATTACHED && !c->lost && !c->cut && link_moves(c) && link_move(c)) {
                link_recall(c);
                c->hints_due = true;
        }
        if (c->state == LINK_ATTACHED && !c->lost && !c->cut)
                link_send(c);
        if (c->lost)
                link_down(c);
        else if (c->cut)
                link_cut(c);
}

void link_lifeline(Control *c) {
        int fd = client_fd(CLIENT_FD_LIFELINE);
        bool nudged = false;
        char buffer[16];

        for (;;) {
                ssize_t n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
                if (n > 0)
                        nudged = true;
                else if (n < 0 && errno == EAGAIN)
                        break;
                else if (n == 0 || errno != EINTR) {
                        link_down(c);
                        return;
                }
        }
        if (!nudged)
                return;
        hold_turn(c);
        control_drain_all(c);
}

uint64_t link_next_ns(const Control *c) {
        uint64_t next = NSEC_INFINITY;

        if (c->state == LINK_WAITING || c->state == LINK_CUT || (c->state == LINK_DOWN && c->n_pages < PAGES_MAX))
                next = c->retry_at_ns;
        if (c->state == LINK_ATTACHED && c->stalled_until_ns > 0)
                next = MIN(next, c->stalled_until_ns);
        if (c->state == LINK_ATTACHED && c->n_calls == 0)
                next = MIN(next, c->move_at_ns);
        if (c->bus)
                next = MIN(next, dbus_next_ns(c->bus));
        return next;
}
