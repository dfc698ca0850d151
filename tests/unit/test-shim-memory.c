/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The memory of libxsched's thread: no piece of it is one that a thread of the program has just freed (common/apart.h)
 */

#include <string.h>

#include "common/apart.h"
#include "shim-cases.h"
#include "tests/lib/threads.h"

#define QUEUES 8

/* Pieces that libxsched's thread has asked for, and how many of them another thread's cache could have had. */
static _Atomic unsigned asked, small;

static void count(size_t size) {
        char name[16];

        if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 || !streq(name, "xsched"))
                return;
        atomic_fetch_add(&asked, 1);
        atomic_fetch_add(&small, size < APART_MIN);
}

#define WRAP(type, name, parameters, arguments, size)                                                                  \
        type __real_##name parameters;                                                                                 \
        type __wrap_##name parameters;                                                                                 \
                                                                                                                       \
        type __wrap_##name parameters {                                                                                \
                count(size);                                                                                           \
                return __real_##name arguments;                                                                        \
        }

WRAP(void *, malloc, (size_t size), (size), size)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), n *size)
WRAP(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size), n *size)
WRAP(char *, strdup, (const char *s), (s), strlen(s) + 1)

/* From the process's registration to the end of queues, which is when ROCr uses memory that it has freed. */
static void case_queues_come_and_go(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q[QUEUES];

        for (unsigned round = 1; round <= 3; round++) {
                for (unsigned i = 0; i < QUEUES; i++)
                        q[i] = attached_queue(s, (XschedQueueInfo){.label = "a label that free() keeps"});
                for (unsigned i = 0; i < QUEUES; i++)
                        xsched_queue_unref(q[i]);
                CHECK(scheduler_until(s, s->clients[0].n_gone == round * QUEUES));
                CHECK(poll_until(counters().queues == 0));
        }
        CHECK(atomic_load(&asked) >= QUEUES);
        CHECK(atomic_load(&small) == 0);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {CASE(queues_come_and_go)};

        return run_cases(cases, ELEMENTSOF(cases), argc, argv);
}
