/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Privileged holds of KFD on simulated GPUs: real processes, real tracing, a simulated driver
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/process.h"
#include "hal/kfd-privileged.h"
#include "hal/kfd-target-sys.h"
#include "harness.h"
#include "kfdsim.h"

#define CYCLES  20U
#define SIGNALS 400
#define NOBODY  65534

static const PrivilegedMode modes[] = {PRIVILEGED_CRIU, PRIVILEGED_DEBUG};

static bool is_only_thread(void) {
        struct stat st;

        return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3; /* one directory for each, and two */
}

/* The thread that made the last call for a hold may still be on its way out, and sanitizers' allocators keep their
 * locks over fork(). */
static Busy *busy_new(pid_t *ret) {
        Busy *b = shared_new(sizeof(*b));

        check(poll_until(is_only_thread()));
        b->duration_ns = NSEC_PER_MSEC;
        b->runtime_enable = true;
        *ret = busy_start(b);
        return b;
}

static KfdTarget target_open(PrivilegedMode mode, pid_t pid) {
        KfdTarget t = KFD_TARGET_NULL;

        check(kfd_target_open(mode, pid, 0, false, &kfd_target_sys, &t) == 0);
        return t;
}

static void cycles(PrivilegedMode mode) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        KfdTarget t = target_open(mode, pid);

        for (unsigned i = 0; i < CYCLES; i++) {
                check(kfd_target_hold(&t) == 0 && t.state == TARGET_HELD);
                check(kfd_target_hold(&t) == 0);
                if (i % 5 == 0)
                        check(busy_stands_still(b));
                check(kfd_target_release(&t) == 0 && t.state == TARGET_RUNNING);
                if (i % 5 == 0)
                        check(busy_goes_on(b));
        }
        check(t.costs.hold_ns > 0 && t.costs.release_ns > 0);
        kfd_target_done(&t);
        check(busy_goes_on(b));
        busy_stop(b, pid);
}

static void case_criu_cycles(void) {
        cycles(PRIVILEGED_CRIU);
}

static void case_debug_cycles(void) {
        cycles(PRIVILEGED_DEBUG);
}

/* A target that is closed is released. */
static void case_done_releases(void) {
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                pid_t pid;
                Busy *b = busy_new(&pid);
                KfdTarget t = target_open(modes[i], pid);
                check(kfd_target_hold(&t) == 0 && busy_stands_still(b));
                kfd_target_done(&t);
                check(busy_goes_on(b));
                busy_stop(b, pid);
        }
}

/* The holder is killed. A pause stays, and another holder that knows of it can undo it; a debugged process runs
 * again. */
typedef struct Holder {
        PrivilegedMode mode;
        pid_t target;
        _Atomic bool done;
} Holder;

static void hold_and_wait(void *userdata) {
        Holder *h = userdata;
        KfdTarget t = target_open(h->mode, h->target);

        check(kfd_target_hold(&t) == 0);
        h->done = true;
        for (;;)
                (void) pause();
}

static void case_holder_killed(void) {
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                pid_t pid;
                Busy *b = busy_new(&pid);
                Holder *h = shared_new(sizeof(*h));
                h->mode = modes[i];
                h->target = pid;
                pid_t holder = child_start(hold_and_wait, h);
                check(poll_until(h->done) && busy_stands_still(b));
                check(child_kill(holder) == -SIGKILL);

                if (modes[i] == PRIVILEGED_CRIU)
                        check(busy_stands_still(b));
                KfdTarget t = target_open(modes[i], pid);
                check(kfd_target_undo(&t) == 0 && t.state == TARGET_RUNNING);
                check(busy_goes_on(b));
                check(kfd_target_hold(&t) == 0 && busy_stands_still(b));
                check(kfd_target_release(&t) == 0 && busy_goes_on(b));
                kfd_target_done(&t);
                busy_stop(b, pid);
        }
}

/* Signals that come while the process is seized are late, and not lost. */
static _Atomic int *n_signals;

static void on_signal(int sig) {
        (*n_signals)++;
}

