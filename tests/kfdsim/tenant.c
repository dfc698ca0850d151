/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kfd-tenant: a GPU application, without a runtime, whose results are checked
 *
 * A batch tenant keeps its queues full. A latency tenant wakes up every period, launches a task of a few dispatches on
 * each queue, and waits for its completion; it prints how long that took. At the end every process prints one line
 * about its dispatches; its exit status is 0 only if each was executed once and in order. SIGTERM ends it early, after
 * what was launched has been executed, but not before the first launch: without one it would have checked nothing.
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "aql.h"
#include "common/macro.h"
#include "common/time-util.h"

#define QUEUES_MAX  32U
#define SAMPLES_MAX 100000U
#define EXIT_SKIP   77

typedef struct Settings {
        bool latency, by_event;
        unsigned gpu, queues, processes, dispatches, depth;
        uint64_t duration_ns, period_ns, run_ns, count, patience_ns;
} Settings;

typedef struct Tenant {
        const Settings *s;
        AqlDevice device;
        AqlQueue *queues[QUEUES_MAX];
        AqlCompletion *done[QUEUES_MAX];
        uint64_t end_ns, first_ns; /* when the first launch comes at the latest */
        uint64_t *samples;
        size_t n_samples;
} Tenant;

static volatile sig_atomic_t must_end;

static void on_signal(int sig) {
        must_end = 1;
}

static bool tenant_goes_on(const Tenant *t, uint64_t n) {
        if (n == 0)
                return now_ns() < t->first_ns;
        return !must_end && now_ns() < t->end_ns && (t->s->count == 0 || n < t->s->count);
}

static int run_batch(Tenant *t) {
        for (uint64_t n = 0; tenant_goes_on(t, n);) {
                bool full = true;
                for (unsigned i = 0; i < t->s->queues && tenant_goes_on(t, n); i++) {
                        if (aql_queue_backlog(t->queues[i]) >= t->s->depth ||
                                        aql_dispatch(t->queues[i], t->s->duration_ns, NULL) < 0)
                                continue;
                        aql_ring(t->queues[i]);
                        full = false;
                        n++;
                }
                if (full)
                        (void) usleep(100);
        }
        return 0;
}

