/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tenants
 *
 * The latency of a task is the time from its first launch to the return of clFinish(). A period that begins while the
 * task before still runs is skipped and counted, so that an overloaded device shows as skipped periods and long tasks
 * and not as a queue without end. Results are read back and compared after each task, outside of its latency.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "tools/demo/tenant.h"
#include "tools/demo/work.h"
#include "xsched/xsched.h"

#define ATTACH_TIMEOUT_NS (10 * NSEC_PER_SEC)

typedef struct Tenant {
        const TenantPlan *plan;
        Work *work;
        FILE *up;
        uint64_t n_tasks;
        uint64_t n_launches;

        /* written by the listening thread */
        sem_t begin;
        uint64_t start_ns, end_ns, period_ns;
        atomic_bool stop;
} Tenant;

typedef int (*get_counters_t)(XschedCounters *ret);

/* Looks the function up in libraries that are loaded already: a tenant must not load the library whose presence it is
 * to report. */
static bool get_counters(XschedCounters *ret) {
        void *library = dlopen("libxsched.so.0", RTLD_NOLOAD | RTLD_NOW);
        if (!library)
                return false;

        get_counters_t get = (get_counters_t) dlsym(library, "xsched_get_counters");
        *ret = (XschedCounters){.size = sizeof(XschedCounters)};
        bool good = get && get(ret) >= 0;
        dlclose(library);
        return good;
}

static void say(Tenant *t, const char *format, ...) _printf_(2, 3);

static void say(Tenant *t, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        (void) vfprintf(t->up, format, ap);
        va_end(ap);
        (void) fputc('\n', t->up);
        (void) fflush(t->up);
}

static void listen_line(Tenant *t, const char *line) {
        if (startswith(line, "stop"))
                atomic_store(&t->stop, true);
        else if (sscanf(line, "go %" SCNu64 " %" SCNu64 " %" SCNu64, &t->start_ns, &t->end_ns, &t->period_ns) == 3)
                (void) sem_post(&t->begin);
}

/* Ends the process from here when the demo is gone, wherever the main thread is. Not by stdio: a thread that waits in
 * fgets() holds the stream's lock, and a driver that calls fflush(NULL) or the like would wait for it for ever. */
static void *listen_main(void *userdata) {
        Tenant *t = userdata;
        char buffer[256];
        size_t n = 0;

        for (ssize_t k; (k = read(STDIN_FILENO, buffer + n, sizeof(buffer) - 1 - n)) != 0;) {
                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        break;
                n += (size_t) k;
                buffer[n] = '\0';
                for (char *end; (end = strchr(buffer, '\n'));) {
                        *end++ = '\0';
                        listen_line(t, buffer);
                        n -= (size_t) (end - buffer);
                        memmove(buffer, end, n + 1);
                }
        }
        _exit(0);
}

static int run_task(Tenant *t, uint64_t *ret_start, uint64_t *ret_end) {
        const char *error = NULL;
        uint64_t start = now_ns();

        int r = work_run(t->work, t->plan->n_kernels, t->plan->rounds, &error);
        uint64_t end = now_ns();

        if (r >= 0)
                r = work_check(t->work, &error);
        if (r < 0) {
                say(t, "error task %" PRIu64 ": %s", t->n_tasks, error);
                return r;
        }
        t->n_tasks++;
        t->n_launches += t->plan->n_kernels;
        *ret_start = start;
        *ret_end = end;
        return 0;
}

/* Runs tasks until libxsched is attached, which happens in the background and without an event. The layer loads
 * libxsched with the first queue: if it is not loaded after a task, it never will be. */
static int warm_up(Tenant *t) {
        XschedCounters counters = {};
        uint64_t start, end, deadline = now_ns() + ATTACH_TIMEOUT_NS;

        for (;;) {
                int r = run_task(t, &start, &end);
                if (r < 0)
                        return r;
                if (!t->plan->xsched)
                        return 0;
                bool loaded = get_counters(&counters);
                if (loaded && counters.state == XSCHED_STATE_ATTACHED && counters.queues > 0)
                        return 0;
                if (!loaded || now_ns() > deadline) {
                        say(t,
                                        loaded ? "error the OpenCL layer is loaded but found no xschedd"
                                               : "error the OpenCL layer is not loaded: does this OpenCL "
                                                 "loader have layers?");
                        return -ENOTCONN;
                }
        }
}

static void sleep_until(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
                ;
}

static int run_latency(Tenant *t) {
        uint64_t start, end, skipped = 0;

        for (uint64_t due = t->start_ns; due < t->end_ns;) {
                sleep_until(due);
                int r = run_task(t, &start, &end);
                if (r < 0)
                        return r;
                say(t, "task %" PRIu64 " %" PRIu64, start, end);

                for (due += t->period_ns; due < end && due < t->end_ns; due += t->period_ns)
                        skipped++;
        }
        say(t, "skipped %" PRIu64, skipped);
        return 0;
}

static int run_batch(Tenant *t) {
        uint64_t start, end;

        while (!atomic_load(&t->stop)) {
                int r = run_task(t, &start, &end);
                if (r < 0)
                        return r;
                say(t, "task %" PRIu64 " %" PRIu64, start, end);
        }
        return 0;
}

static void report(Tenant *t) {
        XschedCounters c = {};

        (void) get_counters(&c);
        say(t, "done %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, t->n_tasks,
                        t->n_launches, c.launches, c.tracked, c.waited, c.waited_ns, c.lease_expired);
}

/* Whatever a driver prints must not end up between our lines. */
static FILE *claim_stdout(void) {
        int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

        return fd >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 ? fdopen(fd, "w") : NULL;
}

int tenant_main(const TenantPlan *plan) {
        Tenant t = {.plan = plan, .up = claim_stdout()};
        pthread_t listener;

        /* Also set here, because another program (`xschedctl run`) may be between the parent and this process. */
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) prctl(PR_SET_TIMERSLACK, 1UL);

        if (!t.up || sem_init(&t.begin, 0, 0) < 0 || pthread_create(&listener, NULL, listen_main, &t) != 0)
                return demo_error(-EIO, "a tenant cannot set itself up: %s", strerror(errno));
        (void) pthread_detach(listener);

        int r = work_open(plan->device, plan->seed, &t.work);
        if (r < 0)
                return r;
        r = warm_up(&t);
        if (r < 0)
                return r;
        say(&t, "ready");

        while (sem_wait(&t.begin) < 0 && errno == EINTR)
                ;
        r = plan->role == ROLE_LATENCY ? run_latency(&t) : run_batch(&t);
        if (r < 0)
                return r;
        report(&t);
        t.work = work_close(t.work);
        return 0;
}

int tenant_parse(char *const argv[], TenantPlan *ret) {
        for (unsigned i = 0; i < 6; i++)
                if (!argv[i])
                        return demo_error(-EINVAL, "--tenant is internal");

        int role = role_from_string(argv[0]);
        if (role < 0)
                return demo_error(role, "--tenant is internal");
        *ret = (TenantPlan){
                        .role = (Role) role,
                        .device = argv[1],
                        .seed = (uint32_t) strtoul(argv[2], NULL, 10),
                        .n_kernels = (uint32_t) strtoul(argv[3], NULL, 10),
                        .rounds = (uint32_t) strtoul(argv[4], NULL, 10),
                        .xsched = streq(argv[5], "1"),
        };
        return 0;
}
