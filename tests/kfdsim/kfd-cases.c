/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kfd-cases: one table of KFD's answers
 *
 * Every rule that hal/kfd, the shim and the simulator rely on and that shows without a GPU is a row here: which errno,
 * which permission, which number comes back. The program runs against whatever answers to /dev/kfd: a real amdgpu
 * driver in the virtual machine (tests/vm), and the simulator under the same name. Both must give the same answers, so
 * that the simulator cannot drift from the kernel.
 *
 * Output is TAP. "kfd-cases --list" names the cases. Needs root, for the rows that drop privileges. The cases run one
 * after the other, each in a child process of its own: KFD keeps state per process, and no case may begin with the
 * state that another one has left.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/kfdsim/kfd-cases.h"

static const Case *const tables[] = {basic_cases, queue_cases, memory_cases, event_cases, privileged_cases, hold_cases};

int expect(const char *what, int got, int want) {
        if (got == want)
                return CASE_OK;
        printf("# %s: %d (%s), expected %d (%s)\n", what, got, got < 0 ? strerror(-got) : "", want,
                        want < 0 ? strerror(-want) : "");
        return CASE_FAILED;
}

int kfd_open(void) {
        int fd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        return fd < 0 ? negative_errno() : fd;
}

int kfd_call(int fd, unsigned long request, void *arg) {
        int r = ioctl(fd, request, arg);
        return r < 0 ? negative_errno() : r;
}

int with_kfd(int (*f)(int fd)) {
        _cleanup_close_ int fd = kfd_open();
        if (fd < 0)
                return expect("open", fd, 0);
        return f(fd);
}

int in_child(int (*f)(void *), void *userdata) {
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

bool has_gpu(int fd) {
        KfdGetApertures a = {0};
        return kfd_call(fd, _IOWR(KFD_IOCTL_BASE, KFD_NR_GET_PROCESS_APERTURES_NEW, a), &a) == 0 && a.num_of_nodes > 0;
}

int runtime_enable(int fd, uint32_t mode) {
        KfdRuntimeEnable e = {.mode_mask = mode};
        return kfd_call(fd, KFD_IOC_RUNTIME_ENABLE, &e);
}

int target_start(bool with_device, Target *ret) {
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

void target_stop(Target *t) {
        safe_close(t->hold);
        (void) waitpid(t->pid, NULL, 0);
}

static int run_case(void *userdata) {
        return ((const Case *) userdata)->run();
}

static size_t count_cases(void) {
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(tables); i++)
                for (const Case *c = tables[i]; c->name; c++)
                        n++;
        return n;
}

/* Returns how many failed. */
static unsigned run_table(const Case *table, unsigned *number) {
        unsigned failed = 0;

        for (const Case *c = table; c->name; c++) {
                fflush(stdout);
                int r = in_child(run_case, (void *) c);
                failed += r != CASE_OK;
                printf("%sok %u - %s\n", r == CASE_OK ? "" : "not ", ++*number, c->name);
        }
        return failed;
}

int main(int argc, char *argv[]) {
        unsigned failed = 0, number = 0;

        if (argc > 1 && streq(argv[1], "--list")) {
                for (size_t i = 0; i < ELEMENTSOF(tables); i++)
                        for (const Case *c = tables[i]; c->name; c++)
                                puts(c->name);
                return EXIT_SUCCESS;
        }

        if (geteuid() != 0) {
                puts("1..0 # SKIP needs root, for the rows that drop privileges");
                return EXIT_SUCCESS;
        }
        printf("1..%zu\n", count_cases());
        for (size_t i = 0; i < ELEMENTSOF(tables); i++)
                failed += run_table(tables[i], &number);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
