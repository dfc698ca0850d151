/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-exporter: what the scheduler does, for Prometheus
 */

#include <config.h>

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "common/parse-util.h"
#include "common/whole-file.h"
#include "common/write-all.h"
#include "tools/exporter/http.h"

#define IDLE_DEFAULT_NS  (600 * NSEC_PER_SEC)
#define TEXTFILE_DEFAULT "/var/lib/prometheus/node-exporter/xsched.prom"

typedef struct Exporter {
        CollectorOptions options;
        const char *textfile;
        uint64_t idle_ns;

        sd_event *event;
        Collector *collector;
        Http *http;
        sd_event_source *idle;
} Exporter;

static int complain(const char *what, int r) {
        fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(-r));
        return EXIT_FAILURE;
}

/* --- serving --- */

static void serve_done(void *userdata) {
        Exporter *e = userdata;

        http_answer(e->http);
}

/* The socket stays with systemd: the next process serves new connections. */
static int on_idle(sd_event_source *s, uint64_t usec, void *userdata) {
        Exporter *e = userdata;
        uint64_t since = http_idle_since(e->http), now = now_ns();
        bool idle = since > 0 && !collector_is_busy(e->collector);
        uint64_t until = idle ? ns_add(since, e->idle_ns) : now + e->idle_ns;

        if (until <= now)
                return sd_event_exit(e->event, EXIT_SUCCESS);
        (void) sd_event_source_set_time(s, DIV_ROUND_UP(until, NSEC_PER_USEC));
        return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int take_sockets(const int **ret, size_t *ret_n) {
        static int sockets[64];
        int n = sd_listen_fds(true);

        if (n < 0)
                return n;
        for (int i = 0; i < n && i < (int) ELEMENTSOF(sockets); i++) {
                sockets[i] = SD_LISTEN_FDS_START + i;
                int r = sd_is_socket(sockets[i], AF_UNSPEC, SOCK_STREAM, true);
                if (r <= 0)
                        return r < 0 ? r : -EINVAL;
        }
        *ret = sockets;
        *ret_n = MIN((size_t) n, ELEMENTSOF(sockets));
        return 0;
}

static int serve(Exporter *e) {
        const int *sockets;
        size_t n = 0;

        int r = take_sockets(&sockets, &n);
        if (r < 0)
                return complain("The sockets are none that listen", r);
        if (n == 0) {
                fprintf(stderr, "%s: it is started by its socket, xsched-exporter.socket; see also --textfile\n",
                                program_invocation_short_name);
                return EXIT_FAILURE;
        }
        e->options.count_others = true;
        r = collector_new(e->event, &e->options, serve_done, e, &e->collector);
        if (r >= 0)
                r = http_new(e->event, e->collector, sockets, n, &e->http);
        if (r >= 0 && e->idle_ns != NSEC_INFINITY)
                r = sd_event_add_time_relative(
                                e->event, &e->idle, CLOCK_MONOTONIC, e->idle_ns / NSEC_PER_USEC, 0, on_idle, e);
        if (r < 0)
                return complain("It could not begin", r);
        (void) sd_notify(false, "READY=1");
        r = sd_event_loop(e->event);
        return r < 0 ? complain("The event loop failed", r) : r;
}

/* --- writing --- */

/* For node_exporter's textfile collector; "-": standard output. */
static int write_textfile(const char *path, const char *text, size_t size) {
        return streq(path, "-") ? write_all(STDOUT_FILENO, text, size) : whole_file_write(path, text, size, 0);
}

static void write_done(void *userdata) {
        Exporter *e = userdata;
        const char *text = NULL;
        size_t size = 0;

        int r = collector_render(e->collector, FORMAT_TEXT, &text, &size);
        if (r >= 0)
                r = write_textfile(e->textfile, text, size);
        if (r < 0)
                (void) complain(e->textfile, r);
        (void) sd_event_exit(e->event, r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int write_once(Exporter *e) {
        int r = collector_new(e->event, &e->options, write_done, e, &e->collector);
        if (r >= 0)
                r = collector_want(e->collector);
        if (r < 0)
                return complain("It could not begin", r);
        r = sd_event_loop(e->event);
        return r < 0 ? complain("The event loop failed", r) : r;
}

/* --- the command line --- */

static int show_help(void) {
        printf("%s [OPTIONS...]\n"
               "\n"
               "Metrics of the GPU scheduling service, for Prometheus. Started by\n"
               "xsched-exporter.socket, it serves metrics over HTTP.\n"
               "\n"
               "  -h --help               Show this help\n"
               "     --version            Show the version\n"
               "     --textfile[=FILE]    Write the metrics to FILE, once, for the textfile\n"
               "                          collector of node_exporter (- is standard output;\n"
               "                          default: " TEXTFILE_DEFAULT ")\n"
               "     --max-series=N       Series at most; what has none is summed up (%u)\n"
               "     --idle-timeout=SPAN  Exit after this time without a scrape (10min)\n"
               "     --no-measure         Do not have devices measured (use, memory,\n"
               "                          temperature, power)\n"
               "     --host-processes     Count processes that have a GPU open, by whether\n"
               "                          they are scheduled\n"
               "     --bus-address=ADDR   Ask the service on the bus at ADDR\n"
               "\n"
               "See the xsched-exporter(8) man page for details.\n",
                        program_invocation_short_name, SERIES_DEFAULT);
        return 0;
}

static int wrong(const char *option, const char *value) {
        fprintf(stderr, "%s: %s=%s: not such a value\n", program_invocation_short_name, option, value);
        return -EINVAL;
}

/* Returns > 0: go on; otherwise a message was printed. */
static int parse(int argc, char *argv[], Exporter *e) {
        enum {
                OPTION_VERSION = 0x100,
                OPTION_TEXTFILE,
                OPTION_MAX_SERIES,
                OPTION_IDLE_TIMEOUT,
                OPTION_NO_MEASURE,
                OPTION_HOST_PROCESSES,
                OPTION_BUS_ADDRESS,
        };
        static const struct option table[] = {
                        {"help", no_argument, NULL, 'h'},
                        {"version", no_argument, NULL, OPTION_VERSION},
                        {"textfile", optional_argument, NULL, OPTION_TEXTFILE},
                        {"max-series", required_argument, NULL, OPTION_MAX_SERIES},
                        {"idle-timeout", required_argument, NULL, OPTION_IDLE_TIMEOUT},
                        {"no-measure", no_argument, NULL, OPTION_NO_MEASURE},
                        {"host-processes", no_argument, NULL, OPTION_HOST_PROCESSES},
                        {"bus-address", required_argument, NULL, OPTION_BUS_ADDRESS},
                        {},
        };
        uint64_t v;
        int o;

        while ((o = getopt_long(argc, argv, "h", table, NULL)) >= 0)
                switch (o) {
                case 'h':
                        return show_help();
                case OPTION_VERSION:
                        printf("xsched-exporter %s\n", XSCHED_VERSION);
                        return 0;
                case OPTION_TEXTFILE:
                        e->textfile = optarg ?: TEXTFILE_DEFAULT;
                        break;
                case OPTION_MAX_SERIES:
                        if (parse_uint64(optarg, SERIES_MIN, SERIES_MAX, &v) < 0)
                                return wrong("--max-series", optarg);
                        e->options.max_series = (size_t) v;
                        break;
                case OPTION_IDLE_TIMEOUT:
                        if (parse_nsec(optarg, &e->idle_ns) < 0 || e->idle_ns == 0)
                                return wrong("--idle-timeout", optarg);
                        break;
                case OPTION_NO_MEASURE:
                        e->options.measure = false;
                        break;
                case OPTION_HOST_PROCESSES:
                        e->options.host_processes = true;
                        break;
                case OPTION_BUS_ADDRESS:
                        e->options.bus_address = optarg;
                        break;
                default:
                        return -EINVAL;
                }
        if (optind < argc) {
                fprintf(stderr, "%s: too many arguments\n", program_invocation_short_name);
                return -EINVAL;
        }
        return 1;
}

int main(int argc, char *argv[]) {
        Exporter e = {
                        .options = {.max_series = SERIES_DEFAULT, .measure = true},
                        .idle_ns = IDLE_DEFAULT_NS,
        };

        e.options.bus_address = getenv("XSCHED_BUS_ADDRESS");
        if (isempty(e.options.bus_address))
                e.options.bus_address = NULL;
        int r = parse(argc, argv, &e);
        if (r == 0 && fflush(stdout) != 0)
                return complain("Standard output", negative_errno());
        if (r <= 0)
                return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        r = sd_event_default(&e.event);
        if (r < 0)
                return complain("No event loop", r);
        (void) signal(SIGPIPE, SIG_IGN);
        int status = e.textfile ? write_once(&e) : serve(&e);
        sd_event_source_unref(e.idle);
        http_free(e.http);
        collector_free(e.collector);
        sd_event_unref(e.event);
        return status;
}
