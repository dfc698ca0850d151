/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches behind what the program lets go when it has made them all: see app.c
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "app.h"

#define KNOWN    200 /* launches, so that the layer knows the kernel */
#define LAUNCHES 2000

static double now(void) {
        struct timespec t;

        CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* Prints how often the time of the longest launch goes into that of all. */
void case_behind(void) {
        FakeStream s = stream();
        uint64_t p = memory();
        double longest = 0, begin;
        sem_t go_on;

        for (int i = 0; i < KNOWN; i++)
                CHECK(launch_on(s, p, i, 0) == 0);
        CHECK(cu.wait(s) == 0);
        CHECK(sem_init(&go_on, 0, 0) == 0);
        CHECK(cuLaunchHostFunc(s, wait_at_host, &go_on) == 0);
        begin = now();
        for (int i = 0; i < LAUNCHES; i++) {
                double t = now();
                CHECK(launch_on(s, p, i, 0) == 0);
                t = now() - t;
                longest = t > longest ? t : longest;
        }
        printf("%d\n", (int) ((now() - begin) / longest));
        CHECK(sem_post(&go_on) == 0);
        CHECK(cu.wait(s) == 0);
}
