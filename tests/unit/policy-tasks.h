/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Pieces of work on a device under a policy, and the timeline of the tasks that ran
 *
 * A task arrives, needs the device for a time, and ends, or comes again after a pause. Discrete events in virtual time:
 * the next event is an arrival, an end, or the time at which the policy asks to be called. The timeline has one
 * character for each millisecond: the letter of the task that ran in it ('a' the first), '.' where none did; the second
 * place has a line of its own.
 */

#include "policy-harness.h"

#define TASKS_MAX    16U
#define TIMELINE_MAX 256U

typedef struct Task {
        uint64_t arrive_ns, work_ns;
        uint64_t pause_ns; /* pause between its end and its next arrival; 0: it comes once */
        PolicySettings settings;
        HarnessNode *node; /* parent of its job; NULL: the root */
        bool restarts;     /* at each end its job and node are removed, and made anew for the next arrival */

        Job *job;
        uint64_t left_ns, next_ns;   /* next_ns: next arrival; NSEC_INFINITY: none */
        uint64_t came_ns, done_ns;   /* of its last completed run */
        uint64_t ran_ns, longest_ns; /* in all; the longest time from arrival to end */
        uint64_t n_done;
} Task;

typedef struct Tasks {
        Harness *h;
        Task t[TASKS_MAX];
        size_t n;
        uint64_t begin_ns;
        void (*look)(struct Tasks *s); /* after each event; may be NULL */

        char line[2][TIMELINE_MAX + 1];
} Tasks;

/* The job is made in the harness by the first tasks_run(). */
Task *tasks_add(Tasks *s, uint64_t arrive_ns, uint64_t work_ns, PolicySettings settings);

void tasks_run(Tasks *s, uint64_t ns);
