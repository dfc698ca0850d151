/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-session: a command with a private bus and an xschedd of its own
 *
 * Three children: dbus-daemon, xschedd and the command. All are watched by pidfd, from one poll loop that also forwards
 * signals to the command. Nothing is waited for by polling: dbus-daemon prints its address when it listens, xschedd
 * sends READY=1.
 *
 * Nothing is left behind. The daemons die with this process (PR_SET_PDEATHSIG), also when it is killed by SIGKILL; the
 * command then gets SIGTERM. The directory with the sockets is made and removed by a fourth child, the keeper, which
 * outlives all others: it waits for the hang-up of a socket whose other end only this process has, so the directory
 * goes whatever ends this process, at whatever moment.
 *
 * The daemons run in a session (setsid) of their own: Ctrl-C in a terminal goes to the command, not to the bus that it
 * talks to. The terminal sends it to the command and to this process alike. So only signals that another process sent
 * to this one are forwarded, and not those of the kernel.
 */

#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>

#include "common/bus-names.h"
#include "common/client-socket.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "config.h"
#include "tools/session/session-child.h"
#include "tools/shared/shim-env.h"

#define CLIENTS          "/clients"
#define START_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define STOP_TIMEOUT_NS  (5 * NSEC_PER_SEC)

typedef struct Session {
        const char *policy;
        const char *config;
        const char *log_level;
        ShimMode shim;
        char **command_line;

        char *dir;
        char *address;
        Keeper keeper;
        int signal_fd;
        int notify_fd;
        int address_fd; /* dbus-daemon's end of --print-address */
        sigset_t original_mask;

        bool bus_ready;
        bool service_ready;
        int ended_by; /* a signal that came before the command was started */

        Child bus;
        Child service;
        Child command;
} Session;

_printf_(1, 2) static int fail(const char *format, ...) {
        va_list ap;

        fprintf(stderr, "xsched-session: ");
        va_start(ap, format);
        vfprintf(stderr, format, ap);
        va_end(ap);
        fputc('\n', stderr);
        return EXIT_OURS;
}

/* --- events --- */

static void on_signal(Session *s) {
        struct signalfd_siginfo si;

        if (read(s->signal_fd, &si, sizeof(si)) != (ssize_t) sizeof(si))
                return;
        if (child_is_alive(&s->command)) {
                if (si.ssi_code != SI_KERNEL)
                        (void) pidfd_send_signal(s->command.pidfd, (int) si.ssi_signo, NULL, 0);
        } else if (s->command.pid == 0)
                s->ended_by = (int) si.ssi_signo;
}

/* Read to the end of the session, also after READY=1: a notifier must never find its socket full. No room for control
 * messages: file descriptors that are sent for keeping are dropped by the kernel. */
static void on_notify(Session *s) {
        char buf[4096], *save = NULL;
        ssize_t n;

        n = recv(s->notify_fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);
        if (n <= 0)
                return;
        buf[n] = '\0';
        for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                if (streq(line, "READY=1"))
                        s->service_ready = true;
}

static void on_address(Session *s) {
        char buf[256];
        ssize_t n = read(s->address_fd, buf, sizeof(buf));

        if (n > 0 && memchr(buf, '\n', (size_t) n))
                s->bus_ready = true;
        if (n <= 0 || s->bus_ready)
                s->address_fd = safe_close(s->address_fd);
}

