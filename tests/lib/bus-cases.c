/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Cases that are processes of their own, each on a bus of its own
 */

#include "bus-cases.h"

#include <sys/wait.h>

#include "common/macro.h"

#define CASE_SECONDS  60U
#define ARGUMENTS_MAX 8U

PrivateBus bus;

_noreturn_ static void run_case(const BusCase *c) {
        bus.pid = (pid_t) strtol(strempty(getenv("TEST_BUS_PID")), NULL, 10);
        (void) snprintf(bus.address, sizeof(bus.address), "%s", strempty(getenv("XSCHED_BUS_ADDRESS")));
        c->run();
        (void) fflush(NULL);
        _exit(0); /* nothing is ever torn down */
}

_noreturn_ static void exec_case(const BusCase *c, const PrivateBus *b, const char *const *self) {
        char pid[32];
        const char *argv[ARGUMENTS_MAX] = {};
        size_t n = 0;

        for (; self[n] && n < ARGUMENTS_MAX - 2; n++)
                argv[n] = self[n];
        argv[n] = c->name;
        (void) snprintf(pid, sizeof(pid), "%d", (int) b->pid);
        (void) setenv("TEST_BUS_PID", pid, true);
        (void) setenv("XSCHED_BUS_ADDRESS", b->address, true);
        /* The tests fork with threads, and nothing is ever torn down: not worth a wait of a second at the end. */
        (void) setenv("TSAN_OPTIONS", "die_after_fork=0:halt_on_error=1:atexit_sleep_ms=100", true);
        (void) setenv("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1", true);
        if (c->environment)
                (void) putenv((char *) (uintptr_t) c->environment);
        (void) alarm(CASE_SECONDS);
        (void) execv("/proc/self/exe", (char *const *) (uintptr_t) argv);
        _exit(127);
}

/* Starts a new bus for each case: some cases end theirs. */
static bool spawn_case(const BusCase *c, const char *const *self) {
        PrivateBus b;

        if (private_bus_start(&b) < 0) {
                puts("no dbus-daemon");
                exit(77);
        }
        pid_t child = fork();
        if (child == 0)
                exec_case(c, &b, self);
        int status = -1;
        (void) waitpid(child, &status, 0);
        private_bus_stop(&b);
        printf("%s %s\n", status == 0 ? "ok    " : "FAILED", c->name);
        (void) fflush(stdout);
        return status == 0;
}

int bus_cases_run(const BusCase *cases, size_t n, const char *const *self, const char *wanted) {
        unsigned failed = wanted != NULL;

        for (size_t i = 0; i < n; i++)
                if (!wanted)
                        failed += !spawn_case(cases + i, self);
                else if (streq(wanted, cases[i].name)) {
                        if (getenv("TEST_BUS_PID"))
                                run_case(cases + i);
                        failed = !spawn_case(cases + i, self);
                }
        return failed > 0;
}