static void case_signals(void) {
        struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        pid_t pid;

        n_signals = shared_new(sizeof(*n_signals));
        check(sigaction(SIGRTMIN, &a, NULL) == 0);
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                *n_signals = 0;
                Busy *b = busy_new(&pid);
                KfdTarget t = target_open(modes[i], pid);
                for (int k = 0; k < SIGNALS; k++) {
                        check(sigqueue(pid, SIGRTMIN, (union sigval){0}) == 0);
                        check((k % 2 ? kfd_target_release(&t) : kfd_target_hold(&t)) == 0);
                }
                kfd_target_done(&t);
                check(poll_until(*n_signals == SIGNALS));
                check(busy_goes_on(b));
                busy_stop(b, pid);
        }
}

/* --- who may, and what may be held --- */

static void try_as_nobody(void *userdata) {
        KfdTarget t = KFD_TARGET_NULL;
        pid_t *pid = userdata;

        check(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
        check(kfd_target_open(PRIVILEGED_CRIU, *pid, 0, false, &kfd_target_sys, &t) == -EPERM);
        check(kfd_target_open(PRIVILEGED_DEBUG, *pid, 0, false, &kfd_target_sys, &t) == -EACCES);
}

static void case_unprivileged(void) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        pid_t *shared = shared_new(sizeof(*shared));
        *shared = pid;

        check(child_wait(child_start(try_as_nobody, shared)) == EXIT_SUCCESS);
        check(busy_goes_on(b));
        busy_stop(b, pid);
}

static void case_mes(void) {
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                pid_t pid;
                Busy *b = busy_new(&pid);
                KfdTarget t = target_open(modes[i], pid);
                check(kfd_target_hold(&t) == -EOPNOTSUPP && busy_goes_on(b));
                t.allow_mes = true;
                check(kfd_target_hold(&t) == 0 && busy_stands_still(b));
                check(kfd_target_release(&t) == 0 && busy_goes_on(b));
                kfd_target_done(&t);
                busy_stop(b, pid);
        }
}

static void wait_for_end(void *userdata) {
        for (;;)
                (void) pause();
}

static void case_no_device(void) {
        KfdTarget t = KFD_TARGET_NULL;
        char path[64];
        struct stat st;
        pid_t pid = child_start(wait_for_end, NULL);

        (void) aql_device_open(0, &(AqlDevice){0}); /* the simulated files are there */
        for (size_t i = 0; i < ELEMENTSOF(modes); i++)
                check(kfd_target_open(modes[i], pid, 0, false, &kfd_target_sys, &t) == -ENODEV);
        (void) snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d", (int) pid);
        check(stat(path, &st) < 0 && errno == ENOENT);
        check(child_kill(pid) == -SIGKILL);
        for (size_t i = 0; i < ELEMENTSOF(modes); i++)
                check(kfd_target_open(modes[i], pid, 0, false, &kfd_target_sys, &t) == -ESRCH);
        check(kfd_target_open(PRIVILEGED_CRIU, getpid(), 1, false, &kfd_target_sys, &t) == -ESRCH);
}

/* Another process traces the held one: it stays held until that tracer is gone. */
typedef struct Tracer {
        pid_t target;
        _Atomic bool done;
} Tracer;

static void trace_and_wait(void *userdata) {
        Tracer *t = userdata;

        /* The thread that held it may still be its tracer for a moment. */
        check(poll_until(ptrace(PTRACE_SEIZE, t->target, NULL, NULL) == 0));
        t->done = true;
        for (;;)
                (void) pause();
}

static void case_traced(void) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        KfdTarget t = target_open(PRIVILEGED_CRIU, pid);
        Tracer *tracer = shared_new(sizeof(*tracer));
        tracer->target = pid;

        pid_t child = child_start(trace_and_wait, tracer);
        check(poll_until(tracer->done));
        check(kfd_target_hold(&t) == -EPERM && t.state == TARGET_RUNNING && busy_goes_on(b));
        check(child_kill(child) == -SIGKILL);

        check(kfd_target_hold(&t) == 0);
        tracer->done = false;
        child = child_start(trace_and_wait, tracer);
        check(poll_until(tracer->done));
        check(kfd_target_release(&t) == -EPERM && t.state == TARGET_UNSURE);
        check(child_kill(child) == -SIGKILL);
        check(kfd_target_release(&t) == 0 && busy_goes_on(b));
        kfd_target_done(&t);
        busy_stop(b, pid);
}

