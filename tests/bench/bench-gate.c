/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the gate adds to a launch: instructions (where valgrind is there to count them), and time beside an empty call
 *
 * The one figure that is asserted is the number of instructions of an open launch, because it is the same on every
 * machine. That an open launch makes no system call is a test of its own (test-gate).
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "callgrind.h"
#include "shim/core/gate.h"
#include "tests/lib/fake-service.h"
#include "xsched/xsched.h"

#define INSTRUCTIONS_MAX 50U
#define ROUNDS           5

typedef struct Bench {
        XschedQueue *queue;
        Gate *gate;
        FakeService *service;
} Bench;

/* Through pointers, as through the table of a shared library. */
static int (*volatile call_begin)(XschedQueue *q) = xsched_queue_begin;
static XschedQueue *(*volatile call_nothing)(XschedQueue *q) = xsched_queue_unref;

static void run_nothing(Bench *b, uint64_t n) {
        for (uint64_t i = 0; i < n; i++)
                (void) call_nothing(NULL);
}

static void run_open(Bench *b, uint64_t n) {
        for (uint64_t i = 0; i < n; i++)
                (void) call_begin(b->queue);
}

/* Another launch is in flight all the time, so there are no edges. */
static void run_tracked(Bench *b, uint64_t n) {
        for (uint64_t i = 0; i < n; i++) {
                (void) gate_begin(b->gate, GATE_WAIT);
                gate_complete(b->gate, 1, 1000);
        }
}

/* The queue runs dry after every launch: two watched edges, two writes to the eventfd. */
static void run_edges(Bench *b, uint64_t n) {
        gate_complete(b->gate, 1, 0);
        run_tracked(b, n);
        (void) gate_begin(b->gate, GATE_WAIT);
}

static double measure(void (*run)(Bench *b, uint64_t n), Bench *b, uint64_t n) {
        double best = 0;

        for (int i = 0; i < ROUNDS; i++) {
                uint64_t start = now_ns();
                run(b, n);
                double ns = (double) (now_ns() - start) / (double) n;
                best = i == 0 ? ns : MIN(best, ns);
        }
        return best;
}

static void *thread_main(void *p) {
        run_open(p, 1000000);
        return NULL;
}

/* Two threads on one queue: the counter's line goes back and forth. */
static void run_threads(Bench *b, uint64_t n) {
        pthread_t threads[2];

        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                if (pthread_create(&threads[i], NULL, thread_main, b) != 0)
                        exit(EXIT_FAILURE);
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                (void) pthread_join(threads[i], NULL);
}

static Bench bench_new(void) {
        XschedQueueInfo info = {.size = sizeof(info), .device = "bench", .backend = "bench"};
        Bench b = {.gate = aligned_alloc(_Alignof(Gate), sizeof(Gate)), .service = fake_service_new()};

        if (!b.gate || xsched_queue_new(&info, &b.queue) < 0)
                exit(EXIT_FAILURE);
        gate_init(b.gate, true);
        if (gate_attach(b.gate, &b.service->client, 0, b.service->wake) < 0)
                exit(EXIT_FAILURE);
        page_slot_set_watch(fake_slot(b.service, 0), PAGE_WATCH_READY | PAGE_WATCH_IDLE);
        (void) gate_begin(b.gate, GATE_WAIT);
        return b;
}

/* Counts the instructions of a whole run of this program; 0: unknown. */
static uint64_t count_instructions(const char *what, uint64_t n) {
        char command[256];

        (void) snprintf(command, sizeof(command),
                        "valgrind --tool=callgrind --callgrind-out-file=/dev/null /proc/%d/exe --%s=%" PRIu64 " 2>&1",
                        (int) getpid(), what, n);
        return callgrind_count(command, false);
}

/* Per launch, without what starts and ends a process. */
static double instructions_of(const char *what) {
        const uint64_t few = 1000, many = 101000;
        uint64_t base = count_instructions(what, few), all = count_instructions(what, many);

        return base > 0 && all > base ? (double) (all - base) / (double) (many - few) : 0;
}

static int report(void) {
        Bench b = bench_new();
        double nothing = measure(run_nothing, &b, 10000000), open = measure(run_open, &b, 10000000);

        printf("an empty call                      %8.1f ns\n", nothing);
        printf("an open launch                     %8.1f ns\n", open);
        printf("  two threads on one queue         %8.1f ns a launch\n", measure(run_threads, &b, 2000000));
        printf("a tracked launch and its end       %8.1f ns\n", measure(run_tracked, &b, 1000000));
        printf("  with a ready and an idle edge    %8.1f ns\n", measure(run_edges, &b, 200000));

        double empty = instructions_of("nothing"), launch = instructions_of("open");
        if (empty == 0 || launch == 0) {
                puts("instructions: not counted, there is no valgrind");
                return EXIT_SUCCESS;
        }
        printf("instructions of an open launch     %8.1f, of an empty call %.1f\n", launch, empty);
        return launch <= INSTRUCTIONS_MAX ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char *argv[]) {
        const char *n;

        setenv("XSCHED_DISABLE", "1", true); /* for runs under valgrind: no other thread may run */
        if (argc == 1)
                return report();

        Bench b = bench_new();
        if ((n = startswith(argv[1], "--nothing=")))
                run_nothing(&b, strtoull(n, NULL, 10));
        else if ((n = startswith(argv[1], "--open=")))
                run_open(&b, strtoull(n, NULL, 10));
        else
                return EXIT_FAILURE;
        return EXIT_SUCCESS;
}
