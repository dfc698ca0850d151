/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The connection to the service: bus, registration, page, lifeline
 *
 * There is one way down, link_down(), for whatever goes wrong: gates open first, then the descriptors and the connection go, and
 * the next attempt starts from nothing. What must survive is what application threads may still look at: pages stay
 * mapped, and the wake descriptor keeps its number (a new one takes its place by dup3()).
 *
 * A service that restarts and keeps our lifeline open (systemd's file-descriptor store) is not "wrong": verdicts go on from the
 * page; calls that fell into the gap are made again when the name has an owner again. Nor is a bus that restarts: it is connected to
 * anew, and the service, which knows the process by its credentials, takes our calls as before. What is true of the service the
 * lifeline says.
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "config.h"
#include "shim/client.h"
#include "shim/control.h"
#include "shim/sdbus.h"

#define BUS_NAME       "org.xsched.Scheduler"
#define BUS_PATH       "/org/xsched/Scheduler"
#define BUS_INTERFACE  "org.xsched.Scheduler"
#define BUS_ERROR      "org.xsched.Scheduler.Error."
#define SYSTEM_ADDRESS "unix:path=/run/dbus/system_bus_socket;unix:path=/var/run/dbus/system_bus_socket"

#define CALL_TIMEOUT_USEC UINT64_C(10000000)

#define BACKOFF_MIN_NS (100 * NSEC_PER_MSEC)
#define BACKOFF_MAX_NS (30 * NSEC_PER_SEC)
/* A new owner of the name is rejoined at once, but not by a thousand processes in the same microsecond. */
#define REJOIN_SPREAD_NS (20 * NSEC_PER_MSEC)
/* An attachment that lasted this long says that the service works. */
#define STEADY_NS (5 * NSEC_PER_SEC)
#define STALL_NS  (1 * NSEC_PER_SEC)

/* Old pages stay mapped (gate.h), so their number is bounded: a process that has lost its service so often runs
 * unscheduled from then on. About 12 KiB each. */
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

static void link_set_state(Control *c, LinkState state) {
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

/* Once for each time that it happens: attempts go on in the background, and there may be no service here at all. */
static void link_tell(Control *c, const char *what, const char *why) {
        if (c->told)
                return;
        c->told = true;
        client_debug("xsched: %s (%s), running unscheduled", what, why);
}

/* --- when to try again --- */

/* xorshift: enough to keep processes from marching in step. */
static uint64_t link_random(Control *c, uint64_t below) {
        c->random ^= c->random << 13;
        c->random ^= c->random >> 7;
        c->random ^= c->random << 17;
        return c->random % below;
}

static void link_back_off(Control *c) {
        c->backoff_ns = c->backoff_ns == 0 ? BACKOFF_MIN_NS : MIN(c->backoff_ns * 2, BACKOFF_MAX_NS);
        c->retry_at_ns = now_ns() + c->backoff_ns / 2 + link_random(c, c->backoff_ns);
}

void link_init(Control *c) {
        c->page = PAGE_NULL;
        c->random = (now_ns() ^ (uint64_t) getpid() << 32) | 1;
        client_set_state(XSCHED_STATE_CONNECTING);
}

/* --- down --- */

static void link_drop_bus(Control *c) {
        if (!c->bus)
                return;
        client_set_fd(CLIENT_FD_BUS, -EBADF);
        sdbus.sd_bus_close(c->bus);
        c->bus = sdbus.sd_bus_unref(c->bus);
}

static void link_down(Control *c) {
        if (c->state == LINK_ATTACHED && now_ns() - c->attached_at_ns >= STEADY_NS)
                c->backoff_ns = 0;

        link_set_state(c, LINK_DOWN);
        control_detach_all(c);
        hold_turn(c);

        int lifeline = client_fd(CLIENT_FD_LIFELINE);
        client_set_fd(CLIENT_FD_LIFELINE, -EBADF);
        safe_close(lifeline);
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
}

/* Only the bus is gone. Gates stay seated, and what the page says holds under its lease. */
static void link_cut(Control *c) {
        if (now_ns() - c->attached_at_ns >= STEADY_NS)
                c->backoff_ns = 0;
        link_drop_bus(c);
        link_set_state(c, LINK_CUT);
        control_recall(c);
        for (Goner *g = c->goners; g; g = g->next)
                g->sent = false;
        c->n_calls = 0;
        c->stalled_until_ns = 0;
        c->cut = false;
        link_back_off(c);
}

/* Of a call, or of the bus as a whole. */
static void link_failed(Control *c, int r) {
        bool bus = r == -ENOTCONN || r == -ECONNRESET || r == -EPIPE || r == -ESHUTDOWN;

        if (bus && c->state == LINK_ATTACHED)
                c->cut = true;
        else
                c->lost = true;
}

/* --- calls --- */

static void message_unrefp(sd_bus_message **m) {
        if (*m)
                (void) sdbus.sd_bus_message_unref(*m);
}

static int link_new_call(Control *c, const char *method, sd_bus_message **ret) {
        return sdbus.sd_bus_message_new_method_call(c->bus, ret, BUS_NAME, BUS_PATH, BUS_INTERFACE, method);
}

static int append_string(sd_bus_message *m, const char *key, const char *value) {
        return isempty(value) ? 0 : sdbus.sd_bus_message_append(m, "{sv}", key, "s", value);
}

static int append_hint(sd_bus_message *m, ClientHint h) {
        int64_t value;

        if (!client_get_hint(h, &value))
                return 0;
        if (h == CLIENT_HINT_PRIORITY)
                return sdbus.sd_bus_message_append(
                                m, "{sv}", client_hint_to_string(h), "i", (int32_t) value);
        return sdbus.sd_bus_message_append(m, "{sv}", client_hint_to_string(h), "u", (uint32_t) value);
}

/* Whether the callee was not there, rather than unwilling. */
static bool error_is_absence(const sd_bus_error *e) {
        static const char *const names[] = {
                        "ServiceUnknown",
                        "NameHasNoOwner",
                        "NoReply",
                        "Timeout",
                        "Disconnected",
                        "LimitsExceeded",
        };
        const char *name = startswith(strempty(e->name), "org.freedesktop.DBus.Error.");

        for (size_t i = 0; name && i < ELEMENTSOF(names); i++)
                if (streq(name, names[i]))
                        return true;
        return false;
}

static void link_stall(Control *c) {
        c->stalled_until_ns = now_ns() + STALL_NS;
}

/* --- queues --- */

static int link_on_queue(sd_bus_message *m, void *userdata, sd_bus_error *unused) {
        XschedQueue *q = userdata;
        Control *c = q->control;
        const sd_bus_error *e = sdbus.sd_bus_message_get_error(m);
        uint64_t id;
        uint32_t slot;

        c->n_calls--;
        if (!e && sdbus.sd_bus_message_read(m, "tu", &id, &slot) >= 0) {
                control_attach_queue(c, q, id, slot);
                return 1;
        }

        /* A restarted service that does not know us: begin anew. */
        if (e && streq_ptr(e->name, BUS_ERROR "NoSuchClient"))
                c->lost = true;
        if (q->dead)
                control_finish_queue(c, q);
        else if (c->lost)
                control_set_queue_state(c, q, QUEUE_NEW);
        else if (e && error_is_absence(e)) {
                link_stall(c);
                control_set_queue_state(c, q, QUEUE_NEW);
        } else {
                client_debug("xsched: queue on %s refused: %s", q->device,
                                e ? strempty(e->message) : "bad reply");
                control_set_queue_state(c, q, QUEUE_REFUSED);
        }
        return 1;
}

static int link_register_queue(Control *c, XschedQueue *q) {
        _cleanup_(message_unrefp)
        sd_bus_message *m = NULL;
        int r = link_new_call(c, "RegisterQueue", &m);

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "o", c->object);
        if (r >= 0)
                r = sdbus.sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0)
                r = append_string(m, "Device", q->device);
        if (r >= 0)
                r = append_string(m, "DeviceName", q->device_name);
        if (r >= 0)
                r = append_string(m, "Backend", q->backend);
        if (r >= 0)
                r = append_string(m, "Label", q->label);
        if (r >= 0 && q->priority_hint < 0)
                r = sdbus.sd_bus_message_append(m, "{sv}", "PriorityHint", "i", q->priority_hint);
        if (r >= 0 && q->apply)
                r = sdbus.sd_bus_message_append(m, "{sv}", "Level", "u", (uint32_t) q->level);
        if (r >= 0 && q->kfd_gpu_id != 0)
                r = sdbus.sd_bus_message_append(m, "{sv}{sv}", "KfdGpuId", "u", q->kfd_gpu_id, "KfdQueueId",
                                "u", q->kfd_queue_id);
        if (r >= 0)
                r = sdbus.sd_bus_message_close_container(m);
        if (r >= 0)
                r = sdbus.sd_bus_call_async(c->bus, NULL, m, link_on_queue, q, CALL_TIMEOUT_USEC);
        if (r < 0)
                return r;

        q->control = c;
        c->n_calls++;
        control_set_queue_state(c, q, QUEUE_REGISTERING);
        return 0;
}

