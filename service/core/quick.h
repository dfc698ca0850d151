/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Quick queues: those that become ready and idle faster than anybody can act on it
 *
 * An edge costs who launches a write to an eventfd, and the service a turn: together more than a tiny launch takes, and
 * they come twice for each where every launch is waited for. So a queue whose edges are heard so close to each other
 * tells none while it is taken to be ready, and is looked at: every QUICK_LOOK_NS while others are ready on its
 * device, when one becomes ready that was not, and every QUICK_REST_NS while nobody else is. A pause that has only
 * begun is looked at once more, QUICK_PAUSE_NS later, before it counts. So others hear of its last launch
 * QUICK_LOOK_NS + QUICK_PAUSE_NS late at most. What is taken to be idle tells when it is ready, at once, and nobody
 * looks at it; and what is to be held is watched for everything, before the word is written. Nothing is looked at on a
 * device that is not contended.
 *
 * What it did between two looks is known by what it counts itself (edges.h), as it is of every queue that is quicker
 * than we are. That holds where nothing else of its entity is ready; else it is not quick.
 *
 * It is quick no more when fewer launches come than one in QUICK_SLOW_NS, time and again. A client that counts wrongly
 * has its own end heard of late, by that little.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"

#define QUICK_LOOK_NS  (150 * NSEC_PER_USEC)
#define QUICK_PAUSE_NS (50 * NSEC_PER_USEC)
#define QUICK_REST_NS  (1 * NSEC_PER_MSEC)

/* Edges in such a distance, so many more of them than of others, make it quick. */
#define QUICK_EDGE_NS (60 * NSEC_PER_USEC)
#define QUICK_EDGES   8U

#define QUICK_SLOW_NS (160 * NSEC_PER_USEC)
#define QUICK_SLOW    4U

/* So many are looked at, in all and of one user: more than that tell their edges. */
#define QUICK_MAX      64U
#define QUICK_USER_MAX 16U

typedef struct Device Device;
typedef struct Manager Manager;
typedef struct Queue Queue;

typedef struct QuickQueue {
        bool is;
        bool looked;       /* on the manager's list of those that are looked at */
        bool pauses;       /* it was found in a pause that had only begun */
        unsigned n_edges;  /* that came fast, as far as slow ones have not taken them back */
        unsigned n_slow;   /* the same of looks that found it slow */
        uint64_t heard_ns; /* its last edge */
        uint64_t since_ns; /* its pace is measured since then; it had launched so much */
        uint64_t submitted;
        Queue *prev, *next;
} QuickQueue;

/* What is done with a queue that is looked at, and after that: it is given, because those who do it need quick_takes()
 * and quick_begin(). */
typedef struct QuickOps {
        void (*look)(Queue *q);
        void (*sync_watch)(Queue *q);
} QuickOps;

int quick_init(Manager *m, const QuickOps *ops);
void quick_done(Manager *m);

/* An edge of it was heard of, and looked at. Returns whether it is quick: then it may be watched for others now. */
bool quick_heard(Queue *q);

/* Whether it need not tell its edges, as things are. */
bool quick_takes(const Queue *q);

/* It tells none from now on, and is to be looked at; or it does again. */
void quick_begin(Queue *q);
void quick_end(Queue *q);

/* The device is about to be dispatched: what nobody has looked at for long is looked at before. */
void quick_look(Device *d);

/* The timer's: it is time to look. */
void quick_turn(Manager *m);
