/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a cycle of ready and idle costs the service that is over before it hears of it: instructions, wake-ups, and
 * timers that a sleep sets
 *
 * The loads are those of bench-load.c on a machine that has CPUs for all: of `pair`, one client is always ready, and a
 * driver of higher priority makes cycles; of `spread`, all clients do in turn. The service's objects and its loop are
 * the real ones, without a bus, and time is not: a sleep ends at once, at the time of the next cycle, the timeout or
 * the alarm. So the figures are nearly the same on each run and on each machine. valgrind counts the instructions.
 */

#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "callgrind.h"
#include "service/base/log.h"
#include "service/settings/xsched-conf.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define N_CLIENTS 1000U
#define N_WARM_UP 5000U
#define N_CYCLES  5000U
#define PAIR_NS   (200 * NSEC_PER_USEC) /* from cycle to cycle */
#define SPREAD_NS (222 * NSEC_PER_USEC)
#define LATE_NS   (30 * NSEC_PER_USEC) /* how late a cycle may be */
#define BUSY_NS   (1 * NSEC_PER_USEC)
#define HEARD_NS  (4 * NSEC_PER_USEC) /* from its end until the service wakes */

typedef struct Load {
        const char *name, *policy;
        bool spread;
} Load;

static const Load loads[] = {
                {.name = "pair-1000", .policy = "tree"},
                {.name = "pair-1000-hpf", .policy = "hpf"},
                {.name = "pair-1000-cfs", .policy = "cfs"},
                {.name = "spread-1000", .policy = "tree", .spread = true},
                {.name = "spread-1000-hpf", .policy = "hpf", .spread = true},
                {.name = "spread-1000-cfs", .policy = "cfs", .spread = true},
};

static struct {
        const Load *load;
        Manager *m;
        Process processes[N_CLIENTS];
        Queue *queues[N_CLIENTS];
        bool on; /* cycles are made */
        unsigned n;
        uint64_t planned_at, next_at; /* the next cycle */
        uint64_t alarm_at;            /* NSEC_INFINITY: off */
        int alarm_fd;
        uint64_t random;
} world = {.alarm_at = NSEC_INFINITY};

static struct { unsigned wakeups, timers, calls, others; } n;

/* --- the clients --- */

static uint64_t random_below(uint64_t most) {
        world.random = world.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (world.random >> 33) % most;
}

static void cycle(void) {
        unsigned k = world.load->spread ? world.n % N_CLIENTS : 0;
        PageSlot *s = world.queues[k]->page_slot;

        world.n++;
        atomic_store(&s->ready_since_ns, now_ns());
        bool tells = page_slot_begin(s) & PAGE_BEGIN_EDGE;
        atomic_store(&s->launched_ns, now_ns());
        own_clock_pass(BUSY_NS);
        atomic_fetch_add(&s->busy_ns, BUSY_NS);
        atomic_store(&s->drained_ns, now_ns());
        tells = page_slot_end(s, 1) || tells;
        own_clock_pass(HEARD_NS);
        world.planned_at += world.load->spread ? SPREAD_NS : PAIR_NS;
        world.next_at = world.planned_at + random_below(LATE_NS);
        if (!tells)
                return;
        page_mark_dirty(world.processes[k].client->page.header, world.queues[k]->slot);
        assert_int_equal(eventfd_write(world.processes[k].fds.wake, 1), 0);
}

/* --- the kernel --- */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __wrap_epoll_pwait2(
                int epoll, struct epoll_event *events, int size, const struct timespec *timeout, const sigset_t *s);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int size, int timeout_ms);
int __wrap_ppoll(struct pollfd *fds, nfds_t size, const struct timespec *timeout, const sigset_t *s);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __wrap_sd_event_prepare(sd_event *e);
int __real_epoll_wait(int epoll, struct epoll_event *events, int size, int timeout_ms);
int __real_ppoll(struct pollfd *fds, nfds_t size, const struct timespec *timeout, const sigset_t *s);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old);
int __real_sd_event_prepare(sd_event *e);

int __wrap_sd_event_prepare(sd_event *e) {
        n.others++;
        return __real_sd_event_prepare(e);
}

