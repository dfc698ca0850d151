/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kfd-cases: what KFD answers to whom, as one table
 *
 * Every rule that hal/kfd, the shim and the simulator rely on and that shows without a GPU is a row here: which errno, which permission,
 * which number comes back. The program runs against whatever answers to /dev/kfd: a real amdgpu driver in the virtual machine (tests/vm),
 * and the simulator under the same name. Both must give the same answers, so that the simulator cannot drift from the kernel.
 *
 * Output is TAP. "kfd-cases --list" names the cases. Needs root, for the rows that drop privileges. The cases run one after the other, each in a
 * child process of its own: KFD keeps state per process, and what one case leaves behind must not be another's beginning.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/macro.h"
#include "hal/kfd-abi.h"
#include "tests/kfdsim/abi.h"

#define NOBODY        65534
#define NO_SUCH_QUEUE 0x7ffe
#define NO_SUCH_GPU   0xdead
#define NR_UNKNOWN    0x7f
#define NR_DEPRECATED 0x0d /* DBG_REGISTER of old */
#define CASE_OK       0
#define CASE_FAILED   1

/* A case returns CASE_OK or CASE_FAILED, having said on stdout what it saw. */
typedef struct Case {
        const char *name;
        int (*run)(void);
} Case;

static int expect(const char *what, int got, int want) {
        if (got == want)
                return CASE_OK;
        printf("# %s: %d (%s), expected %d (%s)\n", what, got, got < 0 ? strerror(-got) : "", want,
                        want < 0 ? strerror(-want) : "");
        return CASE_FAILED;
}

static int kfd_open(void) {
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        return fd < 0 ? negative_errno() : fd;
}

/* The result of an ioctl: its return value, or the negative errno. */
static int kfd_call(int fd, unsigned long request, void *arg) {
        int r = ioctl(fd, request, arg);
        return r < 0 ? negative_errno() : r;
}

static int with_kfd(int (*f)(int fd)) {
        _cleanup_close_ int fd = kfd_open();
        if (fd < 0)
                return expect("open", fd, 0);
        return f(fd);
}

/* Runs f in a child, and returns what it returned, or -ECHILD when it died. */
static int in_child(int (*f)(void *), void *userdata) {
        pid_t pid = fork();
        if (pid < 0)
                return negative_errno();
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                int r = f(userdata);
                fflush(stdout);
                _exit(r);
        }
        int status;
        if (waitpid(pid, &status, 0) < 0)
                return negative_errno();
        return WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

/* --- version and numbers --- */

static int version(int fd) {
        KfdVersion v = {0};
        int r = expect("GET_VERSION", kfd_call(fd, KFD_IOC_GET_VERSION, &v), 0);
        printf("# KFD API %u.%u\n", v.major, v.minor);
        return r ?: expect("major", (int) v.major, KFD_API_MAJOR) ?: expect("1.13 or newer", v.minor >= KFD_API_DBG_TRAP, 1);
}

static int case_version(void) {
        return with_kfd(version);
}

static int unknown_number(int fd) {
        uint64_t arg[16] = {0};
        return expect("unknown number", kfd_call(fd, _IOWR(KFD_IOCTL_BASE, NR_UNKNOWN, arg), arg), -ENOTTY);
}

static int case_unknown_number(void) {
        return with_kfd(unknown_number);
}

static int number_past_the_end(int fd) {
        uint64_t arg[4] = {0};
        return expect("first number past the end",
                        kfd_call(fd, _IOWR(KFD_IOCTL_BASE, _KFD_NR_END, arg), arg), -ENOTTY);
}

static int case_number_past_the_end(void) {
        return with_kfd(number_past_the_end);
}

static int deprecated(int fd) {
        uint32_t arg[2] = {0};
        return expect("deprecated number", kfd_call(fd, _IOW(KFD_IOCTL_BASE, NR_DEPRECATED, arg), arg),
                        -EPERM);
}

static int case_deprecated(void) {
        return with_kfd(deprecated);
}

/* KFD goes by the number alone: the size in the request may be that of an older structure. */
static int old_size(int fd) {
        struct {
                uint8_t args[KFD_CREATE_QUEUE_SIZE_1_11];
        } q = {0};
        return expect("CREATE_QUEUE of 1.11",
                        kfd_call(fd, _IOWR(KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, q), &q), -EINVAL);
}

static int case_old_size(void) {
        return with_kfd(old_size);
}

/* --- queues --- */

