/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * From the ready edge of a high job to the closed gate of a low one, and back
 *
 * The low job launches without pause and notes the time of each launch that its gate lets through. The high job becomes
 * ready, stays so for a while and becomes idle, again and again. So the last launch of the low job tells when its gate
 * closed, and the first one after the high job's end when it opened. The service's own figure, from the edge to the
 * verdict being written, comes from its DecisionLatency property.
 *
 * The yardstick is what the kernel charges for the same number of hand-overs, without any scheduler in between: one
 * process writes an eventfd, another that waits for it in epoll stores a word and wakes its futex, and the first one,
 * which waited for that, runs again. It is measured in the same run, beside a process that spins as the low job does.
 */

#include <inttypes.h>
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

#define N_MAX     20000U
#define BUSY_NS   (1500 * NSEC_PER_USEC)
#define PAUSE_NS  (2 * NSEC_PER_MSEC)
#define HELD_NS   (50 * NSEC_PER_USEC) /* no launch for so long: the gate is closed */
#define PINGS_NS  NSEC_PER_MSEC
#define PRIORITY  10
#define N_WARM_UP 20U

typedef struct Shared {
        _Atomic uint64_t low_pass_ns;    /* the low job's last launch */
        _Atomic uint64_t low_resumed_ns; /* its first launch after high_idle_ns; 0: none yet */
        _Atomic uint64_t high_idle_ns;
        _Atomic uint32_t go, stop;
        _Atomic uint32_t futex;
        uint32_t n_wanted, n, n_closed;
        uint32_t n_unheld;    /* rounds in which the low job was not stopped */
        uint32_t n_unresumed; /* rounds in which it did not come back in time */
        uint64_t closed_ns[N_MAX], opened_ns[N_MAX], begin_ns[N_MAX];
} Shared;

static long futex(_Atomic uint32_t *word, int op, uint32_t value) {
        return syscall(SYS_futex, (uint32_t *) word, op, value, NULL, NULL, 0);
}

/* --- the clients --- */

static void low_main(Shared *s, XschedQueue *q) {
        uint64_t before = 0;

        client_stay_ready(q);
        while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
                int tracked = xsched_queue_begin(q);
                uint64_t now = now_ns(), idle = atomic_load_explicit(&s->high_idle_ns, memory_order_relaxed);

                if (before < idle && now >= idle)
                        atomic_store(&s->low_resumed_ns, now);
                atomic_store_explicit(&s->low_pass_ns, now, memory_order_relaxed);
                before = now;
                if (tracked == XSCHED_TRACKED)
                        xsched_queue_complete(q, 1, 0);
        }
}

static void high_round(Shared *s, XschedQueue *q, bool counts) {
        atomic_store(&s->low_resumed_ns, 0);
        uint64_t edge = now_ns(), before = atomic_load(&s->low_pass_ns);
        int tracked = xsched_queue_begin(q);
        uint64_t begun = now_ns();

        sleep_until_ns(edge + BUSY_NS);
        uint64_t last = atomic_load(&s->low_pass_ns), idle = now_ns();

        atomic_store(&s->high_idle_ns, idle);
        if (tracked == XSCHED_TRACKED)
                xsched_queue_complete(q, 1, 0);
        sleep_until_ns(idle + PAUSE_NS);
        uint64_t resumed = atomic_load(&s->low_resumed_ns);

        if (!counts)
                return;

        /* A low job that has no CPU at the time of the edge would look as if its gate had closed at once. */
        bool launching = before + HELD_NS > edge, unheld = idle - last < HELD_NS;

        /* On a machine with other work, the service or the low job may get no CPU for longer than a round: Such a round
         * is part of the figures, and counts with its length. */
        s->n_unheld += unheld;
        s->n_unresumed += resumed == 0;
        if (unheld || launching)
                s->closed_ns[s->n_closed++] = ns_sub(last, edge);
        s->opened_ns[s->n] = resumed == 0 ? PAUSE_NS : ns_sub(resumed, idle);
        s->begin_ns[s->n] = begun - edge;
        s->n++;
}

