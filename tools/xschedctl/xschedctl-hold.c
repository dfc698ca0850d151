/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hold, list-holds: a class for a command and all that it starts, while it runs
 *
 * The verb makes a claim (service/core/claim.h). The service knows it by a file descriptor, which we keep while the
 * command runs, and which the command does not get: a process that it leaves behind would prolong the claim. A service
 * that was restarted has forgotten the claim: then it is made again.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <systemd/sd-event.h>

#include "common/bus-names.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/exit-status.h"
#include "tools/unit/polkit-agent.h"
#include "tools/xschedctl/xschedctl-list.h"
#include "tools/xschedctl/xschedctl.h"

typedef struct HoldVerb {
        Ctl *ctl;
        sd_event *event;
        const char *class, *why, *command;
        int fd;
        sd_event_source *source;
        pid_t pid;
} HoldVerb;

static int take(HoldVerb *h);

static int tell_without(const HoldVerb *h) {
        char buf[256];

        fprintf(stderr, "xschedctl: xschedd is not running on %s: %s runs without the hold\n",
                        ctl_bus_describe(h->ctl, buf, sizeof(buf)), h->command);
        return 0;
}

static void let_go(HoldVerb *h) {
        h->source = sd_event_source_disable_unref(h->source);
        h->fd = safe_close(h->fd);
}

/* The other end is closed: the service has ended, and may come again. */
static int on_broken(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        let_go(userdata);
        return 0;
}

static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *name, *before, *after;
        HoldVerb *h = userdata;

        if (sd_bus_message_read(m, "sss", &name, &before, &after) < 0 || isempty(after))
                return 0;
        let_go(h);
        (void) take(h);
        return 0;
}

/* Returns 0, or an exit status after an error message. */
static int take(HoldVerb *h) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        int fd;

        int r = ctl_call_method(h->ctl, NULL, NULL, "HoldPriority", &error, &reply, "sst", h->class, h->why,
                        HOLD_FLAG_DESCENDANTS);
        if (r >= 0)
                r = sd_bus_message_read_basic(reply, 'h', &fd);
        if (r < 0 && error_is_not_running(&error, r))
                return tell_without(h);
        if (r < 0)
                return ctl_call_failed(h->ctl, &error, r, h->class);
        h->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (h->fd < 0)
                return ctl_fail("cannot keep the hold: %m");
        /* No events: a hang-up of the other end is always reported. */
        r = sd_event_add_io(h->event, &h->source, h->fd, 0, on_broken, h);
        return r < 0 ? ctl_fail("cannot keep the hold: %s", strerror(-r)) : 0;
}

/* --- the command --- */

static int on_child(sd_event_source *s, const siginfo_t *si, void *userdata) {
        return sd_event_exit(
                        sd_event_source_get_event(s), si->si_code == CLD_EXITED ? si->si_status : 128 + si->si_status);
}

/* A terminal sends SIGINT and SIGQUIT to the command as well; a signal that only we get is passed on. */
static int on_signal(sd_event_source *s, const struct signalfd_siginfo *si, void *userdata) {
        HoldVerb *h = userdata;

        if (si->ssi_code != SI_KERNEL)
                (void) kill(h->pid, (int) si->ssi_signo);
        return 0;
}

static int start(HoldVerb *h, const sigset_t *mask, char *argv[]) {
        /* From here on the terminal belongs to the command. */
        polkit_agent_close();
        h->ctl->interactive = false;
        h->pid = fork();
        if (h->pid < 0)
                return ctl_fail("cannot run %s: %m", argv[0]);
        if (h->pid == 0) {
                (void) sigprocmask(SIG_SETMASK, mask, NULL);
                execvp(argv[0], argv);
                int r = errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC;
                ctl_fail("cannot run %s: %m", argv[0]);
                _exit(r);
        }
        return 0;
}

static int watch(HoldVerb *h, sigset_t *ret_mask) {
        static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
        sigset_t set;
        int r;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGCHLD);
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void) sigaddset(&set, signals[i]);
        if (sigprocmask(SIG_BLOCK, &set, ret_mask) < 0)
                return negative_errno();
        r = sd_event_new(&h->event);
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(signals); i++)
                r = sd_event_add_signal(h->event, NULL, signals[i], on_signal, h);
        if (!h->ctl->bus)
                return r;
        if (r >= 0)
                r = sd_bus_attach_event(h->ctl->bus, h->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = sd_bus_add_match(h->ctl->bus, NULL,
                                "type='signal',sender='" DRIVER_NAME "',member='NameOwnerChanged',"
                                "arg0='" BUS_NAME "'",
                                on_owner_changed, h);
        return r;
}

int verb_hold(Ctl *c, int argc, char *argv[]) {
        HoldVerb h = {.ctl = c, .class = argv[0], .why = c->why ?: argv[1], .command = argv[1], .fd = -EBADF};
        sigset_t mask;
        int r;

        bool reached = ctl_open_bus(c) >= 0;
        r = watch(&h, &mask);
        if (r < 0)
                r = ctl_fail("cannot wait: %s", strerror(-r));
        else
                r = reached ? take(&h) : tell_without(&h);
        if (r == 0)
                r = start(&h, &mask, argv + 1);
        if (r == 0 && sd_event_add_child(h.event, NULL, h.pid, WEXITED, on_child, &h) < 0)
                r = ctl_fail("cannot wait for %s", argv[1]);
        if (r == 0) {
                r = sd_event_loop(h.event);
                if (r < 0)
                        r = ctl_fail("cannot wait for %s: %s", argv[1], strerror(-r)) * EXIT_OURS;
        } else
                r = EXIT_OURS;
        let_go(&h);
        if (reached)
                (void) sd_bus_detach_event(c->bus);
        sd_event_unref(h.event);
        return r;
}

/* --- list-holds --- */

int verb_list_holds(Ctl *c, int argc, char *argv[]) {
        static const Column columns[] = {
                        {"PID", "pid", CELL_PLAIN, COLUMN_RIGHT},
                        {"USER", "user", CELL_PLAIN, 0},
                        {"COMMAND", "command", CELL_PLAIN, 0},
                        {"CLASS", "class", CELL_PLAIN, 0},
                        {"DESCENDANTS", "descendants", CELL_PLAIN, 0},
                        {"WHY", "why", CELL_PLAIN, COLUMN_ELASTIC},
        };
        /* In the order of the columns, of (pid, uid, command, class, reason, descendants). */
        static const size_t fields[] = {0, 1, 2, 3, 5, 4};
        _cleanup_(table_done)
        Table t = TABLE_INIT(columns);
        _cleanup_(value_done)
        Value holds = {};
        int r;

        r = list_fetch_array(c, "ListHolds", &holds);
        if (r != 0)
                return r;
        for (size_t i = 0; i < holds.n_items; i++) {
                const Value *hold = holds.items + i;
                Value *cells = table_add(&t, TABLE_NO_PARENT);

                if (!cells || hold->n_items < ELEMENTSOF(fields))
                        continue;
                for (size_t k = 0; k < ELEMENTSOF(fields); k++)
                        cells[k] = fields[k] == 1 ? value_user(hold->items[1].u) : value_copy(hold->items + fields[k]);
        }
        return table_show(c, &t, "hold", "holds");
}