/* Waits for one event, or until the deadline. Returns -ETIMEDOUT when that has passed. */
static int session_step(Session *s, uint64_t deadline_ns) {
        struct pollfd fds[] = {
                        {.fd = s->signal_fd, .events = POLLIN},
                        {.fd = s->notify_fd, .events = POLLIN},
                        {.fd = s->address_fd, .events = POLLIN},
                        {.fd = s->bus.pidfd, .events = POLLIN},
                        {.fd = s->service.pidfd, .events = POLLIN},
                        {.fd = s->command.pidfd, .events = POLLIN},
        };
        struct timespec ts = ns_to_timespec(ns_sub(deadline_ns, now_ns()));
        int r;

        r = ppoll(fds, ELEMENTSOF(fds), deadline_ns == NSEC_INFINITY ? NULL : &ts, NULL);
        if (r < 0)
                return errno == EINTR ? 0 : negative_errno();
        if (r == 0)
                return -ETIMEDOUT;

        if (fds[0].revents)
                on_signal(s);
        if (fds[1].revents)
                on_notify(s);
        if (fds[2].revents)
                on_address(s);
        if (fds[3].revents)
                child_reap(&s->bus);
        if (fds[4].revents)
                child_reap(&s->service);
        if (fds[5].revents)
                child_reap(&s->command);
        return 0;
}

/* Waits until `c` sets `*flag`. Returns an exit status, 0 on success. */
static int session_wait_ready(Session *s, const Child *c, const bool *flag) {
        uint64_t deadline = ns_add(now_ns(), START_TIMEOUT_NS);
        char end[64];

        while (!*flag) {
                int r;

                if (s->ended_by)
                        return 128 + s->ended_by;
                if (!child_is_alive(c))
                        return fail("%s %s before it was ready", c->name, child_describe_end(c, end, sizeof(end)));
                r = session_step(s, deadline);
                if (r == -ETIMEDOUT)
                        return fail("%s did not get ready in time", c->name);
                if (r < 0)
                        return fail("cannot wait for %s: %s", c->name, strerror(-r));
        }
        return 0;
}

/* --- the three of them --- */

