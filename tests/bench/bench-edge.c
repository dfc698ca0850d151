/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How many instructions the service runs for an edge
 *
 * The service's objects and its loop, without a bus, and a clock of their own: so the figures are nearly the same on
 * each run and on each machine, whatever else runs there. valgrind counts them. Instructions of the kernel are not
 * counted, the calls of it are listed by strace.
 *
 * The loads are those of bench-load.c: of `pair`, one client is always ready, and a driver of higher priority becomes
 * ready and idle; of `spread`, all become ready and idle in turn and have equal priority. Edges come every 100 us.
 */

#include <inttypes.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "callgrind.h"
#include "service/base/log.h"
#include "service/settings/xsched-conf.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define EDGE_NS   (100 * NSEC_PER_USEC)
#define N_EDGES   4000U
#define N_CLIENTS 1000U

typedef struct Load {
        const char *name, *policy;
        unsigned n_clients;
        bool spread;
} Load;

static const Load loads[] = {
                {.name = "pair", .policy = "tree", .n_clients = 2},
                {.name = "pair-1000", .policy = "tree", .n_clients = N_CLIENTS},
                {.name = "pair-1000-hpf", .policy = "hpf", .n_clients = N_CLIENTS},
                {.name = "pair-1000-cfs", .policy = "cfs", .n_clients = N_CLIENTS},
                {.name = "spread-1000", .policy = "tree", .n_clients = N_CLIENTS, .spread = true},
                {.name = "spread-1000-hpf", .policy = "hpf", .n_clients = N_CLIENTS, .spread = true},
                {.name = "spread-1000-cfs", .policy = "cfs", .n_clients = N_CLIENTS, .spread = true},
};

/* Has the loop hear of the edge, as the service does: by the eventfd. */
static void tell(const Process *p, const Queue *q) {
        Manager *m = p->client->manager;
        uint64_t edges = m->n_edges;

        page_mark_dirty(p->client->page.header, q->slot);
        assert_int_equal(eventfd_write(p->fds.wake, 1), 0);
        while (m->n_edges == edges)
                assert_true(manager_turn(m, NSEC_PER_MSEC) >= 0);
}

static void edge_ready(const Process *p, const Queue *q) {
        atomic_store(&q->page_slot->ready_since_ns, now_ns());
        if (page_slot_begin(q->page_slot) & PAGE_BEGIN_EDGE)
                tell(p, q);
}

static void edge_idle(const Process *p, const Queue *q) {
        atomic_store(&q->page_slot->drained_ns, now_ns());
        if (page_slot_end(q->page_slot, 1))
                tell(p, q);
}

/* What is counted. Returns the number of edges that the service has heard. */
__attribute__((noinline)) static uint64_t bench_edges(const Load *load, const Process *processes, Queue **queues) {
        const Manager *m = processes[0].client->manager;
        uint64_t before = m->n_edges;

        for (unsigned i = 0; i < N_EDGES / 2; i++) {
                unsigned k = load->spread ? i % load->n_clients : 0;

                own_clock_pass(EDGE_NS);
                edge_ready(&processes[k], queues[k]);
                own_clock_pass(EDGE_NS);
                edge_idle(&processes[k], queues[k]);
        }
        return m->n_edges - before;
}

static int run(const Load *load) {
        static Process processes[N_CLIENTS];
        static Queue *queues[N_CLIENTS];
        struct timespec up;

        /* sd-event has the kernel's clock: no timer of it is ever due. */
        assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &up), 0);
        own_clock_pass(timespec_to_ns(&up));
        Manager *m = manager_make();
        m->config->device.policy = policy_find(load->policy);

        log_set_max_level(LOG_ERR);
        for (unsigned i = 0; i < load->n_clients; i++) {
                char cgroup[32];

                (void) snprintf(cgroup, sizeof(cgroup), "/test-%u.service", i);
                processes[i] = join(m, cgroup, !load->spread && i == 0 ? 10 : 0);
                queues[i] = queue(&processes[i], "d", 0);
        }
        if (!load->spread)
                begin(queues[1]);
        while (manager_turn(m, 0) > 0)
                ;
        uint64_t n = bench_edges(load, processes, queues);
        for (unsigned i = 0; i < load->n_clients; i++)
                leave(&processes[i]);
        manager_free(m);
        return n == N_EDGES ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Counts the instructions of bench_edges() in a run of this program; 0: unknown. */
static uint64_t count(const Load *load) {
        char command[256];

        (void) snprintf(command, sizeof(command),
                        "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='bench_edges*' "
                        "/proc/%d/exe %s 2>&1",
                        (int) getpid(), load->name);
        return callgrind_count(command, false);
}

int main(int argc, char *argv[]) {
        for (size_t i = 0; i < ELEMENTSOF(loads); i++) {
                const Load *load = loads + i;

                if (argc == 2 && streq(argv[1], load->name))
                        return run(load);
                if (argc != 1)
                        continue;
                uint64_t n = count(load);
                if (n == 0) {
                        puts("instructions: not counted, there is no valgrind");
                        return EXIT_SUCCESS;
                }
                printf("%-16s %8.0f instructions an edge\n", load->name, (double) n / N_EDGES);
        }
        return argc == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