static void case_killed(void) {
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                pid_t pid;
                (void) busy_new(&pid);
                KfdTarget t = target_open(modes[i], pid);
                check(kfd_target_hold(&t) == 0);
                check(child_kill(pid) == -SIGKILL);
                int r = kfd_target_release(&t);
                check(r == 0 || r == -ESRCH);
                check(kfd_target_hold(&t) == -ESRCH);
                kfd_target_done(&t);
        }
}

/* A driver from before DBG_TRAP. */
static void case_old_driver(void) {
        KfdTarget t = KFD_TARGET_NULL;
        Busy *b = shared_new(sizeof(*b));
        b->duration_ns = NSEC_PER_MSEC;
        pid_t pid = busy_start(b);

        check(kfd_target_open(PRIVILEGED_DEBUG, pid, 0, false, &kfd_target_sys, &t) == -ENOSYS);
        t = target_open(PRIVILEGED_CRIU, pid);
        check(kfd_target_hold(&t) == 0 && busy_stands_still(b));
        kfd_target_done(&t);
        check(busy_goes_on(b));
        busy_stop(b, pid);
}

/* --- the driver fails --- */

static void case_failures(void) {
        static const struct {
                PrivilegedMode mode;
                const char *fail;
                int hold;
        } rows[] = {
                        {PRIVILEGED_CRIU, "0x22:4:1", 0},
                        {PRIVILEGED_CRIU, "0x22:5:1", -EIO},
                        {PRIVILEGED_CRIU, "0x22:62:1:0:late", -ETIME},
                        {PRIVILEGED_DEBUG, "0x26:4:1", 0},
                        {PRIVILEGED_DEBUG, "0x26:5:1", -EIO},
                        {PRIVILEGED_DEBUG, "0x26:62:1:2", -ETIME},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                pid_t pid;
                Busy *b = busy_new(&pid);
                KfdTarget t = target_open(rows[i].mode, pid);
                check(kfdsim_fail(rows[i].fail) == 0);
                int r = kfd_target_hold(&t);
                check(r == rows[i].hold);
                check(kfdsim_fail("") == 0);
                check(t.state == (r == 0 ? TARGET_HELD : TARGET_RUNNING));
                check(r == 0 ? busy_stands_still(b) : busy_goes_on(b));
                check(kfd_target_hold(&t) == 0 && busy_stands_still(b));
                check(kfd_target_release(&t) == 0 && busy_goes_on(b));
                kfd_target_done(&t);
                busy_stop(b, pid);
        }
}

/* --- some queues --- */

static void case_some_queues(void) {
        pid_t pid;
        Busy *b = busy_new(&pid);
        KfdTarget t = target_open(PRIVILEGED_DEBUG, pid);
        uint32_t ids[] = {b->queue_id, 0x7ffe};

        check(kfd_target_suspend(&t, ids, 2) == 1 && ids[1] == (0x7ffe | KFD_DBG_QUEUE_INVALID));
        check(busy_stands_still(b));
        check(kfd_target_resume(&t, ids, 1) == 1 && busy_goes_on(b));
        check(!t.enabled);
        kfd_target_done(&t);
        busy_stop(b, pid);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"criu-cycles", NULL, NULL, case_criu_cycles},
                        {"debug-cycles", NULL, NULL, case_debug_cycles},
                        {"done-releases", NULL, NULL, case_done_releases},
                        {"holder-killed", NULL, NULL, case_holder_killed},
                        {"signals", NULL, NULL, case_signals},
                        {"unprivileged", NULL, NULL, case_unprivileged},
                        {"mes", "gfx1100", NULL, case_mes},
                        {"no-device", NULL, NULL, case_no_device},
                        {"traced", NULL, NULL, case_traced},
                        {"killed", NULL, NULL, case_killed},
                        {"old-driver", NULL, "api-minor=12", case_old_driver},
                        {"failures", NULL, NULL, case_failures},
                        {"some-queues", NULL, NULL, case_some_queues},
        };

        if (geteuid() != 0) {
                puts("1..0 # SKIP needs root, to trace and to pause");
                return EXIT_SUCCESS;
        }
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
