/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * top: who uses the devices, refreshing
 *
 * Shares come from the counters of two snapshots and the time between them, so they are true for that time whatever the
 * refresh is. The service accounts time per group; a client's share is the group's, divided by the work that its
 * clients completed (launches times their mean time; launches alone where nothing was timed).
 */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

#include "common/time-util.h"
#include "tools/shared/ctl-bus.h"
#include "tools/shared/terminal.h"
#include "tools/xschedctl/xschedctl-list.h"
#include "tools/xschedctl/xschedctl-usage.h"
#include "tools/xschedctl/xschedctl.h"

typedef enum TopSort {
        TOP_SORT_GPU,
        TOP_SORT_WAIT,
        TOP_SORT_LAUNCHES,
        TOP_SORT_PREEMPTED,
        TOP_SORT_NAME,
        _TOP_SORT_MAX,
} TopSort;

static const char *const top_sort_table[_TOP_SORT_MAX] = {
                [TOP_SORT_GPU] = "gpu",
                [TOP_SORT_WAIT] = "wait",
                [TOP_SORT_LAUNCHES] = "launches",
                [TOP_SORT_PREEMPTED] = "preempted",
                [TOP_SORT_NAME] = "name",
};
static const char top_sort_keys[_TOP_SORT_MAX + 1] = "gwlpn";

static int top_sort_from_string(const char *s) {
        for (size_t i = 0; i < _TOP_SORT_MAX; i++)
                if (streq(top_sort_table[i], s))
                        return (int) i;
        return -EINVAL;
}

/* One group, or one client, between two snapshots. */
typedef struct Usage {
        const Object *object;
        double gpu;            /* percent of one device */
        double wait;           /* percent of the time; */
        double drain, service; /* of that */
        double kept;
        double launches;
        double preempted;
        double work; /* of a client: its part of the group's work */
        size_t first_client, n_clients;
} Usage;

typedef struct Top {
        Ctl *ctl;
        TopSort sort;
        bool clients;
        Snapshot now, before;
        Value statistics, statistics_before;
        uint64_t now_ns, before_ns; /* before_ns 0: no rates yet */
        Usage *groups, *members;
        size_t n_groups, n_members;
} Top;

static void top_done(Top *t) {
        snapshot_done(&t->now);
        snapshot_done(&t->before);
        value_done(&t->statistics);
        value_done(&t->statistics_before);
        free(t->groups);
        free(t->members);
}

/* --- usage --- */

/* Growth of a counter per second. A counter that shrank belongs to a new object of the same name. */
static double rate(const Top *t, const Object *now, const Object *before, const char *property) {
        uint64_t a = before ? object_get_uint(before, property) : 0, b = object_get_uint(now, property);
        double seconds = (double) (t->now_ns - t->before_ns) / (double) NSEC_PER_SEC;

        return t->before_ns == 0 || b < a || seconds <= 0 ? 0 : (double) (b - a) / seconds;
}

#define PERCENT_OF_USEC_RATE (100.0 / 1e6)

/* Device time per second of each client's launches, by the client's place in the snapshot. */
static double *measure_work(const Top *t) {
        double *work = calloc(t->now.n_objects + 1, sizeof(double));
        const Object *q;

        if (!work)
                return NULL;
        SNAPSHOT_FOREACH(q, &t->now, OBJECT_QUEUE) {
                const Object *before = snapshot_find_by_id(&t->before, OBJECT_QUEUE, object_get_uint(q, "Id"));
                const Object *client = snapshot_find_by_id(
                                &t->now, OBJECT_CLIENT, object_id_from_path(object_get_string(q, "Client")));

                if (client)
                        work[client - t->now.objects] +=
                                        value_get_double(object_get(q, "MeanUSec")) * rate(t, q, before, "Completed");
        }
        return work;
}

