/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tests on simulated GPUs: each case is a process of its own in a world of its own
 *
 * A case fails by check(), by dying, or by taking too long. Output is TAP. Nothing is skipped, unless there is no
 * simulator.
 */

#include <stdio.h>
#include <sys/types.h>

#include "common/macro.h"
#include "tests/kfdsim/aql.h"
#include "tests/lib/deadline.h"

typedef struct SimCase {
        const char *name;
        const char *gpus, *opts; /* KFDSIM_GPUS, KFDSIM_OPTS; NULL: the defaults */
        void (*run)(void);
} SimCase;

int sim_cases_run(const SimCase *cases, size_t n, int argc, char *argv[]);

#define check(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
                        (void) fflush(stdout);                                                                         \
                        _exit(EXIT_FAILURE);                                                                           \
                }                                                                                                      \
        } while (0)

/* Zeroed memory that children share. */
void *shared_new(size_t size);

/* child_start() starts a child that runs f and dies with its parent. child_wait() returns its exit status, or
 * -signal. */
pid_t child_start(void (*f)(void *), void *userdata);
int child_wait(pid_t pid);
int child_kill(pid_t pid); /* SIGKILL, and waits */

/* A child that keeps a queue of a GPU busy until it is told to stop, and reports its progress. */
typedef struct Busy {
        unsigned gpu;
        uint64_t duration_ns;
        bool runtime_enable;
        _Atomic bool ready;
        _Atomic bool stop;
        _Atomic uint64_t n_executed;
        _Atomic uint32_t queue_id;
} Busy;
pid_t busy_start(Busy *b);          /* in shared memory; returns when it executes */
void busy_stop(Busy *b, pid_t pid); /* checks its proof */

/* Whether no dispatch of `b` ends, within the time that many of them take. */
bool busy_stands_still(Busy *b);
bool busy_goes_on(Busy *b);

/* A device and a queue with default options; checks. */
AqlDevice device_open(unsigned gpu);
AqlQueue *queue_open(const AqlDevice *d);
void queue_close_clean(AqlQueue *q); /* waits, checks the proof, destroys */
