/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Hal bench: a device with queues for the conformance suite, the submitted work, and the accounts at the end
 */

#include <stdatomic.h>

#include "tests/lib/hal-suite.h"

#define BENCH_QUEUES_MAX 16U
#define SUITE_PROCESSES  4U
#define SUITE_QUEUES     8U /* of one process, or shared out among them */
#define SUITE_CYCLES     10000U
#define SUITE_SEED       UINT64_C(88172645463325252)

typedef struct Bench {
        void *device;
        size_t n;
        HalQueue *queues[BENCH_QUEUES_MAX];
        uint64_t submitted[BENCH_QUEUES_MAX]; /* number of dispatches */
        uint64_t work[BENCH_QUEUES_MAX];      /* their length, summed */
} Bench;

/* driver: the driver under test. The others are the rest of the suite's arguments. */
extern const HalDriver *driver;
extern bool suite_is_long;

Bench *bench_new(size_t n_queues);
void bench_free(Bench *b);
void bench_add_queue(Bench *b);
void bench_drop_queue(Bench *b, size_t i); /* the last one takes its place */

void bench_submit(Bench *b, size_t i, uint64_t duration_ns);
uint64_t bench_done(Bench *b, size_t i); /* of the first ones */
void bench_assert_all_done(Bench *b);    /* each dispatch exactly once, and nothing left */
void bench_run_to_end(Bench *b);         /* lets go of all, and waits */

uint64_t suite_seed(void);
uint64_t next_random(uint64_t *seed);

/* Holds and releases random batches at random, while work comes in all the time. Some calls fail, if the driver can
 * inject failures. */
void bench_random_cycles(Bench *b, unsigned n_cycles, uint64_t seed);

/* hal-suite-process.c: a process of the suite's own, that runs role(), and its shared memory. */
typedef struct Shared {
        _Atomic unsigned ready; /* workers that have come to their point */
        _Atomic uint64_t progress;
        _Atomic bool go;
} Shared;

typedef enum Role {
        ROLE_CYCLES,
        ROLE_FORK,
        ROLE_EXIT,
        ROLE_KILL,
        ROLE_SERVICE,
        _ROLE_MAX,
} Role;

Shared *shared_memory_new(void);
int suite_worker_start(Role role, Shared *shared, uint64_t seed); /* a pid */
int suite_worker_wait(int pid);                                   /* its wait status */
void suite_processes_init(char *argv[]);
int suite_worker_main(char *argv[]); /* "--worker DRIVER ROLE FD SEED" */

extern const struct CMUnitTest *const suite_process_tests, *const suite_service_tests;
extern const size_t suite_n_process_tests, suite_n_service_tests;

/* hal-suite-service.c */
void suite_service_worker(Shared *shared);
