/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xschedd: start and end
 *
 * The order of the start matters: signals are blocked before anything can be interrupted, clients of a former life are
 * adopted before the name is requested (so a program that sees the name finds a service that knows its clients), and
 * READY=1 comes last.
 */

#include <config.h>

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-bus.h>

#include "service/base/fdstore.h"
#include "service/base/messages.h"
#include "service/base/notify.h"
#include "service/base/state-file.h"
#include "service/base/strangers.h"
#include "service/base/subuid-file.h"
#include "service/bus/bus.h"
#include "service/bus/guests.h"
#include "service/bus/reload.h"
#include "service/core/gone-watch.h"
#include "service/core/gone.h"
#include "service/core/group-totals.h"
#include "service/core/manager-degraded.h"
#include "service/enforce/enforce.h"
#include "service/enforce/freeze.h"
#include "service/state/client-state.h"
#include "service/state/keep.h"
#include "service/state/manager-state.h"
#include "service/state/state.h"
#include "service/state/totals-file.h"

/* Without open standard fds a client's page could get the number of stderr, and our messages would be written to it as
 * verdicts. */
static int open_standard_fds(void) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
                        return -EBADF;
        return 0;
}

/* Long answers grow while they are made. In mappings of their own they grow without copying; without this line malloc()
 * would move them to the heap from the second one on, and copy. */
static void keep_long_blocks_mapped(void) {
        (void) mallopt(M_MMAP_THRESHOLD, 128 << 10);
}

/* Each client costs five fds, and each that comes without the bus four more. */
static void raise_fd_limit(void) {
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= l.rlim_max)
                return;
        l.rlim_cur = l.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &l) < 0)
                log_debug_errno(negative_errno(), "Failed to raise RLIMIT_NOFILE: %m");
}

static int on_end_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int on_reload_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        (void) manager_reload(userdata, NULL);
        return 0;
}

static int block_signals(void) {
        sigset_t set;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGTERM);
        (void) sigaddset(&set, SIGINT);
        (void) sigaddset(&set, SIGHUP);
        (void) sigaddset(&set, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return negative_errno();
        (void) signal(SIGPIPE, SIG_IGN);
        return 0;
}

/* Called when the loop exits, while the bus is still open: the bus is closed with the loop. */
static int on_exit_loop(sd_event_source *source, void *userdata) {
        freeze_thaw_all(userdata);
        return 0;
}

static int watch_signals(Manager *m) {
        sd_event_source *end = NULL;

        int r = sd_event_add_exit(m->event, &end, on_exit_loop, m);
        if (r >= 0)
                r = sd_event_source_set_priority(end, SD_EVENT_PRIORITY_IMPORTANT);
        if (r >= 0)
                r = sd_event_source_set_floating(end, true);
        sd_event_source_unref(end);
        if (r < 0)
                return r;
        r = sd_event_add_signal(m->event, NULL, SIGTERM, on_end_signal, NULL);
        if (r >= 0)
                r = sd_event_add_signal(m->event, NULL, SIGINT, on_end_signal, NULL);
        if (r >= 0)
                r = sd_event_add_signal(m->event, NULL, SIGHUP, on_reload_signal, m);
        return r;
}

static int open_bus_address(const char *address, sd_bus **ret) {
        _cleanup_(sd_bus_close_unrefp)
        sd_bus *bus = NULL;

        int r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_address(bus, address);
        if (r >= 0)
                r = sd_bus_set_bus_client(bus, true);
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(bus);
        return 0;
}

static int open_bus(const Options *o, sd_bus **ret) {
        switch (o->bus) {
        case BUS_ADDRESS:
                return open_bus_address(o->bus_address, ret);
        case BUS_SESSION:
                return sd_bus_open_user(ret);
        default:
                return sd_bus_open_system(ret);
        }
}

static int connect_bus(Manager *m, const Options *o) {
        _cleanup_(sd_bus_unrefp)
        sd_bus *bus = NULL;

        int r = open_bus(o, &bus);
        if (r < 0)
                return log_error_errno(r, "Failed to connect to the bus: %m");
        strangers_watch(sd_bus_get_fd(bus));
        r = sd_bus_set_exit_on_disconnect(bus, true);
        if (r >= 0)
                r = bus_attach(m, bus, o->bus == BUS_SYSTEM);
        return r < 0 ? log_error_errno(r, "Failed to export the objects: %m") : 0;
}

static bool adopt_one(Manager *m, StoredClient *s) {
        Client *c = NULL;

        int r = client_adopt(m, s->fds[FD_META], s->fds[FD_PAGE], s->fds[FD_LIFELINE], s->fds[FD_WAKE],
                        s->fds[FD_PIDFD], &c);
        if (r < 0) {
                log_event(LOG_WARNING, MESSAGE_ADOPT_FAILED, LOG_FIELDS(.client = s->id, .error = r),
                                "Client %" PRIu64 " cannot be taken over: %m", s->id);
                (void) fdstore_remove(s->id);
                return false;
        }
        for (FdRole role = 0; role < _FD_ROLE_MAX; role++)
                TAKE_FD(s->fds[role]);
        keep_adopted(c);
        return true;
}