static void measure_client(const Top *t, Usage *u, const Object *client, const double *work) {
        const Object *before = snapshot_find_by_id(&t->before, OBJECT_CLIENT, object_get_uint(client, "Id"));

        *u = (Usage){
                        .object = client,
                        .wait = rate(t, client, before, "HeldUSec") * PERCENT_OF_USEC_RATE,
                        .launches = rate(t, client, before, "Submitted"),
                        .work = work[client - t->now.objects],
        };
}

static void measure_group(Top *t, Usage *u, const Object *group, const double *work) {
        const Object *before = snapshot_find_by_name(&t->before, OBJECT_GROUP, object_get_string(group, "Name")),
                     *client;
        double timed = 0;

        *u = (Usage){
                        .object = group,
                        .gpu = rate(t, group, before, "GPUTimeUSec") * PERCENT_OF_USEC_RATE,
                        .wait = rate(t, group, before, "WaitUSec") * PERCENT_OF_USEC_RATE,
                        .drain = rate(t, group, before, "DrainWaitUSec") * PERCENT_OF_USEC_RATE,
                        .service = rate(t, group, before, "ServiceWaitUSec") * PERCENT_OF_USEC_RATE,
                        .kept = rate(t, group, before, "KeptUSec") * PERCENT_OF_USEC_RATE,
                        .preempted = rate(t, group, before, "NPreempted"),
                        .first_client = t->n_members,
        };
        /* Parts of a wait are counted when they end, which may be in the next sample. */
        u->drain = MIN(u->drain, u->wait);
        u->service = MIN(u->service, u->wait - u->drain);
        SNAPSHOT_FOREACH(client, &t->now, OBJECT_CLIENT) {
                Usage *m = t->members + t->n_members;

                if (!streq(object_get_string(client, "Group"), object_get_string(group, "Name")))
                        continue;
                measure_client(t, m, client, work);
                u->launches += m->launches;
                timed += m->work;
                t->n_members++;
                u->n_clients++;
        }
        /* The run time of the group itself, without groups below. */
        double run = rate(t, group, before, "RunUSec") * PERCENT_OF_USEC_RATE;
        for (size_t i = u->first_client; i < t->n_members; i++) {
                Usage *m = t->members + i;
                double all = timed > 0 ? timed : u->launches, own = timed > 0 ? m->work : m->launches;

                m->gpu = all > 0 ? run * own / all : 0;
        }
}

static int usage_compare(const void *pa, const void *pb, void *userdata) {
        const Usage *a = pa, *b = pb;
        const Top *t = userdata;
        double x = 0, y = 0;

        switch (t->sort) {
        case TOP_SORT_GPU:
                x = a->gpu, y = b->gpu;
                break;
        case TOP_SORT_WAIT:
                x = a->wait, y = b->wait;
                break;
        case TOP_SORT_LAUNCHES:
                x = a->launches, y = b->launches;
                break;
        case TOP_SORT_PREEMPTED:
                x = a->preempted, y = b->preempted;
                break;
        default:
                break;
        }
        if (x != y)
                return x > y ? -1 : 1;
        /* Keeps the snapshots' order, by name and number. */
        return a->object < b->object ? -1 : a->object > b->object;
}

static int top_measure(Top *t) {
        _cleanup_free_ double *work = measure_work(t);
        const Object *group;

        free(t->groups);
        free(t->members);
        t->n_groups = t->n_members = 0;
        t->groups = calloc(t->now.n_objects + 1, sizeof(Usage));
        t->members = calloc(t->now.n_objects + 1, sizeof(Usage));
        if (!t->groups || !t->members || !work)
                return -ENOMEM;
        SNAPSHOT_FOREACH(group, &t->now, OBJECT_GROUP)
        measure_group(t, t->groups + t->n_groups++, group, work);
        qsort_r(t->groups, t->n_groups, sizeof(Usage), usage_compare, t);
        for (size_t i = 0; i < t->n_groups; i++)
                qsort_r(t->members + t->groups[i].first_client, t->groups[i].n_clients, sizeof(Usage), usage_compare,
                                t);
        return 0;
}

/* --- the table --- */