/* Makes a D-Bus address, in which all characters but these are quoted. */
static int bus_address(const char *kind, const char *dir, const char *name, char **ret) {
        size_t size = strlen(kind) + strlen("path=") + 3 * strlen(dir) + strlen(name) + 1;
        char *out = malloc(size), *p = out;

        if (!out)
                return -ENOMEM;
        p = stpcpy(stpcpy(p, kind), "path=");
        for (const char *c = dir; *c; c++)
                if (strchr("-_/.\\*", *c) || (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
                                (*c >= 'A' && *c <= 'Z'))
                        *p++ = *c;
                else
                        p += sprintf(p, "%%%02x", (unsigned char) *c);
        stpcpy(p, name);
        *ret = out;
        return 0;
}

/* Limits as on a session bus: the bus is as trusted as the command, and tests have thousands of clients. */
static int bus_write_config(const Session *s, const char *path) {
        FILE *f = fopen(path, "wxe");

        if (!f)
                return negative_errno();
        fprintf(f,
                        "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\"\n"
                        " \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
                        "<busconfig>\n"
                        "  <type>session</type>\n"
                        "  <keep_umask/>\n"
                        "  <listen>%s</listen>\n"
                        "  <auth>EXTERNAL</auth>\n"
                        "  <policy context=\"default\">\n"
                        "    <allow send_destination=\"*\" eavesdrop=\"true\"/>\n"
                        "    <allow eavesdrop=\"true\"/>\n"
                        "    <allow own=\"*\"/>\n"
                        "  </policy>\n",
                        s->address);
        static const struct {
                const char *name;
                unsigned value;
        } limits[] = {
                        {"max_incoming_bytes", 1000000000},
                        {"max_incoming_unix_fds", 250000000},
                        {"max_outgoing_bytes", 1000000000},
                        {"max_outgoing_unix_fds", 250000000},
                        {"max_message_size", 128 * 1024 * 1024},
                        {"auth_timeout", 240000},
                        {"pending_fd_timeout", 150000},
                        {"max_completed_connections", 100000},
                        {"max_incomplete_connections", 10000},
                        {"max_connections_per_user", 100000},
                        {"max_names_per_connection", 50000},
                        {"max_match_rules_per_connection", 50000},
                        {"max_replies_per_connection", 50000},
        };
        for (size_t i = 0; i < ELEMENTSOF(limits); i++)
                fprintf(f, "  <limit name=\"%s\">%u</limit>\n", limits[i].name, limits[i].value);
        fprintf(f, "</busconfig>\n");
        if (fclose(f) != 0)
                return negative_errno();
        return 0;
}

/* As root dbus-daemon complains about limits that it may not raise, so its messages are shown only if it fails. */
static void show_log(int fd) {
        char buf[4096];
        ssize_t n;

        if (lseek(fd, 0, SEEK_SET) < 0)
                return;
        while ((n = read(fd, buf, sizeof(buf))) > 0)
                if (write(STDERR_FILENO, buf, (size_t) n) < 0)
                        return;
}

static int start_bus(Session *s) {
        _cleanup_free_ char *config = NULL;
        _cleanup_close_ int log_fd = -EBADF;
        int pipe_fds[2], r;

        r = bus_address("unix:", s->dir, "/bus", &s->address);
        if (r < 0 || asprintf(&config, "--config-file=%s/bus.conf", s->dir) < 0)
                return fail("out of memory");
        log_fd = open(s->dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
        if (log_fd < 0)
                log_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        r = bus_write_config(s, strchr(config, '=') + 1);
        if (r < 0)
                return fail("cannot write the configuration of the bus: %s", strerror(-r));
        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return fail("cannot make a pipe: %m");

        r = child_fork(&s->bus, &s->original_mask, SIGKILL, true);
        if (r == 0) {
                char print_address[32];

                (void) fcntl(pipe_fds[1], F_SETFD, 0);
                snprintf(print_address, sizeof(print_address), "--print-address=%d", pipe_fds[1]);
                (void) dup2(log_fd, STDERR_FILENO);
                execlp("dbus-daemon", "dbus-daemon", config, "--nofork", "--nopidfile", "--nosyslog", print_address,
                                NULL);
                fail("cannot run dbus-daemon: %m");
                _exit(errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC);
        }
        close(pipe_fds[1]);
        s->address_fd = pipe_fds[0];
        if (r < 0)
                return fail("cannot start dbus-daemon: %s", strerror(-r));
        r = session_wait_ready(s, &s->bus, &s->bus_ready);
        if (r == EXIT_OURS)
                show_log(log_fd);
        return r;
}

static int notify_listen(Session *s) {
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        int n;

        n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/notify", s->dir);
        if (n < 0 || (size_t) n >= sizeof(sa.sun_path))
                return -ENAMETOOLONG;
        s->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (s->notify_fd < 0)
                return negative_errno();
        if (bind(s->notify_fd, (struct sockaddr *) &sa, sizeof(sa)) < 0)
                return negative_errno();
        return 0;
}

static int start_service(Session *s) {
        _cleanup_free_ char *path = NULL, *address = NULL, *config = NULL, *log_level = NULL, *notify = NULL,
                            *classes = NULL, *clients = NULL;
        int r;

        r = find_service(&path);
        if (r < 0)
                return fail("cannot find xschedd: %s", strerror(-r));
        (void) find_built_classes(&classes);
        r = notify_listen(s);
        if (r < 0)
                return fail("cannot listen for xschedd's readiness: %s", strerror(-r));
        if (asprintf(&address, "--bus-address=%s", s->address) < 0 ||
                        asprintf(&clients, "--socket=%s" CLIENTS, s->dir) < 0 ||
                        asprintf(&config, "--config=%s", strempty(s->config)) < 0 ||
                        asprintf(&log_level, "--log-level=%s", s->log_level ?: "warning") < 0 ||
                        asprintf(&notify, "%s/notify", s->dir) < 0)
                return fail("out of memory");

        r = child_fork(&s->service, &s->original_mask, SIGKILL, true);
        if (r == 0) {
                (void) setenv("NOTIFY_SOCKET", notify, 1);
                if (classes)
                        (void) setenv("XSCHED_CLASSES_DIR", classes, 0);
                execl(path, path, address, clients, "--log-target=console", log_level, s->config ? config : NULL, NULL);
                fail("cannot run %s: %m", path);
                _exit(EXIT_CANNOT_EXEC);
        }
        if (r < 0)
                return fail("cannot start xschedd: %s", strerror(-r));
        return session_wait_ready(s, &s->service, &s->service_ready);
}

static int select_policy(const Session *s) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_flush_close_unrefp)
        sd_bus *bus = NULL;
        int r;

        if (!s->policy)
                return 0;
        r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_address(bus, s->address);
        if (r >= 0)
                r = sd_bus_set_bus_client(bus, true);
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r < 0)
                return fail("cannot reach the private bus: %s", strerror(-r));

        r = sd_bus_call_method(bus, BUS_NAME, BUS_PATH, BUS_INTERFACE, "SetPolicy", &error, NULL, "ssta{sv}", "",
                        s->policy, UINT64_C(0), 0);
        if (r < 0)
                return fail("cannot select policy %s: %s", s->policy, error.message ?: strerror(-r));
        return 0;
}