static int adopt_clients(Manager *m) {
        _cleanup_(stored_fds_done)
        StoredFds stored = STORED_FDS_NULL;
        size_t n = 0;

        keep_init(m);
        int r = fdstore_collect(&stored);
        if (r < 0)
                return log_error_errno(r, "Failed to take what the service manager kept: %m");
        r = manager_state_open(m, stored.state);
        if (r < 0)
                return log_error_errno(r, "Failed to make the place for what survives a restart: %m");
        r = fdstore_push_state(m->state.fd);
        if (r < 0)
                log_warning_errno(r, "Settings made at run time will not survive a restart: %m");
        for (size_t i = 0; i < stored.n_clients; i++)
                n += adopt_one(m, stored.clients + i);
        /* A client that could not be taken over registers again, with a new id in the log. */
        m->next_client_id = MAX(m->next_client_id, stored.next_id);
        if (stored.n_clients > 0)
                log_event(LOG_INFO, MESSAGE_ADOPTED, LOG_FIELDS(.error = 0),
                                "Took over %zu of %zu clients from before the restart", n, stored.n_clients);
        groups_gc(m);
        totals_settle(m);
        m->client_hook = keep_client;
        return 0;
}

/* The service schedules without a file that cannot be read. A service on a bus of its own does not read it: it may have
 * inherited the directory of the system's service. */
static void read_stored(Manager *m, const Options *o) {
        char directory[PATH_MAX], why[OVERRIDES_WHY_MAX];

        if (o->bus == BUS_ADDRESS || !state_directory("STATE_DIRECTORY", directory))
                return;
        int r = overrides_open(directory, &m->overrides, why);
        if (r < 0)
                log_warning_errno(r, "Stored settings cannot be read: %m");
        if (r <= 0)
                return;
        log_event(LOG_ERR, MESSAGE_STATE_BAD, LOG_FIELDS(.error = -EBADMSG), "%s", why);
        if (manager_set_degraded(m, "stored settings", why) < 0)
                log_oom();
}

/* Opens the socket before the name is requested, because programs that see the name try the socket first. Without a
 * socket, programs use the bus. */
static void open_socket(Manager *m, const Options *o) {
        if (!o->socket)
                return;
        int r = guests_open(m, o->socket, &m->guests);
        if (r < 0)
                log_warning_errno(r, "Failed to listen at %s, programs register on the bus only: %m", o->socket);
}

static int start(Manager *m, const Options *o) {
        int r = watch_signals(m);
        if (r < 0)
                return log_error_errno(r, "Failed to watch for signals: %m");
        read_stored(m, o);
        totals_file_open(m, o->bus != BUS_ADDRESS); /* as above */
        r = subuid_file_new(m->event, SUBUID_PATH, PASSWD_PATH, &m->subuids);
        if (r < 0)
                return log_error_errno(r, "Failed to begin to look at " SUBUID_PATH ": %m");
        r = connect_bus(m, o);
        if (r < 0)
                return r;
        r = freeze_load(m);
        if (r < 0)
                log_warning_errno(r, "What is frozen from before the restart is not known: %m");
        r = adopt_clients(m);
        if (r < 0)
                return r;
        freeze_settle(m);
        gone_start(m);
        manager_settle(m);
        open_socket(m, o);
        r = bus_request_name(m);
        if (r < 0)
                return log_error_errno(r, "Failed to take the name %s on the bus: %m", BUS_NAME);
        r = notify_begin(m->event);
        if (r < 0)
                return log_error_errno(r, "Failed to begin to talk to the service manager: %m");
        log_event(LOG_INFO, MESSAGE_STARTED, LOG_FIELDS(.error = 0), "xschedd " XSCHED_VERSION " is up");
        char status[512];
        notify_ready(manager_status(m, status, sizeof(status)));
        return 0;
}

static int run(const Options *o) {
        _cleanup_(manager_freep)
        Manager *m = NULL;
        _cleanup_(config_freep)
        Config *config = NULL;

        int r = block_signals();
        if (r < 0)
                return log_error_errno(r, "Failed to block signals: %m");
        raise_fd_limit();
        keep_long_blocks_mapped();
        r = reload_read(o, NULL, &config);
        if (r < 0)
                return log_error_errno(r, "Failed to read the configuration: %m");
        reload_apply_log(o, config);

        r = manager_new(TAKE_PTR(config), &m);
        if (r < 0)
                return log_error_errno(r, "Failed to start: %m");
        r = enforce_attach(m);
        if (r >= 0)
                r = state_attach(m);
        if (r < 0)
                return log_error_errno(r, "Failed to start: %m");
        m->options = o;
        reload_report(m, m->config->n_problems, 0);

        r = start(m, o);
        if (r >= 0)
                r = manager_loop(m);
        notify_stopping();
        notify_end();
        m->client_hook = NULL; /* clients that are freed from here on come back after the restart */
        if (r > 0)             /* the loop was ended by sd-bus: the bus is gone */
                return log_error_errno(-ECONNRESET, "Lost the connection to the bus");
        if (r == 0)
                log_event(LOG_INFO, MESSAGE_STOPPED, LOG_FIELDS(.error = 0), "xschedd stops");
        return r;
}

int main(int argc, char *argv[]) {
        Options o;

        if (open_standard_fds() < 0)
                return EXIT_FAILURE;
        int r = options_parse(argc, argv, &o);
        if (r <= 0)
                return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;

        log_set_max_level(o.log_level >= 0 ? o.log_level : LOG_INFO);
        /* As in pauser-main.c: journald may look for the unit of this short process's messages after it has ended. */
        log_set_target(o.log_target >= 0 ? (LogTarget) o.log_target : o.thaw ? LOG_TARGET_CONSOLE : LOG_TARGET_AUTO);
        if (o.thaw)
                return freeze_recover() < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        return run(&o) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