enum {
        TOP_NAME,
        TOP_KIND,
        TOP_PID,
        TOP_CLASS,
        TOP_PRIORITY,
        TOP_WEIGHT,
        TOP_STATE,
        TOP_CLIENTS,
        TOP_GPU,
        TOP_MARK,
        TOP_SOURCE,
        TOP_KEPT,
        TOP_IDLE,
        TOP_WAIT,
        TOP_POLICY,
        TOP_DRAIN,
        TOP_SERVICE,
        TOP_LAUNCHES,
        TOP_PREEMPTED,
        _TOP_COLUMN_MAX,
};

static const Column top_columns[_TOP_COLUMN_MAX] = {
                [TOP_NAME] = {"GROUP", "name", CELL_PLAIN, COLUMN_ELASTIC | COLUMN_TREE},
                [TOP_KIND] = {"", "kind", CELL_PLAIN, COLUMN_JSON},
                [TOP_PID] = {"", "pid", CELL_PLAIN, COLUMN_JSON},
                [TOP_CLASS] = {"CLASS", "class", CELL_PLAIN, COLUMN_WIDE},
                [TOP_PRIORITY] = {"PRIO", "priority", CELL_PLAIN, COLUMN_RIGHT},
                [TOP_WEIGHT] = {"WEIGHT", "weight", CELL_PLAIN, COLUMN_RIGHT},
                [TOP_STATE] = {"STATE", "state", CELL_STATE, 0},
                [TOP_CLIENTS] = {"CLIENTS", "clients", CELL_PLAIN, COLUMN_RIGHT | COLUMN_WIDE},
                [TOP_GPU] = {"%GPU", "gpu_percent", CELL_PERCENT, COLUMN_RIGHT},
                [TOP_MARK] = {"", "", CELL_PLAIN, COLUMN_IF_KNOWN | COLUMN_TEXT},
                [TOP_SOURCE] = {"", "gpu_time_source", CELL_PLAIN, COLUMN_JSON},
                [TOP_KEPT] = {"", "kept_percent", CELL_PERCENT, COLUMN_JSON},
                [TOP_IDLE] = {"", "idle_percent", CELL_PERCENT, COLUMN_JSON},
                [TOP_WAIT] = {"%WAIT", "wait_percent", CELL_PERCENT, COLUMN_RIGHT},
                [TOP_POLICY] = {"%POL", "policy_wait_percent", CELL_PERCENT, COLUMN_RIGHT},
                [TOP_DRAIN] = {"%DRAIN", "drain_wait_percent", CELL_PERCENT, COLUMN_RIGHT},
                [TOP_SERVICE] = {"%SERV", "service_wait_percent", CELL_PERCENT, COLUMN_RIGHT},
                [TOP_LAUNCHES] = {"LAUNCH/S", "launches_per_sec", CELL_RATE, COLUMN_RIGHT | COLUMN_WIDE},
                [TOP_PREEMPTED] = {"PREEMPT/S", "preempted_per_sec", CELL_RATE, COLUMN_RIGHT | COLUMN_WIDE},
};

static void fill_common(const Top *t, const Usage *u, Value *cells) {
        cells[TOP_CLASS] = value_copy(object_get(u->object, "Class"));
        cells[TOP_PRIORITY] = value_copy(object_get(u->object, "Priority"));
        cells[TOP_WEIGHT] = value_copy(object_get(u->object, "Weight"));
        if (t->before_ns == 0)
                return;
        cells[TOP_GPU] = value_double(u->gpu);
        cells[TOP_WAIT] = value_double(u->wait);
        cells[TOP_LAUNCHES] = value_double(u->launches);
}

static int add_client(const Top *t, Table *table, const Usage *u, size_t parent) {
        _cleanup_free_ char *name = NULL;
        Value *cells = table_add(table, parent);

        if (!cells ||
                        asprintf(&name, "%u %s", (unsigned) object_get_uint(u->object, "PID"),
                                        object_get_string(u->object, "Command")) < 0)
                return -ENOMEM;
        fill_common(t, u, cells);
        cells[TOP_NAME] = value_string(name);
        cells[TOP_KIND] = value_string("client");
        cells[TOP_PID] = value_copy(object_get(u->object, "PID"));
        cells[TOP_STATE] = value_copy(object_get(u->object, "State"));
        return 0;
}

