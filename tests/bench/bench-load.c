/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What 10,000 edges a second cost the service, with few and with many clients registered
 *
 * The service hears no edges of a client that is alone on its device, so the load needs a contended device: one job is
 * always ready, and a driver of higher priority becomes ready and idle 5,000 times a second. The other clients are
 * registered on the same device and idle. With --spread there is no such pair: 4,500 cycles a second come from all
 * clients in turn, which have equal priority.
 *
 * The yardstick, in the same run: a process that is woken by an eventfd as often, and does nothing.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "bench.h"

#define N_CYCLES_PER_S 5000U

/* With --spread each edge wakes the service, and a user's budget is for less than 10,000 such wake-ups (wakes.c):
 * Beyond it the service looks at the user's clients by a timer, which is another load. */
#define N_SPREAD_PER_S 4500U

#define PRIORITY  10
#define SETTLE_NS NSEC_PER_SEC

typedef struct Shared {
        _Atomic uint32_t stop;
        _Atomic uint64_t n_cycles;
        uint32_t n_drivers, n_per_s; /* cycles of all of them */
} Shared;

static void drive(const ClientPlan *p, Shared *s, XschedQueue *q) {
        uint64_t period = NSEC_PER_SEC * s->n_drivers / s->n_per_s;
        uint64_t next = now_ns() + period * (p->index + 1) / s->n_drivers;

        while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
                sleep_until_ns(next);
                if (xsched_queue_begin(q) == XSCHED_TRACKED)
                        xsched_queue_complete(q, 1, 0);
                atomic_fetch_add_explicit(&s->n_cycles, 1, memory_order_relaxed);

                /* A driver that was late does not make up for it in a burst. */
                next = MAX(next + period, now_ns() - period);
        }
}

static int client_main(const ClientPlan *p) {
        Shared *s = p->memory;
        XschedQueue *q = client_attach(p);

        if (streq(p->role, "driver"))
                drive(p, s, q);
        else if (streq(p->role, "ready"))
                client_stay_ready(q);
        client_wait_for_end(p);
        xsched_queue_unref(q);
        return 0;
}

typedef struct Load {
        uint64_t at_ns, cpu_ns, edges, verdicts, wakeups, cycles;
} Load;

static Load load_read(const Service *service, const Shared *s) {
        return (Load){
                        .edges = service_get(service, "NEdges"),
                        .verdicts = service_get(service, "NVerdicts"),
                        .wakeups = service_get(service, "NWakeups"),
                        .cycles = atomic_load(&s->n_cycles),
                        .cpu_ns = process_cpu_ns(service->pid),
                        .at_ns = now_ns(),
        };
}

_noreturn_ static void yardstick_wait(int fd) {
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event e = {.events = EPOLLIN | EPOLLET};

        (void) bench_check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e), "epoll_ctl");
        for (;;)
                (void) epoll_wait(epoll, &e, 1, -1);
}

/* Percent of a core that goes to as many wake-ups without any work. */
static double yardstick(unsigned seconds) {
        int fd = bench_check(eventfd(0, EFD_CLOEXEC), "eventfd");
        pid_t pid = bench_check(fork(), "fork");
        uint64_t period = NSEC_PER_SEC / N_CYCLES_PER_S, begin, cpu;

        if (pid == 0)
                yardstick_wait(fd);
        begin = now_ns();
        cpu = process_cpu_ns(pid);
        for (uint64_t next = begin + period; next < begin + seconds * NSEC_PER_SEC;
                        next = MAX(next + period, now_ns() - period)) {
                sleep_until_ns(next);
                (void) bench_check(eventfd_write(fd, 1), "eventfd");
                (void) bench_check(eventfd_write(fd, 1), "eventfd");
        }
        double percent = 100 * (double) (process_cpu_ns(pid) - cpu) / (double) (now_ns() - begin);

        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
        (void) close(fd);
        return percent;
}

static void print(unsigned n_clients, bool spread, const Load *a, const Load *b, uint64_t pss_kb, double bare,
                bool json) {
        double seconds = (double) (b->at_ns - a->at_ns) / 1e9, cpu = (double) (b->cpu_ns - a->cpu_ns) / 1e9;
        double edges = (double) (b->edges - a->edges);

        if (json)
                printf("{\"clients\": %u, \"spread\": %s, \"cpu_percent\": %.2f, \"cycles_per_s\": %.1f, "
                       "\"edges_per_s\": %.1f, \"verdicts_per_s\": %.1f, \"wakeups_per_s\": %.1f, "
                       "\"us_per_edge\": %.3f, \"pss_kb\": %" PRIu64 ", \"yardstick_percent\": %.2f}\n",
                                n_clients, spread ? "true" : "false", 100 * cpu / seconds,
                                (double) (b->cycles - a->cycles) / seconds, edges / seconds,
                                (double) (b->verdicts - a->verdicts) / seconds,
                                (double) (b->wakeups - a->wakeups) / seconds, cpu * 1e6 / edges, pss_kb, bare);
        else
                printf("%u clients%s: %.1f %% of a core at %.0f edges/s (%.2f us an edge), %.0f verdicts/s, %.0f "
                       "wake-ups/s, %" PRIu64 " KiB; %.1f %% of a core for bare wake-ups\n",
                                n_clients, spread ? ", all active" : "", 100 * cpu / seconds, edges / seconds,
                                cpu * 1e6 / edges, (double) (b->verdicts - a->verdicts) / seconds,
                                (double) (b->wakeups - a->wakeups) / seconds, pss_kb, bare);
}

int main(int argc, char *argv[]) {
        Clients clients;
        ClientPlan plan;

        if (client_plan(argc, argv, sizeof(Shared), &plan))
                return client_main(&plan);

        unsigned n = MAX(bench_number(argc, argv, "--clients", 2), 2U);
        unsigned seconds = MAX(bench_number(argc, argv, "--seconds", 5), 1U);
        bool spread = bench_flag(argc, argv, "--spread");

        Service service = service_open();
        clients_init(&clients, &service, sizeof(Shared));
        Shared *s = clients.memory;
        s->n_drivers = spread ? n : 1;
        s->n_per_s = spread ? N_SPREAD_PER_S : N_CYCLES_PER_S;
        for (unsigned i = 0; i < n; i++)
                clients_add(&clients,
                                spread || i == 0         ? "driver"
                                                : i == 1 ? "ready"
                                                         : "idle",
                                !spread && i == 0 ? PRIORITY : 0);
        clients_wait(&clients);

        sleep_until_ns(now_ns() + SETTLE_NS);
        Load before = load_read(&service, s);
        sleep_until_ns(before.at_ns + seconds * NSEC_PER_SEC);
        Load after = load_read(&service, s);
        uint64_t pss_kb = process_pss_kb(service.pid);

        atomic_store(&s->stop, 1);
        clients_done(&clients);
        service_close(&service);
        if (after.edges == before.edges)
                bench_die("the service heard of no edge: nothing was measured");
        print(n, spread, &before, &after, pss_kb, yardstick(seconds), bench_flag(argc, argv, "--json"));
        return 0;
}
