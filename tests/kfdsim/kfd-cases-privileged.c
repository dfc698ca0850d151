/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows about CRIU_OP and DBG_TRAP: stopping a process from outside
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/kfdsim/kfd-cases.h"

/* --- CRIU_OP --- */

static int criu(int fd, KfdCriuOp op, pid_t pid) {
        KfdCriu c = {.op = op, .pid = (uint32_t) pid};
        return kfd_call(fd, KFD_IOC_CRIU_OP, &c);
}

static int criu_own(int fd) {
        return expect("UNPAUSE of a process that is not paused", criu(fd, KFD_CRIU_UNPAUSE, 0), -EINVAL)
                        ?: expect("unknown operation", criu(fd, KFD_CRIU_RESUME + 1, 0), -EINVAL);
}

static int case_criu_own(void) {
        return with_kfd(criu_own);
}

static int criu_pause(int fd) {
        if (!has_gpu(fd))
                return expect("PROCESS_INFO without a GPU", criu(fd, KFD_CRIU_PROCESS_INFO, getpid()), -ENODEV);
        return expect("PROCESS_INFO", criu(fd, KFD_CRIU_PROCESS_INFO, getpid()), 0) ?:
                        expect("PROCESS_INFO once more", criu(fd, KFD_CRIU_PROCESS_INFO, getpid()), 0) ?:
                        expect("UNPAUSE", criu(fd, KFD_CRIU_UNPAUSE, 0), 0) ?:
                        expect("the other pause has leaked", criu(fd, KFD_CRIU_UNPAUSE, 0), -EINVAL);
}

static int case_criu_pause(void) {
        return with_kfd(criu_pause);
}