static void fill_group(const Top *t, const Usage *u, Value *cells) {
        const char *source = group_time_source(u->object);

        fill_common(t, u, cells);
        cells[TOP_NAME] = value_copy(object_get(u->object, "Name"));
        cells[TOP_KIND] = value_string("group");
        cells[TOP_STATE] = value_string(group_state(&t->now, u->object));
        cells[TOP_CLIENTS] = value_copy(object_get(u->object, "NClients"));
        cells[TOP_SOURCE] = isempty(source) ? (Value){} : value_string(source);
        cells[TOP_MARK] = value_string(time_source_mark(source, group_state(&t->now, u->object)));
        if (t->before_ns == 0)
                return;
        cells[TOP_PREEMPTED] = value_double(u->preempted);
        cells[TOP_KEPT] = value_double(u->kept);
        cells[TOP_POLICY] = value_double(MAX(u->wait - u->drain - u->service, 0.0));
        cells[TOP_DRAIN] = value_double(u->drain);
        cells[TOP_SERVICE] = value_double(u->service);
}

static int top_table(const Top *t, Table *table) {
        for (size_t i = 0; i < t->n_groups; i++) {
                const Usage *u = t->groups + i;
                size_t row = table->n_rows;
                Value *cells = table_add(table, TABLE_NO_PARENT);
                int r;

                if (!cells)
                        return -ENOMEM;
                fill_group(t, u, cells);
                for (size_t k = 0; t->clients && k < u->n_clients; k++) {
                        r = add_client(t, table, t->members + u->first_client + k, row);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

/* --- devices --- */

static double elapsed_us(const Top *t) {
        return t->before_ns == 0 ? 0 : (double) ns_sub(t->now_ns, t->before_ns) / (double) NSEC_PER_USEC;
}

/* For scripts: rows of another kind after the groups. */
static int add_device_rows(const Top *t, Table *table) {
        DeviceShare d;

        for (size_t i = 0; device_share_next(&t->statistics, &t->statistics_before, elapsed_us(t), &i, &d);) {
                Value *cells = table_add(table, TABLE_NO_PARENT);

                if (!cells)
                        return -ENOMEM;
                cells[TOP_NAME] = value_string(d.id);
                cells[TOP_KIND] = value_string("device");
                if (!d.known)
                        continue;
                cells[TOP_GPU] = value_double(d.run);
                cells[TOP_KEPT] = value_double(d.kept);
                cells[TOP_IDLE] = value_double(d.idle);
        }
        return 0;
}

static int print_screen(const Top *t, const Table *devices, const Table *table) {
        _cleanup_free_ char *text = NULL;
        size_t n, height = terminal_height(), above = devices->n_rows > 0 ? MIN(devices->n_rows, height / 3) + 2 : 0;
        char delay[32];
        FILE *f;
        int r;

        f = open_memstream(&text, &n);
        if (!f)
                return negative_errno();
        fprintf(f, "xschedd %s: %zu groups, %u clients, %u queues; sorted by %s, every %s; q ends, h helps\n\n",
                        object_get_string(&t->now.manager, "Version"), t->n_groups,
                        (unsigned) object_get_uint(&t->now.manager, "NClients"),
                        (unsigned) object_get_uint(&t->now.manager, "NQueues"), top_sort_table[t->sort],
                        format_usec(delay, sizeof(delay), t->ctl->delay_ns / NSEC_PER_USEC));
        r = above > 0 ? table_print(devices, f, terminal_width(t->ctl), above - 2, true) : 0;
        if (above > 0)
                fputc('\n', f);
        if (r >= 0)
                r = table_print(table, f, terminal_width(t->ctl), height > above + 4 ? height - above - 4 : 1, true);
        if (fclose(f) != 0 || r < 0)
                return r < 0 ? r : -ENOMEM;

        /* Overwrites the screen in place, so that it does not flicker. */
        fputs("\033[H", stdout);
        for (const char *line = text; *line;) {
                const char *end = strchrnul(line, '\n');
                printf("%.*s\033[K\n", (int) (end - line), line);
                line = *end ? end + 1 : end;
        }
        fputs("\033[J", stdout);
        fflush(stdout);
        return 0;
}

static int print_batch(const Top *t, const Table *devices, const Table *table) {
        size_t width = terminal_width(t->ctl);
        int r = 0;

        if (t->ctl->json != JSON_OFF) {
                Json j = {.f = stdout, .pretty = t->ctl->json == JSON_PRETTY};
                r = table_print_json(table, &j, NULL);
                if (r < 0)
                        return r;
                return fflush(stdout) == 0 ? 0 : negative_errno();
        }
        if (devices->n_rows > 0) {
                r = table_print(devices, stdout, width, devices->n_rows, t->ctl->legend);
                putchar('\n');
        }
        if (r >= 0)
                r = table_print(table, stdout, width, table->n_rows, t->ctl->legend);
        putchar('\n');
        return fflush(stdout) == 0 ? r : negative_errno();
}

static int top_print(const Top *t, bool screen) {
        _cleanup_(table_done)
        Table table = TABLE_INIT(top_columns);
        _cleanup_(table_done)
        Table devices = {};
        int r;

        r = top_table(t, &table);
        if (r >= 0)
                r = t->ctl->json != JSON_OFF
                                ? add_device_rows(t, &table)
                                : device_share_table(&t->statistics, &t->statistics_before, elapsed_us(t), &devices);
        if (r < 0)
                return r;
        return screen ? print_screen(t, &devices, &table) : print_batch(t, &devices, &table);
}

/* --- the loop --- */

/* An exit status. */
static int top_sample(Top *t) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        Value statistics = {};
        Snapshot s = {};
        int r;

        r = snapshot_fetch(t->ctl, &error, &s);
        if (r >= 0)
                r = statistics_fetch(t->ctl, &error, &statistics);
        if (r < 0) {
                snapshot_done(&s);
                terminal_restore();
                return ctl_call_failed(t->ctl, &error, r, NULL);
        }
        value_done(&t->statistics_before);
        t->statistics_before = t->statistics;
        t->statistics = statistics;
        snapshot_done(&t->before);
        t->before = t->now;
        t->before_ns = t->now_ns;
        t->now = s;
        t->now_ns = now_ns();
        return top_measure(t) < 0 ? ctl_fail("out of memory") : 0;
}

static void print_help(void) {
        printf("\033[H"
               "Sort by: g GPU share, w waiting, l launches, p preemptions, n name\033[K\n"
               "c clients, + - delay, space refreshes, q ends; any key goes on\033[K\n\033[J");
        fflush(stdout);
}

typedef enum TopEvent {
        TOP_REFRESH, /* time for a new sample */
        TOP_REDRAW,  /* the same, shown anew */
        TOP_HELP,
        TOP_QUIT,
} TopEvent;

static TopEvent on_key(Top *t, char key) {
        const char *sort = key ? strchr(top_sort_keys, key) : NULL;
        uint64_t step = t->ctl->delay_ns < NSEC_PER_SEC + (key == '-') ? NSEC_PER_SEC / 4 : NSEC_PER_SEC;

        if (sort) {
                t->sort = (TopSort) (sort - top_sort_keys);
                return TOP_REDRAW;
        }
        switch (key) {
        case 'q':
        case '\0':
                return TOP_QUIT;
        case '+':
                t->ctl->delay_ns += step;
                return TOP_REDRAW;
        case '-':
                t->ctl->delay_ns = t->ctl->delay_ns > 2 * step ? t->ctl->delay_ns - step : NSEC_PER_SEC / 4;
                return TOP_REDRAW;
        case 'c':
                t->clients = !t->clients;
                return TOP_REDRAW;
        case 'h':
        case '?':
                return TOP_HELP;
        case ' ':
        case '\n':
                return TOP_REFRESH;
        default:
                return TOP_REDRAW;
        }
}

static TopEvent on_signal(int fd) {
        struct signalfd_siginfo si;

        if (read(fd, &si, sizeof(si)) != (ssize_t) sizeof(si))
                return TOP_REDRAW;
        if (si.ssi_signo == SIGWINCH)
                return TOP_REDRAW;
        if (si.ssi_signo != SIGTSTP)
                return TOP_QUIT;
        terminal_restore();
        (void) raise(SIGSTOP);
        (void) terminal_take();
        return TOP_REDRAW;
}

static TopEvent top_wait(Top *t, int signal_fd, bool keys, uint64_t until_ns) {
        struct pollfd fds[] = {
                        {.fd = signal_fd, .events = POLLIN},
                        {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN},
        };
        struct timespec ts = ns_to_timespec(ns_sub(until_ns, now_ns()));
        char key = '\0';
        int r;

        r = ppoll(fds, ELEMENTSOF(fds), &ts, NULL);
        if (r < 0)
                return errno == EINTR ? TOP_REDRAW : TOP_QUIT;
        if (r == 0)
                return TOP_REFRESH;
        if (fds[0].revents)
                return on_signal(signal_fd);
        /* A terminal that hung up reads as end of file: quit. */
        return read(STDIN_FILENO, &key, 1) == 1 && key ? on_key(t, key) : TOP_QUIT;
}

static int top_loop(Top *t, int signal_fd, bool screen) {
        uint64_t iterations = t->ctl->iterations, shown = 0, until;
        bool helping = false;
        int r;

        r = top_sample(t);
        if (r == 0 && screen && top_print(t, screen) < 0)
                r = ctl_fail("cannot print");
        until = ns_add(now_ns(), t->ctl->delay_ns);
        while (r == 0 && (iterations == 0 || shown < iterations)) {
                /* The help stays until it has been read. */
                TopEvent event = top_wait(t, signal_fd, screen, helping ? NSEC_INFINITY : until);

                if (event == TOP_QUIT)
                        return 0;
                helping = event == TOP_HELP;
                if (helping) {
                        print_help();
                        continue;
                }
                if (event == TOP_REFRESH) {
                        r = top_sample(t);
                        until = ns_add(now_ns(), t->ctl->delay_ns);
                        shown++;
                } else
                        r = top_measure(t) < 0 ? ctl_fail("out of memory") : 0;
                if (r == 0 && (screen || event == TOP_REFRESH) && top_print(t, screen) < 0)
                        r = ctl_fail("cannot print");
        }
        return r;
}

int verb_top(Ctl *c, int argc, char *argv[]) {
        bool screen = !c->batch && c->json == JSON_OFF && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        _cleanup_(top_done)
        Top t = {.ctl = c, .clients = c->clients};
        _cleanup_close_ int signal_fd = -EBADF;
        sigset_t mask;
        int r;

        if (c->sort && top_sort_from_string(c->sort) < 0)
                return ctl_fail("--sort= is one of gpu, wait, launches, preempted, name");
        t.sort = c->sort ? (TopSort) top_sort_from_string(c->sort) : TOP_SORT_GPU;
        r = ctl_connect(c);
        if (r != 0)
                return r;

        (void) sigemptyset(&mask);
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if (screen || signals[i] != SIGTSTP)
                        (void) sigaddset(&mask, signals[i]);
        (void) sigprocmask(SIG_BLOCK, &mask, NULL);
        signal_fd = signalfd(-1, &mask, SFD_CLOEXEC);
        if (signal_fd < 0)
                return ctl_fail("cannot watch for signals: %m");
        if (screen && terminal_take() < 0)
                screen = false;
        r = top_loop(&t, signal_fd, screen);
        terminal_restore();
        return r;
}