static int set_command_environment(const Session *s) {
        _cleanup_free_ char *clients = NULL, *both = NULL;
        int r;

        (void) unsetenv("XSCHED_JOB"); /* a token of another service */
        if (bus_address(CLIENT_SOCKET_KIND, s->dir, CLIENTS, &clients) < 0 ||
                        asprintf(&both, "%s;%s", clients, s->address) < 0 || setenv("XSCHED_BUS_ADDRESS", both, 1) < 0)
                return fail("out of memory");
        r = shim_setenv(s->shim);
        if (r < 0)
                return fail("cannot name the shim in the environment: %s", strerror(-r));
        r = tools_setenv();
        if (r < 0)
                return fail("cannot name the tools in the environment: %s", strerror(-r));
        return 0;
}

static int run_command(Session *s) {
        bool told = false;
        char end[64];
        int r;

        r = set_command_environment(s);
        if (r != 0)
                return r;
        if (s->ended_by)
                return 128 + s->ended_by;
        r = child_fork(&s->command, &s->original_mask, SIGTERM, false);
        if (r == 0) {
                execvp(s->command_line[0], s->command_line);
                r = errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_EXEC;
                fail("cannot run %s: %m", s->command_line[0]);
                _exit(r);
        }
        if (r < 0)
                return fail("cannot start %s: %s", s->command_line[0], strerror(-r));

        while (child_is_alive(&s->command)) {
                const Child *lost = !child_is_alive(&s->service) ? &s->service
                                : !child_is_alive(&s->bus)       ? &s->bus
                                                                 : NULL;
                if (lost && !told) {
                        told = true;
                        fail("%s %s; the command runs on, unscheduled", lost->name,
                                        child_describe_end(lost, end, sizeof(end)));
                }
                r = session_step(s, NSEC_INFINITY);
                if (r < 0)
                        return fail("cannot wait for the command: %s", strerror(-r));
        }
        return s->command.code == CLD_EXITED ? s->command.status : 128 + s->command.status;
}

/* Sends SIGTERM, and SIGKILL when the child does not end. SIGCONT, because it may be stopped. */
static void stop_child(Session *s, Child *c) {
        uint64_t deadline = ns_add(now_ns(), STOP_TIMEOUT_NS);
        bool killed = false;

        if (!child_is_alive(c))
                return;
        (void) pidfd_send_signal(c->pidfd, SIGTERM, NULL, 0);
        (void) pidfd_send_signal(c->pidfd, SIGCONT, NULL, 0);
        while (child_is_alive(c)) {
                int r = session_step(s, killed ? NSEC_INFINITY : deadline);

                if (r < 0 && killed)
                        return;
                if (r < 0) {
                        (void) pidfd_send_signal(c->pidfd, SIGKILL, NULL, 0);
                        killed = true;
                }
        }
}

static void session_stop(Session *s) {
        stop_child(s, &s->command);
        stop_child(s, &s->service);
        stop_child(s, &s->bus);
        keeper_stop(&s->keeper);
        safe_close(s->address_fd);
        safe_close(s->notify_fd);
        safe_close(s->signal_fd);
        free(s->dir);
        free(s->address);
}

