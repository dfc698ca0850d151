/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Quick queues: they become ready and idle faster than the service can act on it
 *
 * An edge costs the client a write to an eventfd, and the service a turn: together more than a tiny launch takes, and a
 * client that waits for each launch makes two edges per launch. So a queue whose edges come that close together tells
 * no edges while it counts as ready, and is polled instead: every QUICK_LOOK_NS while others are ready on its device,
 * when one becomes ready that was not, and every QUICK_REST_NS while no other is. A pause that has only begun is looked
 * at once more, QUICK_PAUSE_NS later, before it counts. So others hear of its last launch QUICK_LOOK_NS +
 * QUICK_PAUSE_NS late at most. A quick queue that counts as idle tells its ready edge at once, and is not polled. A
 * queue that is about to be held is watched for all edges, before the word is written. Only queues of contended devices
 * are polled.
 *
 * Its run time between two looks is taken from the page's own count (edges.h). That works only while no other queue of
 * its entity is ready; else the queue is not quick.
 *
 * The queue stops being quick after QUICK_SLOW looks with less than one launch per QUICK_SLOW_NS. A client that counts
 * wrongly only delays its own idle edge, by at most the time above.
 */

#include <stdbool.h>
#include <stdint.h>

#include "common/time-util.h"

#define QUICK_LOOK_NS  (150 * NSEC_PER_USEC)
#define QUICK_PAUSE_NS (50 * NSEC_PER_USEC)
#define QUICK_REST_NS  (1 * NSEC_PER_MSEC)

/* A queue is quick after QUICK_EDGES more edges within QUICK_EDGE_NS of the one before than slower ones. */
#define QUICK_EDGE_NS (60 * NSEC_PER_USEC)
#define QUICK_EDGES   8U

#define QUICK_SLOW_NS (160 * NSEC_PER_USEC)
#define QUICK_SLOW    4U

/* Limits of polled queues, in all and per user; others tell their edges. */
#define QUICK_MAX      64U
#define QUICK_USER_MAX 16U

typedef struct Manager Manager;
typedef struct Queue Queue;

typedef struct QuickQueue {
        bool is;
        bool looked;       /* on Quick.queues: it is polled */
        bool pauses;       /* the last look found a pause that had only begun */
        unsigned n_edges;  /* fast edges, minus slow ones */
        unsigned n_slow;   /* slow looks, minus others */
        uint64_t heard_ns; /* when its last edge was heard */
        uint64_t since_ns; /* begin of the measurement of its pace, and its `submitted` then */
        uint64_t submitted;
        Queue *prev, *next;
} QuickQueue;

/* Functions of the caller to look at a queue, and to write its watch flags afterwards. Given to quick_init(), because
 * their files call quick.h themselves. */
typedef struct QuickOps {
        void (*look)(Queue *q);
        void (*sync_watch)(Queue *q);
} QuickOps;

void quick_init(Manager *m, const QuickOps *ops);
void quick_done(Manager *m);

/* Called after an edge of the queue was heard and looked at. Returns whether the queue is quick: then its watch flags
 * may change. */
bool quick_heard(Queue *q);

/* Whether the queue need not tell its edges at present. */
bool quick_takes(const Queue *q);

/* quick_begin(): the queue tells no edges from now on, and is polled. quick_end(): it tells its edges again. */
void quick_begin(Queue *q);
void quick_end(Queue *q);

/* Called before a device with several ready entities is dispatched: looks at the quick queues if the last look was long
 * ago. */
void quick_look(Manager *m, uint64_t now);