static void high_main(Shared *s, XschedQueue *q) {
        while (!atomic_load(&s->go))
                (void) futex(&s->go, FUTEX_WAIT, 0);
        for (unsigned i = 0; i < s->n_wanted + N_WARM_UP; i++)
                high_round(s, q, i >= N_WARM_UP);
        atomic_store(&s->stop, 1);
        (void) futex(&s->stop, FUTEX_WAKE, 1);
}

static int client_main(const ClientPlan *p) {
        XschedQueue *q = client_attach(p);

        if (streq(p->role, "low"))
                low_main(p->memory, q);
        else
                high_main(p->memory, q);
        client_wait_for_end(p);
        xsched_queue_unref(q);
        return 0;
}

/* --- the yardstick --- */

_noreturn_ static void echo_main(Shared *s, int event_fd) {
        int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event e = {.events = EPOLLIN};
        uint64_t n;

        if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &e) < 0)
                bench_die("epoll: %s", strerror(errno));
        for (;;)
                if (epoll_wait(epoll_fd, &e, 1, -1) == 1 && read(event_fd, &n, sizeof(n)) == sizeof(n)) {
                        atomic_fetch_add(&s->futex, 1);
                        (void) futex(&s->futex, FUTEX_WAKE, 1);
                }
}

_noreturn_ static void spin_main(Shared *s) {
        for (;;)
                atomic_store_explicit(&s->low_pass_ns, now_ns(), memory_order_relaxed);
}

static pid_t fork_helper(Shared *s, int event_fd) {
        pid_t parent = getpid(), pid = fork();

        if (pid < 0)
                bench_die("fork: %s", strerror(errno));
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        if (event_fd >= 0)
                echo_main(s, event_fd);
        spin_main(s);
}

static void yardstick(Shared *s, unsigned n, Samples *ret) {
        int event_fd = eventfd(0, EFD_CLOEXEC);
        uint64_t one = 1;

        if (event_fd < 0)
                bench_die("eventfd: %s", strerror(errno));
        const pid_t helpers[] = {fork_helper(s, event_fd), fork_helper(s, -1)};

        (void) prctl(PR_SET_TIMERSLACK, 1UL);
        for (unsigned i = 0; i < n + N_WARM_UP; i++) {
                uint32_t word = atomic_load(&s->futex);
                uint64_t start = now_ns();

                if (write(event_fd, &one, sizeof(one)) != sizeof(one))
                        bench_die("eventfd: %s", strerror(errno));
                while (atomic_load(&s->futex) == word)
                        (void) futex(&s->futex, FUTEX_WAIT, word);
                uint64_t end = now_ns();

                if (i >= N_WARM_UP)
                        bench_check(samples_add(ret, start, end - start), "memory");
                sleep_until_ns(end + PINGS_NS);
        }
        for (size_t i = 0; i < ELEMENTSOF(helpers); i++) {
                (void) kill(helpers[i], SIGKILL);
                (void) waitpid(helpers[i], NULL, 0);
        }
        safe_close(event_fd);
}

/* --- the parent --- */

static Summary summarize(const uint64_t *ns, unsigned n) {
        Samples s = {};

        for (unsigned i = 0; i < n; i++)
                bench_check(samples_add(&s, i, ns[i]), "memory");
        Summary sum = samples_summary(&s);
        samples_done(&s);
        return sum;
}

static void print_row(const char *what, const Summary *s, const Summary *yard) {
        printf("%-44s %9.1f %9.1f %9.1f %8.2fx %8.2fx\n", what, usec(s->p50_ns), usec(s->p99_ns), usec(s->max_ns),
                        (double) s->p50_ns / (double) yard->p50_ns, (double) s->p99_ns / (double) yard->p99_ns);
}