static int session_run(Session *s) {
        sigset_t mask;
        int r;

        (void) sigemptyset(&mask);
        static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
        for (size_t i = 0; i < ELEMENTSOF(forwarded); i++)
                (void) sigaddset(&mask, forwarded[i]);
        (void) sigprocmask(SIG_BLOCK, &mask, &s->original_mask);
        s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        if (s->signal_fd < 0)
                return fail("cannot watch for signals: %m");

        r = keeper_start(&s->keeper, &s->dir);
        if (r < 0)
                return fail("cannot make a temporary directory: %s", strerror(-r));
        r = start_bus(s);
        if (r == 0)
                r = start_service(s);
        if (r == 0)
                r = select_policy(s);
        if (r == 0)
                r = run_command(s);
        return r;
}

/* --- the command line --- */

static void help(void) {
        printf("xsched-session [OPTION...] [--] COMMAND [ARGUMENT...]\n"
               "\n"
               "Runs COMMAND with a private bus and an xschedd of its own.\n"
               "\n"
               "      --policy=POLICY  schedule every device by this policy\n"
               "      --config=FILE    configuration of xschedd, instead of the installed one\n"
               "      --log-level=LEVEL\n"
               "                       what xschedd says on standard error: warning is the default\n"
               "      --shim=HOW       how COMMAND gets the shim: layer (OPENCL_LAYERS, the default),\n"
               "                       preload (LD_PRELOAD) or none\n"
               "  -h, --help           show this help\n"
               "      --version        show the version\n"
               "\n"
               "Exit status: that of COMMAND, 128+N when signal N ended it; 125 when the session could not be\n"
               "set up, 126 when COMMAND could not be run, 127 when it was not found.\n");
}

/* Returns -1 to go on, or an exit status. */
static int parse_arguments(int argc, char *argv[], Session *s) {
        enum {
                OPTION_POLICY = 0x100,
                OPTION_CONFIG,
                OPTION_LOG_LEVEL,
                OPTION_SHIM,
                OPTION_VERSION,
        };
        static const struct option options[] = {
                        {"policy", required_argument, NULL, OPTION_POLICY},
                        {"config", required_argument, NULL, OPTION_CONFIG},
                        {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
                        {"shim", required_argument, NULL, OPTION_SHIM},
                        {"help", no_argument, NULL, 'h'},
                        {"version", no_argument, NULL, OPTION_VERSION},
                        {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "+h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        help();
                        return 0;
                case OPTION_VERSION:
                        printf("xsched-session %s\n", XSCHED_VERSION);
                        return 0;
                case OPTION_POLICY:
                        s->policy = optarg;
                        break;
                case OPTION_CONFIG:
                        s->config = optarg;
                        break;
                case OPTION_LOG_LEVEL:
                        s->log_level = optarg;
                        break;
                case OPTION_SHIM:
                        if (shim_mode_from_string(optarg) < 0)
                                return fail("--shim= is one of layer, preload, none");
                        s->shim = (ShimMode) shim_mode_from_string(optarg);
                        break;
                default:
                        return EXIT_OURS;
                }

        if (optind >= argc)
                return fail("no command; try --help");
        s->command_line = argv + optind;
        return -1;
}

int main(int argc, char *argv[]) {
        Session s = {
                        .keeper.fd = -EBADF,
                        .signal_fd = -EBADF,
                        .notify_fd = -EBADF,
                        .address_fd = -EBADF,
                        .bus = {.name = "dbus-daemon", .pidfd = -EBADF},
                        .service = {.name = "xschedd", .pidfd = -EBADF},
                        .command = {.name = "the command", .pidfd = -EBADF},
        };
        int r;

        r = parse_arguments(argc, argv, &s);
        if (r == 0 && fflush(stdout) != 0)
                r = fail("cannot write: %m");
        if (r >= 0)
                return r;
        r = session_run(&s);
        session_stop(&s);
        return r;
}
