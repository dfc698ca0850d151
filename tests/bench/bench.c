/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Functions that the benchmarks of the service share
 */

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench.h"

#define NAME      "org.xsched.Scheduler"
#define PATH      "/org/xsched/Scheduler"
#define INTERFACE "org.xsched.Scheduler"

#define ATTACH_TIMEOUT_NS (60 * NSEC_PER_SEC)

void bench_die(const char *format, ...) {
        va_list ap;

        (void) fprintf(stderr, "%s: ", program_invocation_short_name);
        va_start(ap, format);
        (void) vfprintf(stderr, format, ap);
        va_end(ap);
        (void) fputc('\n', stderr);
        exit(1);
}

int bench_check(int r, const char *what) {
        if (r < 0)
                bench_die("%s: %s", what, strerror(-r));
        return r;
}

/* --- the service --- */

static pid_t name_owner_pid(sd_bus *bus) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        uint32_t pid;

        int r = sd_bus_call_method(bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
                        "GetConnectionUnixProcessID", &error, &reply, "s", NAME);
        if (r < 0)
                bench_die("no xschedd on the bus: %s", error.message ?: strerror(-r));
        bench_check(sd_bus_message_read(reply, "u", &pid), "GetConnectionUnixProcessID");
        return (pid_t) pid;
}

Service service_open(void) {
        const char *address = getenv("XSCHED_BUS_ADDRESS");
        Service s = {};

        if (!address)
                bench_die("XSCHED_BUS_ADDRESS is not set: run this inside of xsched-session");
        bench_check(sd_bus_new(&s.bus), "sd_bus_new");
        bench_check(sd_bus_set_address(s.bus, address), address);
        bench_check(sd_bus_set_bus_client(s.bus, true), "sd_bus_set_bus_client");
        bench_check(sd_bus_start(s.bus), address);
        s.pid = name_owner_pid(s.bus);
        return s;
}

void service_close(Service *s) {
        s->bus = sd_bus_flush_close_unref(s->bus);
}

uint64_t service_get(const Service *s, const char *property) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        uint64_t v;

        int r = sd_bus_get_property_trivial(s->bus, NAME, PATH, INTERFACE, property, &error, 't', &v);
        if (r < 0)
                bench_die("%s: %s", property, error.message ?: strerror(-r));
        return v;
}

DecisionLatency service_decision_latency(const Service *s) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        DecisionLatency l = {};

        int r = sd_bus_get_property(s->bus, NAME, PATH, INTERFACE, "DecisionLatency", &error, &reply, "(tttt)");
        if (r < 0)
                bench_die("DecisionLatency: %s", error.message ?: strerror(-r));
        bench_check(sd_bus_message_read(reply, "(tttt)", &l.p50_us, &l.p99_us, &l.max_us, &l.n), "DecisionLatency");
        return l;
}

static FILE *open_proc(pid_t pid, const char *name) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
        FILE *f = fopen(path, "re");
        if (!f)
                bench_die("%s: %s", path, strerror(errno));
        return f;
}

/* By the process's clock: /proc has ticks of 10 ms, which are a tenth of what is measured. */
uint64_t process_cpu_ns(pid_t pid) {
        clockid_t clock;
        struct timespec t;

        int r = clock_getcpuclockid(pid, &clock);
        if (r != 0 || clock_gettime(clock, &t) < 0)
                bench_die("cannot read the times of process %d: %s", pid, strerror(r ?: errno));
        return timespec_to_ns(&t);
}

static uint64_t proc_number(pid_t pid, const char *file, const char *key) {
        FILE *f = open_proc(pid, file);
        uint64_t v = 0;
        bool found = false;
        char line[256];

        while (!found && fgets(line, sizeof(line), f)) {
                const char *rest = startswith(line, key);

                found = rest && sscanf(rest, ": %" SCNu64, &v) == 1;
        }
        fclose(f);
        if (!found)
                bench_die("no %s in /proc/%d/%s", key, pid, file);
        return v;
}

uint64_t process_switches(pid_t pid) {
        return proc_number(pid, "status", "voluntary_ctxt_switches");
}

uint64_t process_pss_kb(pid_t pid) {
        return proc_number(pid, "smaps_rollup", "Pss");
}

/* --- synthetic clients, the parent's side --- */

void clients_init(Clients *c, const Service *s, size_t size) {
        struct rlimit files = {};

        /* One pidfd of ours for each job that is being made; the service's limits are its own business. */
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &files);
        }

        *c = (Clients){.service = s, .memory_fd = memfd_create("xsched-bench", 0)};
        if (c->memory_fd < 0 || ftruncate(c->memory_fd, (off_t) size) < 0)
                bench_die("cannot make shared memory: %s", strerror(errno));
        c->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory_fd, 0);
        if (c->memory == MAP_FAILED)
                bench_die("mmap: %s", strerror(errno));
        if (pipe2(c->ready, O_CLOEXEC) < 0 || pipe2(c->lifetime, O_CLOEXEC) < 0)
                bench_die("pipe: %s", strerror(errno));
}

static void create_job(const Service *s, const char *name, int priority, char **ret_token) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        const char *token;

        int r = sd_bus_call_method(s->bus, NAME, PATH, INTERFACE, "CreateJob", &error, &reply, "sa{sv}utt", name, 1,
                        "Priority", "i", priority, 0U, UINT64_C(0), UINT64_C(0)); /* ours */
        if (r < 0)
                bench_die("CreateJob: %s", error.message ?: strerror(-r));
        bench_check(sd_bus_message_read(reply, "s", &token), "CreateJob");
        *ret_token = strdup(token);
        if (!*ret_token)
                bench_die("out of memory");
}

