/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * monitor: the service's signals as they come
 */

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <time.h>

#include "common/time-util.h"
#include "tools/shared/ctl-bus.h"
#include "tools/xschedctl/xschedctl.h"

typedef struct Monitor {
        Ctl *ctl;
        int failed; /* 0, or why standard output takes no more: the bus ignores what the handler of a signal returns */
} Monitor;

/* What the arguments of each signal are called; the documentation is org.xsched.Scheduler(5). */
static const struct {
        const char *member;
        const char *arguments[3];
} signals[] = {
                {"ClientAdded", {"id", "client"}},
                {"ClientRemoved", {"id", "client"}},
                {"QueueAdded", {"id", "queue"}},
                {"QueueRemoved", {"id", "queue"}},
                {"GroupAdded", {"name", "group"}},
                {"GroupRemoved", {"name", "group"}},
                {"Preempted", {"device", "group", "by"}},
};

static const char *const *signal_arguments(const char *member) {
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if (streq(signals[i].member, member))
                        return signals[i].arguments;
        return NULL;
}

static int print_event(Monitor *m, const char *name, const Value *fields) {
        const Ctl *c = m->ctl;
        struct timespec now;
        struct tm tm;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        if (c->json != JSON_OFF) {
                Json j = {.f = stdout, .pretty = c->json == JSON_PRETTY};
                const Value usec = value_uint(timespec_to_ns(&now) / NSEC_PER_USEC);
                _cleanup_(value_done)
                Value signal = value_string(name);

                json_begin(&j, NULL, '{');
                json_value(&j, "realtime_usec", &usec);
                json_value(&j, "signal", &signal);
                for (size_t i = 0; i + 1 < fields->n_items; i += 2)
                        json_value(&j, value_get_string(fields->items + i), fields->items + i + 1);
                int r = json_end(&j);
                if (r < 0)
                        return r;
        } else {
                (void) localtime_r(&now.tv_sec, &tm);
                printf("%02d:%02d:%02d.%06ld %-13s ", tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000, name);
                value_print(stdout, fields);
                putchar('\n');
        }
        if (fflush(stdout) != 0)
                m->failed = negative_errno();
        return m->failed;
}

static int add_field(Value *fields, const char *name, Value v) {
        int r;

        r = value_append(fields, value_string(name));
        if (r < 0) {
                value_done(&v);
                return r;
        }
        return value_append(fields, v);
}

static int on_signal(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *member = strempty(sd_bus_message_get_member(m));
        const char *const *arguments = signal_arguments(member);
        _cleanup_(value_done)
        Value fields = {.type = VALUE_DICT};
        int r;

        if (!sd_bus_message_has_signature(m, "") && !arguments)
                return 0; /* the signal of a newer service; the names of its arguments are not known */
        for (size_t i = 0; arguments && i < 3 && arguments[i]; i++) {
                Value v = {};

                r = value_read(m, &v);
                if (r < 0)
                        return r;
                r = add_field(&fields, arguments[i], v);
                if (r < 0)
                        return r;
        }
        return print_event(userdata, member, &fields);
}

/* Properties that changed, each with its new value. */
static int on_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        _cleanup_(value_done)
        Value fields = {.type = VALUE_DICT}, changed = {};
        const char *interface;
        int r;

        r = sd_bus_message_read_basic(m, 's', &interface);
        if (r < 0)
                return r;
        if (!startswith(interface, BUS_INTERFACE))
                return 0;
        r = value_read(m, &changed);
        if (r < 0)
                return r;
        r = add_field(&fields, "object", value_string(sd_bus_message_get_path(m)));
        for (size_t i = 0; r >= 0 && i + 1 < changed.n_items; i += 2)
                r = add_field(&fields, strempty(value_get_string(changed.items + i)),
                                value_copy(changed.items + i + 1));
        return r < 0 ? r : print_event(userdata, "Changed", &fields);
}

static int on_owner(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Value fields = {.type = VALUE_DICT};
        const char *name, *old, *new;
        int r;

        r = sd_bus_message_read(m, "sss", &name, &old, &new);
        if (r < 0)
                return r;
        if (!isempty(old)) {
                r = print_event(userdata, "ServiceEnded", &fields);
                if (r < 0)
                        return r;
        }
        return isempty(new) ? 0 : print_event(userdata, "ServiceStarted", &fields);
}

/* Synchronous, so that events after its return are seen. */
static int monitor_start(Monitor *m) {
        Ctl *c = m->ctl;
        int r;

        r = sd_bus_match_signal(c->bus, NULL, BUS_NAME, NULL, BUS_INTERFACE, NULL, on_signal, m);
        if (r >= 0)
                r = sd_bus_match_signal(
                                c->bus, NULL, BUS_NAME, NULL, BUS_PROPERTIES, "PropertiesChanged", on_changed, m);
        if (r >= 0)
                r = sd_bus_add_match(c->bus, NULL,
                                "type='signal',sender='" DRIVER_NAME "',interface='" DRIVER_INTERFACE "',"
                                "member='NameOwnerChanged',arg0='" BUS_NAME "'",
                                on_owner, m);
        return r;
}

static int monitor_loop(const Monitor *m, int signal_fd) {
        const Ctl *c = m->ctl;

        for (;;) {
                struct pollfd fds[] = {
                                {.fd = sd_bus_get_fd(c->bus)}, {.fd = signal_fd, .events = POLLIN},
                                {.fd = STDOUT_FILENO}, /* reports that the reader of our output has gone */
                };
                int r;

                r = sd_bus_process(c->bus, NULL);
                if (r < 0 || m->failed < 0)
                        return r < 0 ? r : m->failed;
                if (r > 0)
                        continue;
                r = sd_bus_get_events(c->bus);
                if (r < 0)
                        return r;
                fds[0].events = (short) r;
                if (poll(fds, ELEMENTSOF(fds), -1) < 0 && errno != EINTR)
                        return negative_errno();
                if (fds[1].revents || (fds[2].revents & (POLLERR | POLLHUP)))
                        return 0;
        }
}

int verb_monitor(Ctl *c, int argc, char *argv[]) {
        _cleanup_close_ int signal_fd = -EBADF;
        Monitor m = {.ctl = c};
        char buf[256];
        sigset_t mask;
        int r;

        r = ctl_connect(c);
        if (r != 0)
                return r;
        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGINT);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigprocmask(SIG_BLOCK, &mask, NULL);
        signal_fd = signalfd(-1, &mask, SFD_CLOEXEC);
        if (signal_fd < 0)
                return ctl_fail("cannot watch for signals: %m");

        r = monitor_start(&m);
        if (r >= 0 && c->legend)
                fprintf(stderr, "Watching %s on %s; Ctrl-C ends.\n", BUS_NAME, ctl_bus_describe(c, buf, sizeof(buf)));
        if (r >= 0)
                r = monitor_loop(&m, signal_fd);
        if (m.failed < 0 && m.failed != -EPIPE)
                return ctl_fail("cannot write: %s", strerror(-m.failed));
        if (r < 0 && r != -EPIPE)
                return ctl_fail("lost %s: %s", ctl_bus_describe(c, buf, sizeof(buf)), strerror(-r));
        return 0;
}