/* Its completions kick us when there is room. */
static bool queue_has_room(XschedQueue *q) {
        if (likely(gate_has_room(&q->gate)))
                return true;
        atomic_store_explicit(&q->wants_room, true, memory_order_seq_cst);
        return gate_has_room(&q->gate);
}

static void link_send_queues(Control *c) {
        for (XschedQueue *q = c->queues[QUEUE_NEW], *next; q && c->n_calls < CONTROL_CALLS_MAX; q = next) {
                next = q->next;
                if (!queue_has_room(q))
                        continue;
                int r = link_register_queue(c, q);
                if (r == -EINVAL) /* a name that is no UTF-8 */
                        control_set_queue_state(c, q, QUEUE_REFUSED);
                else if (r < 0) {
                        link_failed(c, r);
                        return;
                }
        }
}

static void link_free_goner(Control *c, Goner *g) {
        Goner **link = &c->goners;

        while (*link != g)
                link = &(*link)->next;
        *link = g->next;
        free(g);
}

static int link_on_goner(sd_bus_message *m, void *userdata, sd_bus_error *unused) {
        Goner *g = userdata;
        Control *c = g->control;
        const sd_bus_error *e = sdbus.sd_bus_message_get_error(m);

        c->n_calls--;
        if (e && error_is_absence(e)) {
                g->sent = false;
                link_stall(c);
                return 1;
        }
        link_free_goner(c, g);
        control_retry_refused(c); /* there is room for one more now */
        return 1;
}