_noreturn_ static void client_exec(const Clients *c, const char *role, const char *token, pid_t parent) {
        char memory[16], ready[16], lifetime[16], index[16], self[PATH_MAX] = "";
        int keep[] = {c->memory_fd, c->ready[1], c->lifetime[0]};

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        (void) setenv("XSCHED_JOB", token, 1);
        for (size_t i = 0; i < ELEMENTSOF(keep); i++)
                (void) fcntl(keep[i], F_SETFD, 0);
        (void) snprintf(memory, sizeof(memory), "%d", c->memory_fd);
        (void) snprintf(ready, sizeof(ready), "%d", c->ready[1]);
        (void) snprintf(lifetime, sizeof(lifetime), "%d", c->lifetime[0]);
        (void) snprintf(index, sizeof(index), "%zu", c->n);
        if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
                bench_die("/proc/self/exe: %s", strerror(errno));
        (void) execl(self, self, "--client", role, memory, ready, lifetime, index, NULL);
        bench_die("cannot start a client: %s", strerror(errno));
}

void clients_add(Clients *c, const char *role, int priority) {
        _cleanup_free_ char *token = NULL;
        pid_t self = getpid();

        create_job(c->service, role, priority, &token);
        c->pids = reallocarray(c->pids, c->n + 1, sizeof(pid_t));
        if (!c->pids)
                bench_die("out of memory");
        c->pids[c->n] = fork();
        if (c->pids[c->n] < 0)
                bench_die("fork: %s", strerror(errno));
        if (c->pids[c->n] == 0)
                client_exec(c, role, token, self);
        c->n++;
}

void clients_wait(Clients *c) {
        uint64_t deadline = now_ns() + ATTACH_TIMEOUT_NS;
        size_t n = 0;
        char buf[64];

        while (n < c->n) {
                struct pollfd p = {.fd = c->ready[0], .events = POLLIN};
                uint64_t left = ns_sub(deadline, now_ns());

                if (left == 0 || waitpid(-1, NULL, WNOHANG) > 0)
                        bench_die("only %zu of %zu clients are attached", n, c->n);
                if (poll(&p, 1, (int) MIN(left / NSEC_PER_MSEC + 1, UINT64_C(500))) <= 0)
                        continue;
                ssize_t got = read(c->ready[0], buf, MIN(sizeof(buf), c->n - n));
                if (got > 0)
                        n += (size_t) got;
        }
}

void clients_done(Clients *c) {
        c->lifetime[1] = safe_close(c->lifetime[1]);
        for (size_t i = 0; i < c->n; i++) {
                int status = -1;

                if (waitpid(c->pids[i], &status, 0) < 0 || status != 0)
                        bench_die("client %zu failed with status %#x", i, (unsigned) status);
        }
        free(c->pids);
        safe_close(c->memory_fd);
        safe_close(c->ready[0]);
        safe_close(c->ready[1]);
        safe_close(c->lifetime[0]);
        *c = (Clients){};
}

/* --- the clients' side --- */

bool client_plan(int argc, char *argv[], size_t size, ClientPlan *ret) {
        if (argc != 7 || !streq(argv[1], "--client"))
                return false;

        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[3]), 0);
        if (memory == MAP_FAILED)
                bench_die("mmap: %s", strerror(errno));
        (void) prctl(PR_SET_TIMERSLACK, 1UL);
        *ret = (ClientPlan){
                        .role = argv[2],
                        .memory = memory,
                        .ready_fd = atoi(argv[4]),
                        .lifetime_fd = atoi(argv[5]),
                        .index = (unsigned) atoi(argv[6]),
        };
        return true;
}

XschedQueue *client_attach(const ClientPlan *p) {
        static const XschedQueueInfo info = {
                        .size = sizeof(XschedQueueInfo),
                        .device = "bench:0",
                        .backend = "bench",
        };
        XschedCounters c = {.size = sizeof(c)};
        uint64_t deadline = now_ns() + ATTACH_TIMEOUT_NS;
        XschedQueue *q;

        bench_check(xsched_queue_new(&info, &q), "xsched_queue_new");
        /* libxsched attaches in the background and has no event for it. */
        while (xsched_get_counters(&c) >= 0 && (c.state != XSCHED_STATE_ATTACHED || c.queues == 0)) {
                if (now_ns() > deadline)
                        bench_die("not attached to xschedd");
                sleep_until_ns(now_ns() + NSEC_PER_MSEC);
        }
        if (write(p->ready_fd, "", 1) != 1)
                bench_die("the parent is gone");
        return q;
}

void client_stay_ready(XschedQueue *q) {
        uint64_t deadline = now_ns() + ATTACH_TIMEOUT_NS;

        /* Launches that pass before the service watches are not counted, and are taken for complete when it begins to
         * watch. */
        while (xsched_queue_begin(q) != XSCHED_TRACKED) {
                if (now_ns() > deadline)
                        bench_die("the service does not watch the device");
                sleep_until_ns(now_ns() + NSEC_PER_MSEC);
        }
}

void client_wait_for_end(const ClientPlan *p) {
        char c;

        while (read(p->lifetime_fd, &c, 1) < 0 && errno == EINTR)
                ;
}

/* --- little things --- */

void sleep_until_ns(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
                ;
}

bool bench_flag(int argc, char *argv[], const char *option) {
        for (int i = 1; i < argc; i++)
                if (streq(argv[i], option))
                        return true;
        return false;
}

unsigned bench_number(int argc, char *argv[], const char *option, unsigned default_value) {
        for (int i = 1; i < argc; i++) {
                const char *rest = startswith(argv[i], option);

                if (rest && *rest == '=')
                        return (unsigned) strtoul(rest + 1, NULL, 10);
        }
        return default_value;
}