static int create_queue_unknown_gpu(int fd) {
        KfdCreateQueue q = {.gpu_id = NO_SUCH_GPU,
                        .ring_size = 4096,
                        .queue_type = KFD_QUEUE_COMPUTE_AQL,
                        .queue_percentage = 100};
        return expect("CREATE_QUEUE on no GPU", kfd_call(fd, KFD_IOC_CREATE_QUEUE, &q), -EINVAL);
}

static int case_create_queue_unknown_gpu(void) {
        return with_kfd(create_queue_unknown_gpu);
}

static int update_queue_with(int fd, const char *what, KfdUpdateQueue q, int want) {
        return expect(what, kfd_call(fd, KFD_IOC_UPDATE_QUEUE, &q), want);
}

/* The order of the checks is a rule, too: values are judged before the queue is looked up. */
static int update_queue_errors(int fd) {
        static uint8_t ring[4096];
        KfdUpdateQueue good = {
                        .ring_base_address = (uint64_t) (uintptr_t) ring,
                        .queue_id = NO_SUCH_QUEUE,
                        .ring_size = sizeof(ring),
                        .queue_percentage = 100,
                        .queue_priority = 7,
        };
        KfdUpdateQueue q;
        int r = update_queue_with(fd, "unknown queue", good, -EFAULT);

        q = good, q.queue_percentage = 0;
        r = r ?: update_queue_with(fd, "unknown queue, percentage 0", q, -EFAULT);
        q = good, q.queue_percentage = KFD_PERCENTAGE_MAX + 1;
        r = r ?: update_queue_with(fd, "percentage above 100", q, -EINVAL);
        q = good, q.queue_priority = KFD_PRIORITY_MAX + 1;
        r = r ?: update_queue_with(fd, "priority above 15", q, -EINVAL);
        q = good, q.ring_size = 3000;
        return r ?: update_queue_with(fd, "ring size no power of two", q, -EINVAL);
}

static int case_update_queue_errors(void) {
        return with_kfd(update_queue_errors);
}

static int destroy_unknown_queue(int fd) {
        KfdDestroyQueue q = {.queue_id = NO_SUCH_QUEUE};
        return expect("DESTROY_QUEUE of no queue", kfd_call(fd, KFD_IOC_DESTROY_QUEUE, &q), -EINVAL);
}

static int case_destroy_unknown_queue(void) {
        return with_kfd(destroy_unknown_queue);
}

/* --- whose fd it is --- */

static int call_version(void *userdata) {
        KfdVersion v = {0};
        return -kfd_call(*(int *) userdata, KFD_IOC_GET_VERSION, &v);
}

static int inherited_fd(int fd) {
        return expect("fd inherited over fork", -in_child(call_version, &fd), -EBADF);
}

static int case_inherited_fd(void) {
        return with_kfd(inherited_fd);
}

static int open_and_call_version(void *userdata) {
        int fd = kfd_open();
        return fd < 0 ? -fd : call_version(&fd);
}

static int own_fd_after_fork(int fd) {
        return expect("a child's own fd", -in_child(open_and_call_version, NULL), 0);
}

static int case_own_fd_after_fork(void) {
        return with_kfd(own_fd_after_fork);
}

static int second_open(int fd) {
        int other = kfd_open(), r;
        if (other < 0)
                return expect("second open", other, 0);
        r = expect("call on the second fd", -call_version(&other), 0);
        safe_close(other);
        return r ?: expect("the first after the second was closed", -call_version(&fd), 0);
}

static int case_second_open(void) {
        return with_kfd(second_open);
}

static int duplicate(int fd) {
        int other = dup(fd);
        int r = expect("call on a dup", -call_version(&other), 0);
        safe_close(other);
        return r;
}

static int case_duplicate(void) {
        return with_kfd(duplicate);
}

static int fd_of_another(int fd) {
        KfdVersion v = {0};
        int pidfd = (int) syscall(SYS_pidfd_open, getppid(), 0);
        int got = (int) syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        safe_close(pidfd);
        return got < 0 ? -got : -kfd_call(got, KFD_IOC_GET_VERSION, &v);
}

static int steal_fd(void *userdata) {
        return fd_of_another(*(int *) userdata);
}

static int fd_by_pidfd(int fd) {
        return expect("another's fd by pidfd_getfd, as root", -in_child(steal_fd, &fd), -EBADF);
}

static int case_fd_by_pidfd(void) {
        return with_kfd(fd_by_pidfd);
}

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

