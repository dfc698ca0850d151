/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * libxsched in a process, against a service that the test plays, over the test's own bus
 */

#include <pthread.h>

#include "include/xsched/xsched.h"
#include "tests/lib/bus-cases.h"
#include "tests/lib/fake-scheduler.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)

FakeScheduler *scheduler(void);
XschedQueue *queue(XschedQueueInfo info);
XschedCounters counters(void);
XschedQueue *attached_queue(FakeScheduler *s, XschedQueueInfo info);

/* Numbers of calls of XschedQueueInfo.destroy and .drain. */
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
/* Whether a mapping of this process has a name with these words, which others can read. */
bool maps_say(const char *words);
bool has_waiters(FakeClient *c, uint32_t slot, uint32_t n);
/* Starts a thread that waits at the gate of the process's first queue, which is held for ever. Returns the queue. */
XschedQueue *launch_held(FakeScheduler *s, Launcher *l);

/* main() of the tests: runs all cases, or the one named by the argument. */
int run_cases(const BusCase *cases, size_t n, int argc, char *argv[]);
