/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues of another process: CRIU_OP through an fd taken by pidfd_getfd, DBG_TRAP, and both when the caller dies */

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hal/kfd-abi.h"
#include "harness.h"

/* --- another's device --- */

/* The target's own fd of the device, found as the service finds it. */
static int device_of(pid_t pid) {
        char path[64], target[256];
        int found = -1;

        (void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        DIR *d = opendir(path);
        check(d);
        for (struct dirent *e; found < 0 && (e = readdir(d));) {
                ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
                target[MAX(n, 0)] = 0;
                if (streq(target, KFD_DEVICE_PATH))
                        found = atoi(e->d_name);
        }
        (void) closedir(d);
        check(found >= 0);
        int pidfd = (int) syscall(SYS_pidfd_open, pid, 0), fd = (int) syscall(SYS_pidfd_getfd, pidfd, found, 0);
        safe_close(pidfd);
        check(fd >= 0);
        return fd;
}

static int criu(int fd, KfdCriuOp op) {
        KfdCriu c = {.op = op};
        return ioctl(fd, KFD_IOC_CRIU_OP, &c) < 0 ? negative_errno() : 0;
}

typedef struct TracedCall {
        pid_t pid;
        int fd;
        KfdCriuOp op;
        int result;
} TracedCall;

static void *call_traced(void *userdata) {
        TracedCall *c = userdata;

        c->result = ptrace(PTRACE_SEIZE, c->pid, NULL, NULL) < 0 ? negative_errno() : criu(c->fd, c->op);
        return NULL;
}

/* One call, traced for as long as it takes: a running process is let go by the end of its tracing thread. */
static int criu_traced(pid_t pid, int fd, KfdCriuOp op) {
        TracedCall c = {.pid = pid, .fd = fd, .op = op};
        pthread_t thread;

        check(pthread_create(&thread, NULL, call_traced, &c) == 0 && pthread_join(thread, NULL) == 0);
        return c.result;
}

static void case_criu(void) {
        Busy *b = shared_new(sizeof(*b));
        b->duration_ns = NSEC_PER_MSEC;
        pid_t pid = busy_start(b);
        int fd = device_of(pid);

        check(criu(fd, KFD_CRIU_PROCESS_INFO) == -EBADF && busy_goes_on(b)); /* not traced */
        check(criu_traced(pid, fd, KFD_CRIU_UNPAUSE) == -EINVAL);
        for (unsigned i = 0; i < 3; i++) {
                check(criu_traced(pid, fd, KFD_CRIU_PROCESS_INFO) == 0 && busy_stands_still(b));
                check(criu_traced(pid, fd, KFD_CRIU_UNPAUSE) == 0);
                check(busy_goes_on(b));
        }
        busy_stop(b, pid);
}

/* The driver counts evictions, and remembers one pause. */
static void case_criu_leak(void) {
        Busy *b = shared_new(sizeof(*b));
        b->duration_ns = NSEC_PER_MSEC;
        pid_t pid = busy_start(b);
        int fd = device_of(pid);

        check(criu_traced(pid, fd, KFD_CRIU_PROCESS_INFO) == 0);
        check(criu_traced(pid, fd, KFD_CRIU_PROCESS_INFO) == 0);
        check(criu_traced(pid, fd, KFD_CRIU_UNPAUSE) == 0);
        check(busy_stands_still(b));
        check(criu_traced(pid, fd, KFD_CRIU_UNPAUSE) == -EINVAL);
        check(busy_stands_still(b));
        check(child_kill(pid) == -SIGKILL);
}

typedef struct Pauser {
        pid_t target;
        _Atomic bool done;
} Pauser;

static void pause_and_wait(void *userdata) {
        Pauser *p = userdata;
        int fd = device_of(p->target);

        check(criu_traced(p->target, fd, KFD_CRIU_PROCESS_INFO) == 0);
        p->done = true;
        for (;;)
                (void) pause();
}

static void case_criu_death(void) {
        Busy *b = shared_new(sizeof(*b));
        Pauser *p = shared_new(sizeof(*p));
        b->duration_ns = NSEC_PER_MSEC;
        p->target = busy_start(b);
        pid_t pauser = child_start(pause_and_wait, p);

        check(poll_until(p->done));
        check(child_kill(pauser) == -SIGKILL);
        check(busy_stands_still(b));
        int fd = device_of(p->target);
        check(criu_traced(p->target, fd, KFD_CRIU_UNPAUSE) == 0 && busy_goes_on(b));
        busy_stop(b, p->target);
}

/* The caller is killed in the middle of a long call: the pause that it began is like any other. */
static void case_criu_killed(void) {
        Busy *b = shared_new(sizeof(*b));
        Pauser *p = shared_new(sizeof(*p));
        b->duration_ns = NSEC_PER_MSEC;
        p->target = busy_start(b);
        int fd = device_of(p->target);
        pid_t pauser = child_start(pause_and_wait, p);

        check(busy_stands_still(b));
        check(child_kill(pauser) == -SIGKILL);
        /* On a busy machine the call may not have begun the pause. */
        int r = criu_traced(p->target, fd, KFD_CRIU_UNPAUSE);
        check((r == 0 || r == -EINVAL) && busy_goes_on(b));
        busy_stop(b, p->target);
}

/* The engine of a process that is stopped by a signal cannot answer, and its queue is stopped nevertheless; no dispatch
 * ends before the queue is mapped again. */
static void case_criu_stopped(void) {
        Busy *b = shared_new(sizeof(*b));
        b->duration_ns = 5 * NSEC_PER_MSEC;
        pid_t pid = busy_start(b);
        int fd = device_of(pid);

        for (unsigned i = 0; i < 5; i++) {
                check(kill(pid, SIGSTOP) == 0);
                check(criu_traced(pid, fd, KFD_CRIU_PROCESS_INFO) == 0);
                check(kill(pid, SIGCONT) == 0);
                check(busy_stands_still(b));
                check(criu_traced(pid, fd, KFD_CRIU_UNPAUSE) == 0 && busy_goes_on(b));
        }
        busy_stop(b, pid);
}

/* --- a debugger --- */

typedef struct Debugger {
        int fd; /* of the device, our own */
        pid_t target;
} Debugger;

static int trap(const Debugger *d, KfdDbgTrapOp op, KfdDbgTrap *t) {
        t->pid = (uint32_t) d->target;
        t->op = op;
        int r = ioctl(d->fd, KFD_IOC_DBG_TRAP, t);
        return r < 0 ? negative_errno() : r;
}

static void attach(Debugger *d, pid_t target) {
        KfdRuntimeInfo info = {.runtime_state = UINT32_MAX};
        int p[2];

        *d = (Debugger){.fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC), .target = target};
        check(d->fd >= 0 && pipe2(p, O_CLOEXEC) == 0 && ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0);
        KfdDbgTrap t = {.enable = {.rinfo_ptr = (uint64_t) (uintptr_t) &info,
                                        .rinfo_size = sizeof(info),
                                        .dbg_fd = (uint32_t) p[1]}};
        check(trap(d, KFD_DBG_TRAP_ENABLE, &t) == 0 && info.runtime_state == 1);
}