static bool has_gpu(int fd) {
        KfdGetApertures a = {0};
        return kfd_call(fd, _IOWR(KFD_IOCTL_BASE, KFD_NR_GET_PROCESS_APERTURES_NEW, a), &a) == 0 &&
                        a.num_of_nodes > 0;
}

static int criu_pause(int fd) {
        if (!has_gpu(fd))
                return expect("PROCESS_INFO without a GPU", criu(fd, KFD_CRIU_PROCESS_INFO, getpid()),
                                -ENODEV);
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
        KfdDbgTrap t = {.suspend_queues = {
                                        .queue_array_ptr = (uint64_t) (uintptr_t) queues, .num_queues = n}};
        return dbg(fd, &t, pid, KFD_DBG_TRAP_SUSPEND_QUEUES);
}

static int dbg_resume(int fd, pid_t pid, uint32_t *queues, uint32_t n) {
        KfdDbgTrap t = {.resume_queues = {
                                        .queue_array_ptr = (uint64_t) (uintptr_t) queues, .num_queues = n}};
        return dbg(fd, &t, pid, KFD_DBG_TRAP_RESUME_QUEUES);
}

static int runtime_enable(int fd, uint32_t mode) {
        KfdRuntimeEnable e = {.mode_mask = mode};
        return kfd_call(fd, KFD_IOC_RUNTIME_ENABLE, &e);
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
                        expect("first id comes back INVALID", queues[0] == (NO_SUCH_QUEUE | KFD_DBG_QUEUE_INVALID), 1) ?:
                        expect("second id comes back INVALID", queues[1] == ((NO_SUCH_QUEUE + 1) | KFD_DBG_QUEUE_INVALID), 1) ?:
                        expect("RESUME of all", dbg_resume(fd, getpid(), NULL, 0), 0);
        safe_close(p[0]);
        safe_close(p[1]);
        return r;
}

static int case_dbg_self_runtime(void) {
        return with_kfd(dbg_self_runtime);
}

/* A process that has /dev/kfd open (or not) and waits to be debugged. */
typedef struct Target {
        pid_t pid;
        int hold; /* closing it ends the target */
} Target;

static int target_start(bool with_device, Target *ret) {
        int up[2], hold[2];
        if (pipe2(up, O_CLOEXEC) < 0 || pipe2(hold, O_CLOEXEC) < 0)
                return negative_errno();

        pid_t pid = fork();
        if (pid < 0)
                return negative_errno();
        if (pid == 0) {
                char c = 'r';
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                safe_close(hold[1]);
                int fd = with_device ? kfd_open() : -1;
                if ((with_device && fd < 0) || write(up[1], &c, 1) != 1)
                        _exit(1);
                _exit(read(hold[0], &c, 1) != 0);
        }
        safe_close(up[1]);
        safe_close(hold[0]);
        char c;
        if (read(up[0], &c, 1) != 1)
                return -EIO;
        safe_close(up[0]);
        *ret = (Target){.pid = pid, .hold = hold[1]};
        return 0;
}

static void target_stop(Target *t) {
        safe_close(t->hold);
        (void) waitpid(t->pid, NULL, 0);
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

static const Case cases[] = {
                {"version", case_version},
                {"unknown-number", case_unknown_number},
                {"number-past-the-end", case_number_past_the_end},
                {"deprecated-number", case_deprecated},
                {"create-queue-of-an-older-size", case_old_size},
                {"create-queue-unknown-gpu", case_create_queue_unknown_gpu},
                {"update-queue-errors", case_update_queue_errors},
                {"destroy-unknown-queue", case_destroy_unknown_queue},
                {"fd-inherited-over-fork", case_inherited_fd},
                {"own-fd-after-fork", case_own_fd_after_fork},
                {"second-open", case_second_open},
                {"duplicate-fd", case_duplicate},
                {"fd-by-pidfd", case_fd_by_pidfd},
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
};

static int run_case(void *userdata) {
        return ((const Case *) userdata)->run();
}

int main(int argc, char *argv[]) {
        unsigned failed = 0;

        if (argc > 1 && streq(argv[1], "--list")) {
                for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                        puts(cases[i].name);
                return EXIT_SUCCESS;
        }

        if (geteuid() != 0) {
                puts("1..0 # SKIP needs root, for the rows that drop privileges");
                return EXIT_SUCCESS;
        }
        printf("1..%zu\n", ELEMENTSOF(cases));
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                fflush(stdout);
                int r = in_child(run_case, (void *) &cases[i]);
                failed += r != CASE_OK;
                printf("%sok %zu - %s\n", r == CASE_OK ? "" : "not ", i + 1, cases[i].name);
        }
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
