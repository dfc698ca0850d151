/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched in a process: what the cases share
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "shim-cases.h"

PrivateBus bus;

FakeScheduler *scheduler(void) {
        FakeScheduler *s = fake_scheduler_new(bus.address);

        fake_scheduler_own(s);
        return s;
}

XschedQueue *queue(XschedQueueInfo info) {
        XschedQueue *q = NULL;

        info.size = sizeof(info);
        info.device = info.device ?: "pci:0000:65:00.0";
        info.backend = info.backend ?: "test";
        CHECK(xsched_queue_new(&info, &q) == 0);
        CHECK(q);
        return q;
}

XschedCounters counters(void) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(xsched_get_counters(&c) == 0);
        return c;
}

XschedQueue *attached_queue(FakeScheduler *s, XschedQueueInfo info) {
        uint64_t before = counters().queues;
        XschedQueue *q = queue(info);

        CHECK(scheduler_until(s, counters().queues == before + 1));
        CHECK(counters().state == XSCHED_STATE_ATTACHED);
        return q;
}

static void *launcher_main(void *p) {
        Launcher *l = p;

        atomic_store(&l->began, xsched_queue_begin(l->queue));
        return NULL;
}

void launch(Launcher *l, XschedQueue *q) {
        *l = (Launcher){.queue = q, .began = -1};
        CHECK(pthread_create(&l->thread, NULL, launcher_main, l) == 0);
}

bool has_waiters(FakeClient *c, uint32_t slot, uint32_t n) {
        return atomic_load(&fake_slot(c->f, slot)->waiters) == n;
}

_Atomic int destroyed;

void count_destroy(void *userdata) {
        atomic_fetch_add(&destroyed, *(int *) userdata);
}

_Atomic int drains;
char drain_thread[32];

void count_drain(XschedQueue *q, void *userdata) {
        (void) prctl(PR_GET_NAME, drain_thread);
        atomic_fetch_add(&drains, 1);
}

/* --- running the cases --- */

static int run_case(const Case *c) {
        bus.pid = (pid_t) strtol(strempty(getenv("TEST_BUS_PID")), NULL, 10);
        (void) snprintf(bus.address, sizeof(bus.address), "%s", strempty(getenv("XSCHED_BUS_ADDRESS")));
        c->run();
        fflush(NULL);
        _exit(0);
}

/* A new bus for each: some end it. */
static bool spawn_case(const Case *c) {
        char pid[32];
        PrivateBus b;

        if (private_bus_start(&b) < 0) {
                puts("no dbus-daemon");
                exit(77);
        }
        (void) snprintf(pid, sizeof(pid), "%d", (int) b.pid);

        pid_t child = fork();
        if (child == 0) {
                (void) alarm(60);
                setenv("TEST_BUS_PID", pid, true);
                setenv("XSCHED_BUS_ADDRESS", b.address, true);
                setenv("XSCHED_JOB", "token", true);
                setenv("XSCHED_CLASS", "batch", true);
                setenv("XSCHED_PRIORITY", "-7", true);
                setenv("XSCHED_WEIGHT", "50", true);
                /* Forks with threads are what is tested here, and nothing is ever torn down. */
                setenv("TSAN_OPTIONS", "die_after_fork=0:halt_on_error=1", true);
                setenv("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1", true);
                if (c->environment)
                        putenv((char *) c->environment);
                execl("/proc/self/exe", program_invocation_name, c->name, (char *) NULL);
                _exit(127);
        }
        int status = -1;
        (void) waitpid(child, &status, 0);
        private_bus_stop(&b);
        printf("%s %s\n", status == 0 ? "ok    " : "FAILED", c->name);
        fflush(stdout);
        return status == 0;
}

int run_cases(const Case *cases, size_t n, int argc, char *argv[]) {
        unsigned failed = 0;

        for (size_t i = 0; i < n; i++)
                if (argc == 1)
                        failed += !spawn_case(&cases[i]);
                else if (streq(argv[1], cases[i].name))
                        return getenv("TEST_BUS_PID") ? run_case(&cases[i]) : !spawn_case(&cases[i]);
        return failed > 0;
}