static int suspend(const Debugger *d, uint32_t *id) {
        KfdDbgTrap t = {.suspend_queues = {.queue_array_ptr = (uint64_t) (uintptr_t) id, .num_queues = 1}};
        return trap(d, KFD_DBG_TRAP_SUSPEND_QUEUES, &t);
}

static int resume_all(const Debugger *d) {
        KfdDbgTrap t = {0};
        return trap(d, KFD_DBG_TRAP_RESUME_QUEUES, &t);
}

/* Takes a snapshot of all queues, which are no longer new then; returns their number. */
static uint32_t see_queues(const Debugger *d, KfdQueueSnapshot *s, uint32_t n) {
        KfdDbgTrap t = {.queue_snapshot = {.exception_mask = KFD_EXCEPTION_MASK(KFD_EXCEPTION_QUEUE_NEW),
                                        .snapshot_buf_ptr = (uint64_t) (uintptr_t) s,
                                        .num_queues = n,
                                        .entry_size = sizeof(*s)}};
        check(trap(d, KFD_DBG_TRAP_GET_QUEUE_SNAPSHOT, &t) == 0);
        return t.queue_snapshot.num_queues;
}

static Busy *debugged_start(pid_t *ret) {
        Busy *b = shared_new(sizeof(*b));

        b->duration_ns = NSEC_PER_MSEC;
        b->runtime_enable = true;
        *ret = busy_start(b);
        return b;
}

