/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The conformance suite of HAL backends: several processes, and processes that end
 *
 * Each process executes the program again, so that no runtime is half alive in it. The processes share what the
 * backend's device gives them: the simulated GPUs, the CPU's OpenCL device, or nothing.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "common/macro.h"
#include "common/time-util.h"
#include "hal-bench.h"
#include "tests/lib/deadline.h"

#define WORK_NS (100 * NSEC_PER_USEC)

static const char *program;
static int shared_fd = -EBADF;

void suite_processes_init(char *argv[]) {
        program = argv[0];
}

static Shared *shared_memory_map(int fd) {
        Shared *s = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(s, MAP_FAILED);
        return s;
}

Shared *shared_memory_new(void) {
        if (shared_fd >= 0)
                (void) close(shared_fd);
        shared_fd = memfd_create("hal-suite", 0);
        assert_true(shared_fd >= 0);
        assert_int_equal(ftruncate(shared_fd, sizeof(Shared)), 0);
        return shared_memory_map(shared_fd);
}

int suite_worker_start(Role role, Shared *shared, uint64_t seed) {
        char number[3][32];

        (void) fflush(stdout);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) snprintf(number[0], sizeof(number[0]), "%u", (unsigned) role);
        (void) snprintf(number[1], sizeof(number[1]), "%d", shared_fd);
        (void) snprintf(number[2], sizeof(number[2]), "%" PRIu64, seed);
        (void) execl("/proc/self/exe", program, "--worker", driver->ops->name, number[0], number[1], number[2],
                        suite_is_long ? "--long" : (char *) NULL, (char *) NULL);
        _exit(127);
}

int suite_worker_wait(int pid) {
        int status = -1;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

/* --- what they do --- */

static void submit_some(Bench *b) {
        for (size_t i = 0; i < b->n; i++)
                for (int k = 0; k < 4; k++)
                        bench_submit(b, i, WORK_NS);
}

static void work_cycles(Shared *shared, uint64_t seed) {
        Bench *b = bench_new(suite_is_long ? SUITE_QUEUES : SUITE_QUEUES / SUITE_PROCESSES);

        /* All at the same time. */
        atomic_fetch_add(&shared->ready, 1);
        assert_true(poll_until(atomic_load(&shared->go)));
        bench_random_cycles(b, suite_is_long ? SUITE_CYCLES : SUITE_CYCLES / SUITE_PROCESSES, seed);
        bench_free(b);
}

/* A child that ends, in any way, neither releases queues of its parent, nor takes any away. */
static void work_fork(void) {
        Bench *b = bench_new(2);

        submit_some(b);
        assert_int_equal(driver->ops->hold(b->queues, 1), 0);
        uint64_t before = bench_done(b, 0);
        for (int i = 0; i < 4; i++) {
                pid_t pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        if (i == 1)
                                (void) raise(SIGKILL);
                        if (i == 2)
                                (void) execl("/bin/true", "true", (char *) NULL);
                        _exit(0);
                }
                (void) suite_worker_wait(pid);
                driver->run(b->device, WORK_NS);
                assert_true(b->queues[0]->held);
                if (driver->max_level >= LEVEL_INTERRUPT)
                        assert_int_equal(bench_done(b, 0), before);
        }
        bench_run_to_end(b);
        bench_assert_all_done(b);
        bench_free(b);
}

static Bench *hold_with_work(Shared *shared) {
        Bench *b = bench_new(2);

        submit_some(b);
        assert_int_equal(driver->ops->hold(b->queues, b->n), 0);
        atomic_fetch_add(&shared->ready, 1);
        return b;
}

_noreturn_ static void work_kill(Shared *shared) {
        (void) hold_with_work(shared);
        for (;;)
                (void) pause();
}

int suite_worker_main(char *argv[]) {
        Role role = (Role) strtoul(argv[0], NULL, 10);
        Shared *shared = shared_memory_map((int) strtol(argv[1], NULL, 10));
        uint64_t seed = strtoull(argv[2], NULL, 10);

        switch (role) {
        case ROLE_CYCLES:
                work_cycles(shared, seed);
                return EXIT_SUCCESS;
        case ROLE_FORK:
                work_fork();
                return EXIT_SUCCESS;
        case ROLE_EXIT:
                (void) hold_with_work(shared);
                _exit(EXIT_SUCCESS);
        case ROLE_KILL:
                work_kill(shared);
        case ROLE_SERVICE:
                suite_service_worker(shared);
                _exit(EXIT_SUCCESS); /* the control thread may still look at the queues */
        default:
                return EXIT_FAILURE;
        }
}

/* --- cases --- */

static void test_cycles(void **state) {
        uint64_t seed = suite_seed();
        Shared *shared = shared_memory_new();
        int pids[SUITE_PROCESSES];

        print_message("seed %" PRIu64 ", and the following ones\n", seed);
        for (unsigned i = 0; i < SUITE_PROCESSES; i++)
                pids[i] = suite_worker_start(ROLE_CYCLES, shared, seed + i);
        assert_true(poll_until(atomic_load(&shared->ready) == SUITE_PROCESSES));
        atomic_store(&shared->go, true);
        for (unsigned i = 0; i < SUITE_PROCESSES; i++)
                assert_int_equal(suite_worker_wait(pids[i]), 0);
        (void) munmap(shared, sizeof(Shared));
}

static void test_fork(void **state) {
        Shared *shared = shared_memory_new();

        assert_int_equal(suite_worker_wait(suite_worker_start(ROLE_FORK, shared, 0)), 0);
        (void) munmap(shared, sizeof(Shared));
}

/* After a process has ended while it was held, the device works for the next one. */
static void test_end(void **state) {
        Shared *shared = shared_memory_new();
        int killed[2];

        for (size_t i = 0; i < ELEMENTSOF(killed); i++)
                killed[i] = suite_worker_start(ROLE_KILL, shared, 0);
        assert_true(poll_until(atomic_load(&shared->ready) == ELEMENTSOF(killed)));
        assert_int_equal(suite_worker_wait(suite_worker_start(ROLE_EXIT, shared, 0)), 0);
        assert_int_equal(kill(killed[0], SIGKILL), 0);
        assert_int_equal(suite_worker_wait(suite_worker_start(ROLE_FORK, shared, 0)), 0); /* beside one that is held */
        assert_int_equal(kill(killed[1], SIGKILL), 0);
        for (size_t i = 0; i < ELEMENTSOF(killed); i++)
                assert_int_equal(suite_worker_wait(killed[i]), SIGKILL);
        assert_int_equal(suite_worker_wait(suite_worker_start(ROLE_FORK, shared, 0)), 0);
        (void) munmap(shared, sizeof(Shared));
}

static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cycles),
                cmocka_unit_test(test_fork),
                cmocka_unit_test(test_end),
};
const struct CMUnitTest *const suite_process_tests = tests;
const size_t suite_n_process_tests = ELEMENTSOF(tests);