static int run_task(Tenant *t) {
        for (unsigned i = 0; i < t->s->queues; i++) {
                aql_completion_set(t->done[i], 1);
                for (unsigned k = 0; k < t->s->dispatches; k++) {
                        int r = aql_dispatch(
                                        t->queues[i], t->s->duration_ns, k + 1 == t->s->dispatches ? t->done[i] : NULL);
                        if (r < 0)
                                return r;
                }
                aql_ring(t->queues[i]);
        }
        for (unsigned i = 0; i < t->s->queues; i++) {
                int r = aql_completion_wait(t->done[i], now_ns() + t->s->patience_ns);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int run_latency(Tenant *t) {
        uint64_t next = now_ns();

        for (uint64_t n = 0; tenant_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                int r = run_task(t);
                if (r < 0)
                        return r;
                if (t->n_samples < SAMPLES_MAX)
                        t->samples[t->n_samples++] = now_ns() - start;
                next = MAX(next + t->s->period_ns, now_ns());
                struct timespec ts = ns_to_timespec(next);
                (void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
        }
        return 0;
}

static int compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;
        return (*x > *y) - (*x < *y);
}

static uint64_t percentile_us(const Tenant *t, unsigned percent) {
        return t->n_samples == 0 ? 0 : t->samples[(t->n_samples - 1) * percent / 100] / NSEC_PER_USEC;
}

static bool tenant_report(Tenant *t) {
        AqlReport sum = {0};

        for (unsigned i = 0; i < t->s->queues; i++) {
                (void) aql_queue_wait(t->queues[i], now_ns() + t->s->patience_ns);
                AqlReport r = aql_queue_report(t->queues[i]);
                sum.n_dispatched += r.n_dispatched;
                sum.n_executed += r.n_executed;
                sum.n_lost += r.n_lost;
                sum.n_doubled += r.n_doubled;
                sum.n_late += r.n_late;
                sum.n_unfinished += r.n_unfinished;
        }
        qsort(t->samples, t->n_samples, sizeof(*t->samples), compare);
        printf("pid=%d role=%s dispatched=%" PRIu64 " executed=%" PRIu64 " lost=%" PRIu64 " doubled=%" PRIu64
               " late=%" PRIu64 " unfinished=%" PRIu64 " tasks=%zu p50_us=%" PRIu64 " p99_us=%" PRIu64 "\n",
                        (int) getpid(), t->s->latency ? "latency" : "batch", sum.n_dispatched, sum.n_executed,
                        sum.n_lost, sum.n_doubled, sum.n_late, sum.n_unfinished, t->n_samples, percentile_us(t, 50),
                        percentile_us(t, 99));
        (void) fflush(stdout);
        return aql_report_is_clean(&sum) && sum.n_dispatched > 0;
}

static int tenant_open(Tenant *t) {
        int r = aql_device_open(t->s->gpu, &t->device);

        t->samples = calloc(SAMPLES_MAX, sizeof(*t->samples));
        if (!t->samples)
                return -ENOMEM;
        for (unsigned i = 0; r >= 0 && i < t->s->queues; i++) {
                r = aql_queue_create(&t->device, NULL, t->queues + i);
                if (r >= 0)
                        r = aql_completion_create(&t->device, 0, t->s->by_event, t->done + i);
        }
        return r;
}

static int tenant_run(const Settings *s) {
        Tenant t = {.s = s};
        int r = tenant_open(&t);

        if (r < 0) {
                (void) fprintf(stderr, "kfd-tenant: cannot start on GPU %u: %s\n", s->gpu, strerror(-r));
                return r == -ENODEV ? EXIT_SKIP : EXIT_FAILURE;
        }
        t.first_ns = now_ns() + s->patience_ns;
        t.end_ns = s->run_ns == 0 ? NSEC_INFINITY : now_ns() + s->run_ns;
        r = s->latency ? run_latency(&t) : run_batch(&t);
        if (r < 0)
                (void) fprintf(stderr, "kfd-tenant: %s\n", strerror(-r));
        bool clean = tenant_report(&t);
        for (unsigned i = 0; i < s->queues; i++) {
                aql_completion_destroy(t.done[i]);
                r = aql_queue_destroy(t.queues[i]) ?: r;
        }
        aql_device_close(&t.device);
        free(t.samples);
        return clean && r >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const char help[] = "kfd-tenant [OPTIONS...]\n\n"
                           "A GPU application whose results are checked.\n\n"
                           "  --role=batch|latency   keep queues full, or run a task every period\n"
                           "  --gpu=N                which GPU, from 0\n"
                           "  --queues=N             queues per process (1)\n"
                           "  --processes=N          processes (1)\n"
                           "  --duration-us=N        time of a dispatch on the GPU (1000)\n"
                           "  --dispatches=N         dispatches of a task and queue (10)\n"
                           "  --depth=N              dispatches that batch keeps in a queue (16)\n"
                           "  --period-us=N          of the tasks (20000)\n"
                           "  --count=N              dispatches (batch) or tasks (latency) in all; 0: no limit\n"
                           "  --run-ms=N             how long; 0: no limit (1000)\n"
                           "  --patience-ms=N        how long to wait for what should complete (30000)\n"
                           "  --events               sleep until KFD's event, instead of polling\n";

static const struct option options[] = {
                {"role", required_argument, NULL, 'r'},
                {"gpu", required_argument, NULL, 'g'},
                {"queues", required_argument, NULL, 'q'},
                {"processes", required_argument, NULL, 'p'},
                {"duration-us", required_argument, NULL, 'd'},
                {"dispatches", required_argument, NULL, 'k'},
                {"depth", required_argument, NULL, 'D'},
                {"period-us", required_argument, NULL, 'P'},
                {"count", required_argument, NULL, 'n'},
                {"run-ms", required_argument, NULL, 't'},
                {"patience-ms", required_argument, NULL, 'w'},
                {"events", no_argument, NULL, 'e'},
                {"help", no_argument, NULL, 'h'},
                {0},
};

static int settings_set(Settings *s, int option, const char *value) {
        unsigned long n = value ? strtoul(value, NULL, 10) : 0;

        switch (option) {
        case 'r':
                s->latency = streq_ptr(value, "latency");
                return s->latency || streq_ptr(value, "batch") ? 0 : -EINVAL;
        case 'g':
                s->gpu = (unsigned) n;
                return 0;
        case 'q':
                s->queues = (unsigned) n;
                return n >= 1 && n <= QUEUES_MAX ? 0 : -EINVAL;
        case 'p':
                s->processes = (unsigned) n;
                return n >= 1 ? 0 : -EINVAL;
        case 'd':
                s->duration_ns = n * NSEC_PER_USEC;
                return 0;
        case 'k':
                s->dispatches = (unsigned) n;
                return n >= 1 && n <= 128 ? 0 : -EINVAL;
        case 'D':
                s->depth = (unsigned) n;
                return n >= 1 ? 0 : -EINVAL;
        case 'P':
                s->period_ns = n * NSEC_PER_USEC;
                return 0;
        case 'n':
                s->count = n;
                return 0;
        case 't':
                s->run_ns = n * NSEC_PER_MSEC;
                return 0;
        case 'w':
                s->patience_ns = n * NSEC_PER_MSEC;
                return 0;
        case 'e':
                s->by_event = true;
                return 0;
        default:
                return -EINVAL;
        }
}

static int run_processes(const Settings *s) {
        int worst = EXIT_SUCCESS;

        for (unsigned i = 0; i < s->processes; i++) {
                pid_t pid = fork();
                if (pid < 0)
                        return EXIT_FAILURE;
                if (pid == 0) {
                        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
                        exit(tenant_run(s));
                }
        }
        for (;;) {
                int status;
                pid_t pid = wait(&status);
                if (pid < 0 && errno == EINTR)
                        continue;
                if (pid < 0)
                        return worst;
                int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
                worst = MAX(worst, code);
        }
}

int main(int argc, char *argv[]) {
        Settings s = {
                        .queues = 1,
                        .processes = 1,
                        .dispatches = 10,
                        .depth = 16,
                        .duration_ns = NSEC_PER_MSEC,
                        .period_ns = 20 * NSEC_PER_MSEC,
                        .run_ns = NSEC_PER_SEC,
                        .patience_ns = 30 * NSEC_PER_SEC,
        };
        struct sigaction sa = {.sa_handler = on_signal};

        for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) >= 0;) {
                if (c == 'h')
                        return fputs(help, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
                if (settings_set(&s, c, optarg) < 0) {
                        (void) fputs(help, stderr);
                        return EXIT_FAILURE;
                }
        }
        (void) sigaction(SIGTERM, &sa, NULL);
        (void) sigaction(SIGINT, &sa, NULL);
        return s.processes == 1 ? tenant_run(&s) : run_processes(&s);
}