static void case_debug(void) {
        KfdQueueSnapshot s = {0};
        pid_t pid;
        Busy *b = debugged_start(&pid);
        Debugger d;
        attach(&d, pid);

        uint32_t id = b->queue_id;
        check(suspend(&d, &id) == 0 && id == (b->queue_id | KFD_DBG_QUEUE_INVALID) && busy_goes_on(b)); /* new */
        check(see_queues(&d, &s, 1) == 1 && s.queue_id == b->queue_id && s.queue_type == KFD_QUEUE_COMPUTE_AQL);
        check(s.exception_status == KFD_EXCEPTION_MASK(KFD_EXCEPTION_QUEUE_NEW));
        check(see_queues(&d, &s, 1) == 1 && s.exception_status == 0);

        id = b->queue_id;
        check(suspend(&d, &id) == 1 && id == b->queue_id && busy_stands_still(b));
        check(resume_all(&d) == 1 && busy_goes_on(b));
        check(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0 && waitpid(pid, NULL, __WALL) == pid);
        check(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
        id = b->queue_id;
        check(suspend(&d, &id) == -EPERM); /* as 6.12.94 has it */
        busy_stop(b, pid);
}

typedef struct DebuggerStart {
        pid_t target;
        uint32_t queue_id;
        _Atomic bool done;
} DebuggerStart;

static void debug_and_wait(void *userdata) {
        DebuggerStart *s = userdata;
        KfdQueueSnapshot snapshot;
        Debugger d;

        attach(&d, s->target);
        (void) see_queues(&d, &snapshot, 1);
        uint32_t id = s->queue_id;
        check(suspend(&d, &id) == 1);
        s->done = true;
        for (;;)
                (void) pause();
}

static void case_debugger_death(void) {
        pid_t pid;
        Busy *b = debugged_start(&pid);

        DebuggerStart *s = shared_new(sizeof(*s));
        s->target = pid;
        s->queue_id = b->queue_id;
        pid_t debugger = child_start(debug_and_wait, s);
        check(poll_until(s->done) && busy_stands_still(b));
        check(child_kill(debugger) == -SIGKILL);
        check(busy_goes_on(b));
        busy_stop(b, pid);
}

/* A runtime that starts under a debugger waits for its word. */
static void enable_runtime(void *userdata) {
        _Atomic int *stage = userdata;
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        KfdRuntimeEnable e = {.mode_mask = KFD_RUNTIME_MODE_ENABLE};

        check(fd >= 0);
        *stage = 1;
        check(poll_until(*stage == 2));
        check(ioctl(fd, KFD_IOC_RUNTIME_ENABLE, &e) == 0);
        *stage = 3;
        check(ioctl(fd, KFD_IOC_RUNTIME_ENABLE, &e) < 0 && errno == EBUSY);
}

static void case_runtime_waits(void) {
        _Atomic int *stage = shared_new(sizeof(*stage));
        struct timespec nap = {.tv_nsec = 50000000};
        pid_t pid = child_start(enable_runtime, stage);
        KfdRuntimeInfo info = {.runtime_state = UINT32_MAX};
        int p[2];

        check(poll_until(*stage == 1));
        Debugger d = {.fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC), .target = pid};
        check(d.fd >= 0 && pipe2(p, O_CLOEXEC) == 0 && ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
        KfdDbgTrap t = {.enable = {.rinfo_ptr = (uint64_t) (uintptr_t) &info,
                                        .rinfo_size = sizeof(info),
                                        .dbg_fd = (uint32_t) p[1]}};
        check(trap(&d, KFD_DBG_TRAP_ENABLE, &t) == 0 && info.runtime_state == 0);
        *stage = 2;
        (void) nanosleep(&nap, NULL);
        check(*stage == 2);
        t = (KfdDbgTrap){.send_runtime_event = {.exception_mask = KFD_EXCEPTION_MASK(KFD_EXCEPTION_PROCESS_RUNTIME)}};
        check(trap(&d, KFD_DBG_TRAP_SEND_RUNTIME_EVENT, &t) == 0);
        check(poll_until(*stage == 3));
        check(child_wait(pid) == 0);
}

int main(int argc, char *argv[]) {
        static const SimCase cases[] = {
                        {"criu", NULL, NULL, case_criu},
                        {"criu-leak", NULL, NULL, case_criu_leak},
                        {"criu-death", NULL, NULL, case_criu_death},
                        {"criu-killed", NULL, "map-us=300000", case_criu_killed},
                        {"criu-stopped", NULL, NULL, case_criu_stopped},
                        {"debug", NULL, NULL, case_debug},
                        {"debugger-death", NULL, NULL, case_debugger_death},
                        {"runtime-waits", NULL, NULL, case_runtime_waits},
        };

        if (geteuid() != 0) {
                puts("1..0 # SKIP needs root, to trace and to pause");
                return EXIT_SUCCESS;
        }
        return sim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