static int criu_as_nobody(void *userdata) {
        int fd = kfd_open(); /* as root: the node's mode is not what is asked about */
        if (fd < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
                return EIO;
        return -criu(fd, KFD_CRIU_PROCESS_INFO, getpid());
}

static int case_criu_unprivileged(void) {
        return expect("PROCESS_INFO without capabilities", -in_child(criu_as_nobody, NULL), -EACCES);
}

/* --- DBG_TRAP --- */

static int dbg(int fd, KfdDbgTrap *t, pid_t pid, KfdDbgTrapOp op) {
        t->pid = (uint32_t) pid;
        t->op = op;
        return kfd_call(fd, KFD_IOC_DBG_TRAP, t);
}

static int dbg_enable(int fd, pid_t pid, int dbg_fd) {
        KfdRuntimeInfo info = {0};
        KfdDbgTrap t = {
                        .enable =
                                        {
                                                        .rinfo_ptr = (uint64_t) (uintptr_t) &info,
                                                        .rinfo_size = sizeof(info),
                                                        .dbg_fd = (uint32_t) dbg_fd,
                                        },
        };
        return dbg(fd, &t, pid, KFD_DBG_TRAP_ENABLE);
}

static int dbg_suspend(int fd, pid_t pid, uint32_t *queues, uint32_t n) {
        KfdDbgTrap t = {.suspend_queues = {.queue_array_ptr = (uint64_t) (uintptr_t) queues, .num_queues = n}};
        return dbg(fd, &t, pid, KFD_DBG_TRAP_SUSPEND_QUEUES);
}

static int dbg_resume(int fd, pid_t pid, uint32_t *queues, uint32_t n) {
        KfdDbgTrap t = {.resume_queues = {.queue_array_ptr = (uint64_t) (uintptr_t) queues, .num_queues = n}};
        return dbg(fd, &t, pid, KFD_DBG_TRAP_RESUME_QUEUES);
}

static int dbg_before_enable(int fd) {
        uint32_t q = NO_SUCH_QUEUE;
        return expect("SUSPEND before ENABLE", dbg_suspend(fd, getpid(), &q, 1), -EINVAL)
                        ?: expect("RESUME before ENABLE", dbg_resume(fd, getpid(), NULL, 0), -EINVAL);
}

static int case_dbg_before_enable(void) {
        return with_kfd(dbg_before_enable);
}

static int dbg_self(int fd) {
        uint32_t queues[2] = {NO_SUCH_QUEUE, NO_SUCH_QUEUE + 1};
        int p[2];
        if (pipe2(p, O_CLOEXEC) < 0)
                return CASE_FAILED;

        int r = expect("ENABLE with dbg_fd -1", dbg_enable(fd, getpid(), -1), -EBADF) ?:
                        expect("ENABLE", dbg_enable(fd, getpid(), p[1]), 0) ?:
                        expect("ENABLE again", dbg_enable(fd, getpid(), p[1]), -EALREADY) ?:
                        expect("SUSPEND before RUNTIME_ENABLE", dbg_suspend(fd, getpid(), queues, 2), -EPERM);
        safe_close(p[0]);
        safe_close(p[1]);
        return r;
}

static int case_dbg_self(void) {
        return with_kfd(dbg_self);
}

static int dbg_self_runtime(int fd) {
        uint32_t queues[2] = {NO_SUCH_QUEUE, NO_SUCH_QUEUE + 1};
        int p[2];
        if (pipe2(p, O_CLOEXEC) < 0)
                return CASE_FAILED;

        int r = expect("RUNTIME_ENABLE", runtime_enable(fd, KFD_RUNTIME_MODE_ENABLE), 0) ?:
                        expect("ENABLE", dbg_enable(fd, getpid(), p[1]), 0) ?:
                        expect("SUSPEND of unknown queues", dbg_suspend(fd, getpid(), queues, 2), 0) ?:
                        expect("first id is INVALID", queues[0] == (NO_SUCH_QUEUE | KFD_DBG_QUEUE_INVALID), 1) ?:
                        expect("second id is INVALID", queues[1] == ((NO_SUCH_QUEUE + 1) | KFD_DBG_QUEUE_INVALID), 1) ?:
                        expect("RESUME of all", dbg_resume(fd, getpid(), NULL, 0), 0);
        safe_close(p[0]);
        safe_close(p[1]);
        return r;
}

static int case_dbg_self_runtime(void) {
        return with_kfd(dbg_self_runtime);
}

static int dbg_target(int fd, bool with_device, bool seize, int want) {
        Target t;
        int p[2], r = target_start(with_device, &t);
        if (r < 0 || pipe2(p, O_CLOEXEC) < 0)
                return expect("target", r, 0);

        if (seize && ptrace(PTRACE_SEIZE, t.pid, NULL, NULL) < 0)
                r = expect("PTRACE_SEIZE", negative_errno(), 0);
        r = r ?: expect("ENABLE", dbg_enable(fd, t.pid, p[1]), want);
        safe_close(p[0]);
        safe_close(p[1]);
        if (seize)
                (void) ptrace(PTRACE_DETACH, t.pid, NULL, NULL);
        target_stop(&t);
        return r;
}

static int dbg_untraced(int fd) {
        return dbg_target(fd, true, false, -EPERM);
}

static int case_dbg_untraced(void) {
        return with_kfd(dbg_untraced);
}

static int dbg_seized(int fd) {
        return dbg_target(fd, true, true, 0);
}

static int case_dbg_seized(void) {
        return with_kfd(dbg_seized);
}

static int dbg_without_kfd(int fd) {
        return dbg_target(fd, false, false, -ESRCH);
}

static int case_dbg_without_kfd(void) {
        return with_kfd(dbg_without_kfd);
}

/* ENABLE makes the process known to KFD when its caller traces it: a debugger may come before the device is opened. */
static int dbg_seized_without_kfd(int fd) {
        return dbg_target(fd, false, true, 0);
}

static int case_dbg_seized_without_kfd(void) {
        return with_kfd(dbg_seized_without_kfd);
}

static int dbg_dead(int fd) {
        Target t;
        if (target_start(true, &t) < 0)
                return CASE_FAILED;
        target_stop(&t);
        return expect("ENABLE of a dead process", dbg_enable(fd, t.pid, fd), -ESRCH);
}

static int case_dbg_dead(void) {
        return with_kfd(dbg_dead);
}

const Case privileged_cases[] = {
                {"criu-own", case_criu_own},
                {"criu-pause", case_criu_pause},
                {"criu-unprivileged", case_criu_unprivileged},
                {"dbg-before-enable", case_dbg_before_enable},
                {"dbg-self", case_dbg_self},
                {"dbg-self-with-runtime", case_dbg_self_runtime},
                {"dbg-other-untraced", case_dbg_untraced},
                {"dbg-other-seized", case_dbg_seized},
                {"dbg-other-without-kfd", case_dbg_without_kfd},
                {"dbg-other-seized-without-kfd", case_dbg_seized_without_kfd},
                {"dbg-dead", case_dbg_dead},
                {NULL, NULL},
};