/* sd-event's timers are absolute. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old) {
        const struct itimerspec off = {};

        if (flags & TFD_TIMER_ABSTIME)
                return __real_timerfd_settime(fd, flags, value, old);
        n.calls++;
        n.timers++;
        world.alarm_fd = fd;
        world.alarm_at = now_ns() + timespec_to_ns(&value->it_value);
        return __real_timerfd_settime(fd, 0, &off, NULL);
}

static void come(void) {
        const struct itimerspec soon = {.it_value.tv_nsec = 1};
        struct pollfd fd = {.fd = world.alarm_fd, .events = POLLIN};

        while (world.on && now_ns() >= world.next_at)
                cycle();
        if (now_ns() < world.alarm_at)
                return;
        world.alarm_at = NSEC_INFINITY;
        assert_int_equal(__real_timerfd_settime(world.alarm_fd, 0, &soon, NULL), 0);
        assert_int_equal(poll(&fd, 1, -1), 1);
}

/* Sleeps until the timeout, the next cycle or the alarm. */
static void sleep_until_event(const struct timespec *timeout) {
        uint64_t now = now_ns(), ns = timeout ? timespec_to_ns(timeout) : NSEC_INFINITY;
        uint64_t next = world.on ? ns_sub(world.next_at, now) : NSEC_INFINITY, rings = ns_sub(world.alarm_at, now);

        n.timers += timeout && ns > 0;
        n.wakeups++;
        ns = MIN(ns, next);
        ns = MIN(ns, rings);
        assert_true(ns < NSEC_INFINITY); /* nobody would end it */
        own_clock_pass(ns);
        come();
}

int __wrap_epoll_pwait2(
                int epoll, struct epoll_event *events, int size, const struct timespec *timeout, const sigset_t *s) {
        n.calls++;
        come();
        int r = __real_epoll_wait(epoll, events, size, 0);
        if (r != 0)
                return r;
        sleep_until_event(timeout);
        return __real_epoll_wait(epoll, events, size, 0);
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int size, int timeout_ms) {
        n.calls++;
        come();
        return __real_epoll_wait(epoll, events, size, timeout_ms);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t size, const struct timespec *timeout, const sigset_t *s) {
        const struct timespec now = {};

        n.calls++;
        come();
        int r = __real_ppoll(fds, size, &now, s);
        if (r != 0)
                return r;
        sleep_until_event(timeout);
        return __real_ppoll(fds, size, &now, s);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* --- the bench --- */

static void turns(unsigned n_cycles) {
        for (unsigned until = world.n + n_cycles; world.n < until;)
                assert_true(manager_turn(world.m, NSEC_INFINITY) >= 0);
}

/* What is counted. */
__attribute__((noinline)) static void bench_cycles(void) {
        turns(N_CYCLES);
}

static int run(const Load *load) {
        struct timespec up;

        /* sd-event has the kernel's clock: no timer of it is ever due. */
        assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &up), 0);
        own_clock_pass(timespec_to_ns(&up));
        world.load = load;
        world.m = manager_make();
        world.m->config->device.policy = policy_find(load->policy);
        log_set_max_level(LOG_ERR);
        for (unsigned i = 0; i < N_CLIENTS; i++) {
                char cgroup[32];

                (void) snprintf(cgroup, sizeof(cgroup), "/test-%u.service", i);
                world.processes[i] = join(world.m, cgroup, !load->spread && i == 0 ? 10 : 0);
                world.queues[i] = queue(&world.processes[i], "d", 0);
        }
        if (!load->spread)
                begin(world.queues[1]);
        while (manager_turn(world.m, 0) > 0)
                ;
        world.planned_at = world.next_at = now_ns();
        world.on = true;
        turns(N_WARM_UP);
        memset(&n, 0, sizeof(n));
        uint64_t edges = world.m->n_edges;
        bench_cycles();
        edges = world.m->n_edges - edges;
        world.on = false;
        printf("%5.2f wake-ups, %.2f timers, %.2f kernel calls, %.2f looks for other events\n",
                        n.wakeups / (double) N_CYCLES, n.timers / (double) N_CYCLES, n.calls / (double) N_CYCLES,
                        n.others / (double) N_CYCLES);
        for (unsigned i = 0; i < N_CLIENTS; i++)
                leave(&world.processes[i]);
        manager_free(world.m);
        return edges == N_CYCLES ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Counts the instructions of bench_cycles(), less those of the kernel's part, in a run of this program; 0: unknown. */
static uint64_t count(const Load *load) {
        char command[512];

        (void) snprintf(command, sizeof(command),
                        "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='bench_cycles*' "
                        "--toggle-collect=__wrap_epoll_pwait2 --toggle-collect=__wrap_epoll_wait "
                        "--toggle-collect=__wrap_ppoll --toggle-collect=__wrap_timerfd_settime "
                        "/proc/%d/exe %s 2>&1",
                        (int) getpid(), load->name);
        return callgrind_count(command, false);
}

int main(int argc, char *argv[]) {
        for (size_t i = 0; i < ELEMENTSOF(loads); i++) {
                const Load *load = loads + i;
                int status;

                if (argc == 2 && streq(argv[1], load->name))
                        return run(load);
                if (argc != 1)
                        continue;
                uint64_t instructions = count(load);
                printf("%-16s", load->name);
                if (instructions > 0)
                        printf("%6.0f instructions,", (double) instructions / N_CYCLES);
                (void) fflush(stdout);
                pid_t pid = fork();
                if (pid == 0)
                        exit(run(load));
                if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
                        return EXIT_FAILURE;
        }
        return argc == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