static int link_unregister_queue(Control *c, Goner *g) {
        _cleanup_(message_unrefp)
        sd_bus_message *m = NULL;
        int r = link_new_call(c, "UnregisterQueue", &m);

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "t", g->id);
        if (r >= 0)
                r = sdbus.sd_bus_call_async(c->bus, NULL, m, link_on_goner, g, CALL_TIMEOUT_USEC);
        if (r < 0)
                return r;
        g->sent = true;
        c->n_calls++;
        return 0;
}

static void link_send_goners(Control *c) {
        for (Goner *g = c->goners; g && c->n_calls < CONTROL_CALLS_MAX; g = g->next) {
                int r = g->sent ? 0 : link_unregister_queue(c, g);
                if (r < 0) {
                        link_failed(c, r);
                        return;
                }
        }
}

void link_forget_queue(Control *c, uint64_t id) {
        Goner *g = calloc(1, sizeof(Goner));

        if (!g) {
                c->lost = true; /* the service forgets all of them */
                return;
        }
        *g = (Goner){.control = c, .id = id, .next = c->goners};
        c->goners = g;
}

/* --- hints --- */

static int link_send_hints(Control *c) {
        _cleanup_(message_unrefp)
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

/* --- registration --- */

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

static int link_on_registered(sd_bus_message *m, void *userdata, sd_bus_error *unused) {
        Control *c = userdata;
        const sd_bus_error *e = sdbus.sd_bus_message_get_error(m);
        int r = e ? -EACCES : link_accept(c, m);

        if (r >= 0) {
                c->attached_at_ns = now_ns();
                c->told = false;
                link_set_state(c, LINK_ATTACHED);
                return 1;
        }

        link_set_state(c, LINK_WAITING);
        if (!e || !error_is_absence(e)) {
                link_tell(c, "not taken by the service", e ? strempty(e->message) : strerrordesc_np(-r));
                c->backoff_ns = BACKOFF_MAX_NS;
        } else
                link_tell(c, "no service on the bus", strempty(e->message));
        link_back_off(c);
        return 1;
}

static int link_register(Control *c) {
        const ClientEnvironment *env = client_environment();
        _cleanup_(message_unrefp)
        sd_bus_message *m = NULL;
        int r = link_new_call(c, "RegisterClient", &m);

        if (r >= 0)
                r = sdbus.sd_bus_message_append(m, "t", UINT64_C(0));
        if (r >= 0)
                r = sdbus.sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0)
                r = append_string(m, "ShimVersion", XSCHED_VERSION);
        if (r >= 0)
                r = append_string(m, "Job", env->job);
        if (r >= 0)
                r = append_string(m, "Class", env->class);
        /* What changes from here on is sent by itself. */
        c->hints_due = false;
        (void) client_take_hints_changed();
        for (ClientHint h = 0; r >= 0 && h < _CLIENT_HINT_MAX; h++)
                r = append_hint(m, h);
        if (r >= 0)
                r = sdbus.sd_bus_message_close_container(m);
        if (r >= 0)
                r = sdbus.sd_bus_call_async(c->bus, NULL, m, link_on_registered, c, CALL_TIMEOUT_USEC);
        if (r >= 0)
                link_set_state(c, LINK_REGISTERING);
        return r;
}

