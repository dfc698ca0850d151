/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program that takes from itself what it does not need, and goes on launching
 *
 * Answers each command on its standard input with a line; before the first it prints "ready".
 *
 *   work N                    launches N kernels, waits now and then, and prints the sum of what they have computed
 *   limit N                   lowers or raises its limit of descriptors
 *   filter LIST ACTION WHOSE  denies system calls (seccomp). LIST: "few", all but the few that it needs, or "most",
 * those that make threads and connections. ACTION: "errno", or "trap", which asks its handler of SIGSYS. WHOSE: "all"
 * threads', or "one", this thread's and those of threads that it makes trapped                   prints how often the
 * handler was asked
 */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "app.h"

#define CALLS_MAX 32U

static FakeStream s;
static uint64_t p;
static void *kernel;
static _Atomic unsigned n_trapped;

static void trapped(int sig, siginfo_t *info, void *interrupted) {
        ucontext_t *c = interrupted;

        n_trapped++;
        c->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

/* Of the calls in the list, or of all others. */
static void deny(const int *calls, unsigned n, bool others, unsigned action, unsigned flags) {
        struct sock_filter f[CALLS_MAX + 3] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        };
        struct sock_fprog program = {.len = (unsigned short) (n + 3), .filter = f};

        CHECK(n <= CALLS_MAX);
        for (unsigned i = 0; i < n; i++)
                f[i + 1] = (struct sock_filter) BPF_JUMP(
                                BPF_JMP | BPF_JEQ | BPF_K, (unsigned) calls[i], (unsigned char) (n - i), 0);
        f[n + 1] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, others ? action : SECCOMP_RET_ALLOW);
        f[n + 2] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, others ? SECCOMP_RET_ALLOW : action);
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0);
}

/* What the stand-in for libcuda does, beside reading, writing and ending. */
static void filter(bool few, bool traps, bool all) {
        static const int needed[] = {
                        SYS_brk,
                        SYS_clock_gettime,
                        SYS_clock_nanosleep,
                        SYS_exit,
                        SYS_exit_group,
                        SYS_futex,
                        SYS_madvise,
                        SYS_mmap,
                        SYS_mprotect,
                        SYS_munmap,
                        SYS_read,
                        SYS_rt_sigreturn,
                        SYS_write,
        };
        /* glibc makes threads with all signals blocked, so nobody could be asked about that. */
        const int most[] = {SYS_connect, SYS_sendmsg, SYS_socket, traps ? SYS_bind : SYS_clone,
                        traps ? SYS_bind : SYS_clone3};
        unsigned action = traps ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
        unsigned flags = all ? SECCOMP_FILTER_FLAG_TSYNC : 0;

        if (few)
                deny(needed, sizeof(needed) / sizeof(needed[0]), true, action, flags);
        else
                deny(most, sizeof(most) / sizeof(most[0]), false, action, flags);
}

static void work(int n) {
        int *a = (int *) (uintptr_t) p, have[N], k;
        unsigned width = N, sum = 0;
        uint64_t ns = 200000;
        void *params[] = {&a, &k, &width, &ns};

        for (k = 0; k < n; k++) {
                CHECK(cuLaunchKernel(kernel, 1, 1, 1, N, 1, 1, 0, s, params, NULL) == 0);
                if (k % 10 == 9)
                        CHECK(cuStreamSynchronize(s) == 0);
        }
        CHECK(cuMemcpyDtoHAsync_v2(have, p, sizeof(have), s) == 0);
        CHECK(cuStreamSynchronize(s) == 0);
        for (unsigned i = 0; i < N; i++)
                sum = sum * 31 + (unsigned) have[i];
        printf("%08x\n", sum);
}

static void limit(rlim_t n) {
        struct rlimit l;

        CHECK(getrlimit(RLIMIT_NOFILE, &l) == 0);
        l.rlim_cur = n;
        CHECK(setrlimit(RLIMIT_NOFILE, &l) == 0);
        puts("limited");
}

static void answer(const char *command) {
        char list[8], action[8], whose[8];
        int n;

        if (sscanf(command, "work %d", &n) == 1)
                work(n);
        else if (sscanf(command, "limit %d", &n) == 1)
                limit((rlim_t) n);
        else if (sscanf(command, "filter %7s %7s %7s", list, action, whose) == 3) {
                filter(strcmp(list, "few") == 0, strcmp(action, "trap") == 0, strcmp(whose, "all") == 0);
                puts("filtered");
        } else if (strcmp(command, "trapped\n") == 0)
                printf("%u\n", n_trapped);
        else
                CHECK(false);
}

int main(void) {
        struct sigaction sa = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
        struct Context *primary;
        struct Stream *made;
        char line[64];

        CHECK(sigaction(SIGSYS, &sa, NULL) == 0);
        CHECK(cuInit(0) == 0);
        CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == 0);
        CHECK(cuCtxSetCurrent(primary) == 0);
        CHECK(cuModuleGetFunction(&kernel, NULL, "triple") == 0);
        CHECK(cuStreamCreate(&made, 1) == 0);
        s = made;
        CHECK(cuMemAlloc_v2(&p, N * sizeof(int)) == 0);
        puts("ready");
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                answer(line);
                fflush(stdout);
        }
        return 0;
}
