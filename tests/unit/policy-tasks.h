/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Pieces of work on a device under a policy, and the timeline of the tasks that ran
 *
 * A task arrives, needs the device for so long, and is gone; or comes again after a pause. Discrete events in virtual
 * time: the next is an arrival, an end, or when the policy asks to be called. The timeline has one character for each
 * millisecond: the letter of the task that ran in it ('a' the first), '.' where none did; what runs on the second place
 * is in a line of its own.
 */

#include "policy-harness.h"

#define TASKS_MAX    16U
#define TIMELINE_MAX 256U

typedef struct Task {
        uint64_t arrive_ns, work_ns;
        uint64_t pause_ns; /* so long after it is done it comes again; 0: it does not */
        PolicySettings settings;
        HarnessNode *node; /* below which it is; NULL: the root */
        bool restarts;     /* each time that it is done it goes, with its node, and comes again as another */

        Job *job;
        uint64_t left_ns, next_ns;   /* NSEC_INFINITY: it does not come any more */
        uint64_t came_ns, done_ns;   /* of the last time that it was done */
        uint64_t ran_ns, longest_ns; /* in all; from coming to the end */
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

/* Made in the harness with the first tasks_run(). */
Task *tasks_add(Tasks *s, uint64_t arrive_ns, uint64_t work_ns, PolicySettings settings);

void tasks_run(Tasks *s, uint64_t ns);