/* --- the bus --- */

static int link_on_owner(sd_bus_message *m, void *userdata, sd_bus_error *unused) {
        Control *c = userdata;
        const char *name, *old, *new;

        if (sdbus.sd_bus_message_read(m, "sss", &name, &old, &new) < 0 || isempty(new))
                return 1;
        if (c->state == LINK_WAITING)
                c->retry_at_ns = now_ns() + link_random(c, REJOIN_SPREAD_NS);
        c->stalled_until_ns = 0;
        c->hints_due = true;
        return 1;
}

static const char *link_address(void) {
        const char *address = client_environment()->bus_address;

        if (isempty(address))
                address = secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
        return isempty(address) ? SYSTEM_ADDRESS : address;
}

static int link_open_bus(Control *c) {
        int r = sdbus.sd_bus_new(&c->bus);

        if (r >= 0)
                r = sdbus.sd_bus_set_address(c->bus, link_address());
        if (r >= 0)
                r = sdbus.sd_bus_set_bus_client(c->bus, 1);
        if (r >= 0)
                r = sdbus.sd_bus_start(c->bus);
        if (r >= 0)
                r = sdbus.sd_bus_add_match_async(c->bus, NULL,
                                "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                                "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" BUS_NAME
                                "'",
                                link_on_owner, NULL, c);
        return r;
}

static void link_connect(Control *c) {
        int r = link_open_bus(c);

        if (r < 0)
                link_tell(c, "no bus", strerrordesc_np(-r));
        else
                r = link_register(c);
        if (r < 0)
                c->lost = true;
}

/* Nobody is told anything about us: calls that nobody answered are made anew, and the others were. */
static void link_reconnect(Control *c) {
        if (link_open_bus(c) < 0) {
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
                r = sdbus.sd_bus_process(c->bus, NULL);
        if (r < 0 && c->state == LINK_ATTACHED)
                c->cut = true;
        else if (r < 0) {
                link_tell(c, "no bus", strerrordesc_np(-r));
                c->lost = true;
        } else
                client_set_fd(CLIENT_FD_BUS, sdbus.sd_bus_get_fd(c->bus));
}

static void link_send(Control *c) {
        c->hints_due = client_take_hints_changed() || c->hints_due;
        if (now_ns() < c->stalled_until_ns)
                return;
        int r = c->hints_due ? link_send_hints(c) : 0;
        if (r < 0) {
                link_failed(c, r);
                return;
        }
        c->hints_due = false;
        link_send_goners(c);
        if (!c->cut && !c->lost)
                link_send_queues(c);
}

void link_turn(Control *c) {
        bool due = now_ns() >= c->retry_at_ns;

        if (c->state == LINK_DOWN && due && c->n_pages < PAGES_MAX)
                link_connect(c);
        if (c->state == LINK_CUT && due)
                link_reconnect(c);
        if (c->state == LINK_WAITING && due && link_register(c) < 0)
                c->lost = true;
        if (c->bus && !c->lost)
                link_process(c);
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
        uint64_t next = NSEC_INFINITY, usec;

        if (c->state == LINK_WAITING || c->state == LINK_CUT ||
                        (c->state == LINK_DOWN && c->n_pages < PAGES_MAX))
                next = c->retry_at_ns;
        if (c->state == LINK_ATTACHED && c->stalled_until_ns > 0)
                next = MIN(next, c->stalled_until_ns);
        if (c->bus && sdbus.sd_bus_get_timeout(c->bus, &usec) > 0 && usec < NSEC_INFINITY / NSEC_PER_USEC)
                next = MIN(next, usec * NSEC_PER_USEC);
        return next;
}
