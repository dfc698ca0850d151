/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches behind what the program lets go when it has made them all: see app.c
 */

#include <dlfcn.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "app.h"
#include "include/xsched/xsched.h"

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

static double at_gate(int (*counters)(XschedCounters *)) {
        XschedCounters c = {.size = sizeof(c)};

        CHECK(counters(&c) == 0);
        return (double) c.waited_ns / 1e9;
}

/* As above under a service, in steps that the test asks for. Prints milliseconds: of all launches, of these what they
 * waited at the gate, and of the longest launch what it did not wait there. */
void behind_and_beside(FakeStream s, uint64_t p) {
        void *library = dlopen("libxsched.so.0", RTLD_NOW | RTLD_NOLOAD);
        int (*counters)(XschedCounters *) = NULL;
        double longest = 0, begin, gate;
        sem_t go_on;

        CHECK(library);
        counters = (int (*)(XschedCounters *))(uintptr_t) dlsym(library, "xsched_get_counters");
        CHECK(counters);
        CHECK(sem_init(&go_on, 0, 0) == 0);
        CHECK(cuLaunchHostFunc(s, wait_at_host, &go_on) == 0);
        begin = now();
        gate = at_gate(counters);
        for (int i = 0; i < LAUNCHES; i++) {
                double t = now(), before = at_gate(counters);
                CHECK(launch_on(s, p, i, 0) == 0);
                t = now() - t - (at_gate(counters) - before);
                longest = t > longest ? t : longest;
        }
        printf("%.0f %.0f %.0f\n", (now() - begin) * 1e3, (at_gate(counters) - gate) * 1e3, longest * 1e3);
        fflush(stdout);
        CHECK(sem_post(&go_on) == 0);
        CHECK(cu.wait(s) == 0);
        CHECK(dlclose(library) == 0);
}
