/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The cost of a wake-up in the kernel, one way: from a write of an eventfd in one process until another one returns
 * from epoll_wait(); and the same for a futex
 *
 * Other figures that include a wake-up are to be compared with this one: on most machines most of it is the time in
 * which a CPU leaves its sleep state. With --cpu-latency=USEC the kernel is asked to keep CPUs awake, as CPULatency=
 * does. --pause-us=N is the pause between two wake-ups: the longer it is, the deeper a CPU sleeps.
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bench.h"

#define N_MAX     100000U
#define N_WARM_UP 20U

typedef struct Shared {
        _Atomic uint64_t sent_ns;
        _Atomic uint32_t word; /* futex: how many were sent */
        _Atomic uint32_t n;    /* were received */
        uint64_t took_ns[N_MAX + N_WARM_UP];
} Shared;

static void receive(Shared *s) {
        uint64_t now = now_ns();
        uint32_t n = atomic_load(&s->n);

        s->took_ns[n] = ns_sub(now, atomic_load(&s->sent_ns));
        atomic_store(&s->n, n + 1);
}

_noreturn_ static void eventfd_main(Shared *s, int fd) {
        int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event e = {.events = EPOLLIN};
        uint64_t n;

        if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
                bench_die("epoll: %s", strerror(errno));
        for (;;)
                if (epoll_wait(epoll_fd, &e, 1, -1) == 1) {
                        receive(s);
                        (void) !read(fd, &n, sizeof(n));
                }
}

_noreturn_ static void futex_main(Shared *s) {
        for (uint32_t seen = 0;; seen++) {
                while (atomic_load(&s->word) == seen)
                        (void) syscall(SYS_futex, &s->word, FUTEX_WAIT, seen, NULL, NULL, 0);
                receive(s);
        }
}

static pid_t fork_receiver(Shared *s, int fd) {
        pid_t parent = getpid(), pid = fork();

        if (pid < 0)
                bench_die("fork: %s", strerror(errno));
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        if (fd >= 0)
                eventfd_main(s, fd);
        futex_main(s);
}

static void send_one(Shared *s, int fd) {
        uint64_t one = 1;

        atomic_store(&s->sent_ns, now_ns());
        if (fd >= 0) {
                if (write(fd, &one, sizeof(one)) != sizeof(one))
                        bench_die("eventfd: %s", strerror(errno));
                return;
        }
        atomic_fetch_add(&s->word, 1);
        (void) syscall(SYS_futex, &s->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static Summary measure(Shared *s, int fd, uint32_t n, uint64_t pause_ns) {
        Samples samples = {};

        memset(s, 0, sizeof(*s));
        pid_t pid = fork_receiver(s, fd);
        for (uint32_t i = 0; i < n + N_WARM_UP; i++) {
                send_one(s, fd);
                do {
                        sleep_until_ns(now_ns() + pause_ns);
                        if (waitpid(pid, NULL, WNOHANG) == pid)
                                bench_die("the receiver has ended");
                } while (atomic_load(&s->n) == i);
        }
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
        for (uint32_t i = N_WARM_UP; i < n + N_WARM_UP; i++)
                bench_check(samples_add(&samples, i, s->took_ns[i]), "memory");
        Summary sum = samples_summary(&samples);
        samples_done(&samples);
        return sum;
}

static void ask_for_latency(int32_t usec) {
        int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC); /* held until we end */

        if (fd < 0 || write(fd, &usec, sizeof(usec)) != sizeof(usec))
                bench_die("/dev/cpu_dma_latency: %s", strerror(errno));
}

static void print_one(const char *name, const Summary *s, bool json, const char *end) {
        printf(json ? "\"%s\": {\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, \"samples\": %zu}%s"
                    : "%-8s p50 %.1f us, p99 %.1f us, max %.1f us, %zu times%s",
                        name, usec(s->p50_ns), usec(s->p99_ns), usec(s->max_ns), s->n, end);
}

int main(int argc, char *argv[]) {
        unsigned n = CLAMP(bench_number(argc, argv, "--count", 500), 1U, N_MAX);
        unsigned latency = bench_number(argc, argv, "--cpu-latency", UINT_MAX);
        uint64_t pause = bench_number(argc, argv, "--pause-us", 5000) * NSEC_PER_USEC;
        bool json = bench_flag(argc, argv, "--json");
        int fd = eventfd(0, EFD_CLOEXEC);
        Shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (fd < 0 || s == MAP_FAILED)
                bench_die("%s", strerror(errno));
        if (latency <= INT32_MAX)
                ask_for_latency((int32_t) latency);
        Summary event = measure(s, fd, n, pause), futex = measure(s, -1, n, pause);
        printf("%s", json ? "{" : "");
        print_one("eventfd", &event, json, json ? ", " : "\n");
        print_one("futex", &futex, json, json ? "}\n" : "\n");
        return 0;
}
