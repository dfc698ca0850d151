/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Processes on one simulated GPU: turns by round-robin quanta, and the GPU after the end of one of them
 */

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>

#include "harness.h"

#define N_STORMS 40U

static void nap(uint64_t ns) {
        struct timespec ts = ns_to_timespec(ns);
        (void) nanosleep(&ts, NULL);
}

/* Runs two busy processes. Returns the second one's part of the executed time, in percent. */
static unsigned share_of_second(uint64_t first_ns, uint64_t second_ns) {
        Busy *b = shared_new(2 * sizeof(*b));
        pid_t pid[2];

        b[0].duration_ns = first_ns;
        b[1].duration_ns = second_ns;
        for (size_t i = 0; i < 2; i++)
                pid[i] = busy_start(b + i);
        uint64_t n[2] = {b[0].n_executed, b[1].n_executed};
        nap(600 * NSEC_PER_MSEC);
        uint64_t t0 = (b[0].n_executed - n[0]) * first_ns, t1 = (b[1].n_executed - n[1]) * second_ns;
        printf("# %" PRIu64 " ms and %" PRIu64 " ms\n", t0 / NSEC_PER_MSEC, t1 / NSEC_PER_MSEC);
        check(t0 + t1 > 0);
        busy_stop(b, pid[0]);
        busy_stop(b + 1, pid[1]);
        return (unsigned) (t1 * 100 / (t0 + t1));
}

static void case_fair(void) {
        unsigned share = share_of_second(NSEC_PER_MSEC, NSEC_PER_MSEC);
        check(share >= 35 && share <= 65);
}

/* Long dispatches gain nothing: they are interrupted at the end of the quantum. */
static void case_fair_long(void) {
        unsigned share = share_of_second(500000, 20 * NSEC_PER_MSEC);
        check(share >= 30 && share <= 70);
}

static void case_killed_while_executing(void) {
        Busy *b = shared_new(2 * sizeof(*b));

        b[0].duration_ns = 50 * NSEC_PER_MSEC;
        b[1].duration_ns = NSEC_PER_MSEC;
        pid_t other = busy_start(b + 1);
        for (unsigned i = 0; i < 5; i++) {
                b[0].ready = false;
                pid_t pid = busy_start(b);
                nap((i + 1) * NSEC_PER_MSEC / 2);
                check(child_kill(pid) == -SIGKILL);
                check(busy_goes_on(b + 1));
        }
        busy_stop(b + 1, other);
}

static void storm(void *userdata) {
        AqlDevice d = device_open(0);

        for (;;) {
                AqlQueue *q = queue_open(&d);
                for (unsigned i = 0; i < 3; i++) {
                        (void) aql_dispatch(q, 50000, NULL);
                        aql_ring(q);
                        check(aql_queue_update(q, 0) == 0 && aql_queue_update(q, 100) == 0);
                }
                check(aql_queue_destroy(q) == 0);
        }
}

/* Killed at any point of any call: the lock, the turn and the records are there for the others. */
static void case_killed_anywhere(void) {
        uint32_t random = 1;

        for (unsigned i = 0; i < N_STORMS; i++) {
                random = random * 1664525 + 1013904223;
                pid_t pid = child_start(storm, NULL);
                nap(2 * NSEC_PER_MSEC + (random >> 8) % (15 * NSEC_PER_MSEC));
                check(child_kill(pid) == -SIGKILL);
        }
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);
        for (unsigned i = 0; i < 50; i++)
                check(aql_dispatch(q, 50000, NULL) == 0);
        aql_ring(q);
        check(aql_queue_update(q, 0) == 0 && aql_queue_update(q, 100) == 0);
        queue_close_clean(q);
}

/* A stopped process delays no other, and finishes its work later. */
static void case_stopped_holder(void) {
        Busy *b = shared_new(2 * sizeof(*b));

        b[0].duration_ns = b[1].duration_ns = 2 * NSEC_PER_MSEC;
        pid_t pid[2] = {busy_start(b), busy_start(b + 1)};
        check(kill(pid[0], SIGSTOP) == 0);
        check(busy_goes_on(b + 1) && busy_stands_still(b));
        check(kill(pid[0], SIGCONT) == 0);
        check(busy_goes_on(b) && busy_goes_on(b + 1));
        busy_stop(b, pid[0]);
        busy_stop(b + 1, pid[1]);
}

/* Dead processes are forgotten: more processes come and go than there is room for at a time. */
static void open_and_leave(void *userdata) {
        _cleanup_close_ int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        check(fd >= 0);
}

static void case_many_processes(void) {
        for (unsigned i = 0; i < 300; i++)
                check(child_wait(child_start(open_and_leave, NULL)) == 0);
}

/* A child shares nothing with its parent: it opens a device of its own, and the parent's queues go on. */
static void child_of_user(void *userdata) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        for (unsigned i = 0; i < 20; i++)
                check(aql_dispatch(q, 100000, NULL) == 0);
        aql_ring(q);
        queue_close_clean(q);
}

static void case_fork(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        for (unsigned i = 0; i < 100; i++)
                check(aql_dispatch(q, 300000, NULL) == 0);
        aql_ring(q);
        check(child_wait(child_start(child_of_user, NULL)) == 0);
        queue_close_clean(q);
}

/* exec leaves nothing behind once the new program uses the device: its queues start at number 0, and those of before
 * are gone. */
static void exec_self(void *userdata) {
        AqlDevice d = device_open(0);
        char self[] = "/proc/self/exe", role[] = "--after-exec", *argv[] = {self, role, NULL};

        (void) queue_open(&d);
        AqlQueue *q = queue_open(&d);
        check(aql_queue_id(q) == 1 && aql_dispatch(q, NSEC_PER_SEC, NULL) == 0);
        aql_ring(q);
        (void) execv(self, argv);
}

static int after_exec(void) {
        AqlDevice d = device_open(0);
        AqlQueue *q = queue_open(&d);

        check(aql_queue_id(q) == 0 && aql_dispatch(q, 1000, NULL) == 0);
        aql_ring(q);
        queue_close_clean(q);
        return EXIT_SUCCESS;
}

static void case_exec(void) {
        check(child_wait(child_start(exec_self, NULL)) == 0);
}

static void case_quiet(void) {
        Busy *b = shared_new(2 * sizeof(*b));

        b[0].duration_ns = b[1].duration_ns = 100000;
        pid_t pid[2] = {busy_start(b), busy_start(b + 1)};
        busy_stop(b, pid[0]);
        check(busy_goes_on(b + 1));
        busy_stop(b + 1, pid[1]);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"fair", NULL, NULL, case_fair},
                        {"fair-long", NULL, NULL, case_fair_long},
                        {"killed-while-executing", NULL, NULL, case_killed_while_executing},
                        {"killed-anywhere", NULL, "map-us=20", case_killed_anywhere},
                        {"stopped-holder", NULL, NULL, case_stopped_holder},
                        {"many-processes", NULL, NULL, case_many_processes},
                        {"fork", NULL, NULL, case_fork},
                        {"exec", NULL, NULL, case_exec},
                        {"one-leaves", NULL, NULL, case_quiet},
        };
        if (argc > 1 && streq(argv[1], "--after-exec"))
                return after_exec();
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