static void print_table(const Shared *s, const Summary *yard, const Summary *closed, const Summary *opened,
                const Summary *begin, const DecisionLatency *d) {
        const Summary decision = {
                        .p50_ns = d->p50_us * NSEC_PER_USEC,
                        .p99_ns = d->p99_us * NSEC_PER_USEC,
                        .max_ns = d->max_us * NSEC_PER_USEC,
        };

        printf("%u rounds; microseconds, and how many yardsticks that is\n", s->n);
        printf("%-44s %9s %9s %9s %9s %9s\n", "", "p50", "p99", "max", "p50", "p99");
        print_row("yardstick: eventfd, epoll, futex and back", yard, yard);
        print_row("the high job's launch with its edge", begin, yard);
        print_row("edge to verdicts written (DecisionLatency)", &decision, yard);
        print_row("edge to the low job's gate closed", closed, yard);
        print_row("end of the high job to the low job running", opened, yard);
        if (s->n_unheld + s->n_unresumed > 0)
                printf("The machine was late: in %u rounds the gate had not closed after %.1f ms, in %u the "
                       "low job was "
                       "not back after %.1f ms.\n",
                                s->n_unheld, (double) BUSY_NS / 1e6, s->n_unresumed, (double) PAUSE_NS / 1e6);
}

static void print_json_row(const char *name, const Summary *s, const char *end) {
        printf("\"%s\": {\"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f}%s", name, usec(s->p50_ns),
                        usec(s->p99_ns), usec(s->max_ns), end);
}

static void print_json(const Shared *s, const Summary *yard, const Summary *closed, const Summary *opened,
                const Summary *begin, const DecisionLatency *d) {
        printf("{\"rounds\": %u, \"unheld\": %u, \"unresumed\": %u, ", s->n, s->n_unheld, s->n_unresumed);
        print_json_row("yardstick", yard, ", ");
        print_json_row("begin", begin, ", ");
        print_json_row("closed", closed, ", ");
        print_json_row("opened", opened, ", ");
        printf("\"decision\": {\"p50_us\": %" PRIu64 ", \"p99_us\": %" PRIu64 ", \"max_us\": %" PRIu64 "}}\n",
                        d->p50_us, d->p99_us, d->max_us);
}

int main(int argc, char *argv[]) {
        Samples pings = {};
        Clients clients;
        ClientPlan plan;

        if (client_plan(argc, argv, sizeof(Shared), &plan))
                return client_main(&plan);

        Service service = service_open();
        clients_init(&clients, &service, sizeof(Shared));
        Shared *s = clients.memory;
        s->n_wanted = CLAMP(bench_number(argc, argv, "--rounds", 2000), 1U, N_MAX);

        yardstick(s, s->n_wanted, &pings);
        Summary yard = samples_summary(&pings);
        samples_done(&pings);

        clients_add(&clients, "low", 0);
        clients_add(&clients, "high", PRIORITY);
        clients_wait(&clients);
        atomic_store(&s->go, 1);
        (void) futex(&s->go, FUTEX_WAKE, 1);
        while (!atomic_load(&s->stop))
                (void) futex(&s->stop, FUTEX_WAIT, 0);

        DecisionLatency d = service_decision_latency(&service);
        uint64_t n_edges = service_get(&service, "NEdges");
        clients_done(&clients);
        service_close(&service);
        if (s->n_unheld == s->n || s->n_closed == 0 || n_edges == 0)
                bench_die("the low job was never held: nothing was measured (%" PRIu64 " edges)", n_edges);

        Summary closed = summarize(s->closed_ns, s->n_closed), opened = summarize(s->opened_ns, s->n),
                begin = summarize(s->begin_ns, s->n);
        if (bench_flag(argc, argv, "--json"))
                print_json(s, &yard, &closed, &opened, &begin, &d);
        else
                print_table(s, &yard, &closed, &opened, &begin, &d);
        return 0;
}
