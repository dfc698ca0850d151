/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * libxsched in a process, against a service that does what the test says, over a bus of the test's own
 *
 * Each case runs in a process of its own, because that is what a client is: one per process, and never torn down. The
 * program calls itself for it, so that the library's constructor sees the case's environment.
 */

#include <pthread.h>
#include <stdio.h>

#include "include/xsched/xsched.h"
#include "tests/lib/deadline.h"
#include "tests/lib/fake-scheduler.h"
#include "tests/lib/private-bus.h"

#define CHECK(condition)                                                                                    \
        do {                                                                                                \
                if (!(condition)) {                                                                         \
                        (void) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);              \
                        _exit(1);                                                                           \
                }                                                                                           \
        } while (false)

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE)

extern PrivateBus bus; /* of the running case */

FakeScheduler *scheduler(void);
XschedQueue *queue(XschedQueueInfo info);
XschedCounters counters(void);
XschedQueue *attached_queue(FakeScheduler *s, XschedQueueInfo info);

/* XschedQueueInfo.destroy and .drain that count. */
extern _Atomic int destroyed, drains;
extern char drain_thread[32];
void count_destroy(void *userdata);
void count_drain(XschedQueue *q, void *userdata);

/* A thread that launches once. */
typedef struct Launcher {
        XschedQueue *queue;
        pthread_t thread;
        _Atomic int began;
} Launcher;

void launch(Launcher *l, XschedQueue *q);
bool has_waiters(FakeClient *c, uint32_t slot, uint32_t n);

typedef struct Case {
        const char *name;
        void (*run)(void);
        const char *environment; /* one variable */
} Case;

#define CASE(name, ...)                                                                                     \
        { #name, case_##name, ##__VA_ARGS__ }

/* main(): all of them, or the one that is named. */
int run_cases(const Case *cases, size_t n, int argc, char *argv[]);
