/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * One OpenCL command queue as we know it
 *
 * Each launch finds the record by the application's queue handle, without a lock; a launch on an unknown handle passes
 * as without us. Records are never freed, only reused for later queues: a launch that races with the release of its own
 * queue (which is the application's bug) may meet the wrong record, never freed memory.
 *
 * Life. `life` counts: the registry (until the application has released its last reference), each armed sentinel, each
 * pin. The record ends when the count is 0. We count the application's references as it takes and releases them,
 * because the runtime's own count includes those of its commands and events. Should our count be wrong (an application
 * can reach the runtime past us), the queue runs unscheduled, or its record is replaced when the runtime reuses the
 * address.
 *
 * Handle. Code that calls the runtime unasked (the drain, a sentinel that flushes) pins the handle. When the last
 * reference is released while pins exist, the last thread to unpin does the native release, so the application never
 * sees a reference of ours.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/launch-kind.h"
#include "shim/opencl/opencl-next.h"
#include "xsched/xsched.h"

typedef struct OpenclQueue OpenclQueue;

/* One tracked launch; the record owns one reference to the event. */
typedef struct OpenclTracked {
        cl_event event; /* NULL: a launch of the tail (opencl-tail.h) */
        uint64_t seq;
        uint64_t covers; /* all launches up to this number are complete when the event is */
        uint64_t kind;
        uint64_t expected_ns; /* part of the queue's flying_ns */
        bool safe;            /* it completes without further action of the host */
        bool drain;           /* not a launch, but a marker behind untracked launches */
        bool point;           /* not a launch, but a marker that closes a tail */
        bool stamps;          /* its time stamps are to be read: opencl-stamps.h */
} OpenclTracked;

/* A completion callback that we have requested from the runtime. It has memory of its own, because a runtime may forget
 * to call (PoCL does when a command fails): then the sentinel is given up, and its few bytes are lost. */
typedef struct OpenclSentinel {
        _Atomic(OpenclQueue *) queue; /* taken by what ends it: the callback, or the finding that none will come */
        uint64_t seq, covers;         /* of the launch whose event it waits for */
        struct OpenclSentinel *next_lost;
} OpenclSentinel;

typedef struct OpenclSample OpenclSample;

/* A program has caches of its own: what each tracked launch needs comes first, so that it takes few lines of them. */
struct OpenclQueue {
        /* Read by each launch. */
        XschedQueue *xq;
        _Atomic uint32_t n_tracked;      /* copy of n - head, for readers without the lock */
        _Atomic uint32_t since_point;    /* launches without event since the newest with one */
        _Atomic uint32_t plan_every;     /* one launch in so many has an event; 0: to be worked out */
        _Atomic uint32_t plan_limit;     /* the bound then, */
        _Atomic uint32_t plan_threshold; /* and what it came from */
        _Atomic uint32_t skip;           /* number of launches to skip before the next sample */
        _Atomic uint64_t plan_kind;      /* the kind of launches that the plan is for */
        _Atomic uint64_t mean_ns;        /* running mean of a launch's device time; 0: unknown */
        _Atomic(const void *) submits;   /* the thread that is between native call and record; NULL: none */
        _Atomic bool in_order;
        _Atomic bool waits_unknown;  /* a command waits for unknown events */
        _Atomic bool multi_threaded; /* our order of launches may not be the runtime's */
        _Atomic bool tail;           /* launches need no events */
        _Atomic bool no_samples;     /* the runtime does not tell when launches begin */
        _Atomic uint32_t n_drains;   /* that the thread which launches has to put (opencl_drain_wanted()) */
        _Atomic bool turn_over;      /* opencl-delay.c: the queue has been held since the last launch */
        bool callbacks_prompt;       /* a CPU device, whose runtime calls back at once */
        bool callbacks_spin;         /* each callback takes a CPU for long, so none is requested (opencl-sentinel.h) */
        bool harvesting, again;
        bool forgotten; /* no loader is left: nobody learns of ends, so nothing more is tracked */

        /* Tracked launches, oldest first, from `head` on. Under `lock`, except that only the harvester removes. No
         * native function is ever called with the lock held: runtimes call back with locks of their own. */
        pthread_mutex_t lock;
        OpenclTracked *tracked;
        size_t head, n, allocated;
        uint64_t last_seq;   /* given to a launch */
        uint64_t done_seq;   /* highest known complete */
        uint64_t unsafe_seq; /* in-order: nothing is safe from here on, until a launch from this number on completes */
        uint64_t open_seq;   /* the newest launch without event */
        uint64_t newest_ns;  /* when the newest launch was submitted */
        _Atomic(LaunchKinds *) kinds;
        _Atomic uint64_t flying_ns; /* expected device time of all launches in flight */
        OpenclSentinel *idle;       /* for the idle edge, on the newest launch; NULL: not armed */
        uint64_t polled_seq;        /* in its place, where callbacks_spin: the launch whose end is polled for; or 0 */
        uint64_t polled_until_ns;   /* when all in flight at that time should have ended, */
        uint32_t n_polls;           /* and how many polls after that found it in flight */

        cl_command_queue handle;
        int32_t priority_hint;
        _Atomic uint32_t app_refs;
        _Atomic uint32_t pins; /* a count and OPENCL_QUEUE_DROPPED */
        _Atomic uint32_t life;

        uint64_t known_seq;                /* a caller knows that all up to here is complete */
        bool waited;                       /* a thread waited for the launches about to be found complete */
        uint64_t measured_since_ns;        /* opencl-guess.c: since when launches are measured; 0: they are not */
        uint64_t measured_kind;            /* of those found since then; 0: several kinds */
        uint32_t n_measured;               /* so many were found since then */
        bool measured_among_others;        /* others may have had the device since then */
        uint64_t started_ns;               /* when the first of a batch was submitted */
        _Atomic uint64_t head_since_ns;    /* since when the device works on the oldest one; 0: unknown */
        uint64_t looked_ns;                /* last look that found work in flight; 0: none */
        uint32_t n_above;                  /* consecutive samples far above the mean */
        _Atomic bool was_held;             /* held since the last completion: others had the device */
        uint32_t n_held;                   /* completions of which that is true, and no other in between */
        uint64_t held_least_ns, held_kind; /* the shortest of those; their kind, where they have one */

        /* opencl-delay.c */
        bool begins_turn;  /* the oldest in flight is the first since the queue was held */
        int64_t delay_ns;  /* the median, */
        uint32_t n_delays; /* of so many, up to a number */

        /* opencl-tail.c */
        _Atomic uint32_t app_waits;   /* threads of the application that will tell when what is in flight is over */
        _Atomic uint32_t event_waits; /* threads that wait for an event of this queue */
        uint64_t covered_seq;         /* an event in the record covers all up to here */
        bool arm;                     /* the next harvest arms the idle sentinel, tail or not */
        uint32_t n_told;              /* idle ends that the application's waits have told */
        uint64_t told_seq;            /* the newest launch at that time */
        uint64_t paused_ns;           /* pauses since then whose begin no wait told */
        uint64_t untold_ns;           /* when an end was found that no wait had told; 0: the last was told */
        uint32_t n_trusted;           /* looks that relied on a wait to report the end */

        /* opencl-time.c */
        uint32_t n_mean, n_learned;
        uint64_t learned_ns; /* since opencl_time_take() */
        OpenclSample *samples;
        _Atomic uint64_t random;

        /* opencl-stamps.c */
        bool stamps;                       /* the queue has profiling enabled, and callbacks are late */
        bool stamped;                      /* a stamp was read */
        _Atomic uint32_t n_stamp_refusals; /* consecutive */
        _Atomic uint64_t sampled_ns;       /* when the newest sample was submitted */

        _Atomic uint32_t progress; /* futex: changes with every completion while a thread waits for one */
        _Atomic uint32_t bound_waiters;
        _Atomic uint32_t keep;    /* bound waiters: how many may stay in flight */
        _Atomic uint32_t grace;   /* doublings of the bound, after waits without progress */
        _Atomic uint32_t doubt;   /* bound waiters: number of short sleeps to come */
        _Atomic uint32_t look_at; /* so many were in flight when a launch looked last; 0: it was idle since */

        OpenclSentinel *wake; /* for a bound waiter, on the launch that it waits for */

        OpenclQueue *next_free;
};

#define OPENCL_QUEUE_DROPPED UINT32_C(0x80000000)

/* Returns an unused record with one reference; NULL: no memory. */
OpenclQueue *opencl_queue_take(void);

/* Returns the record without a reference, or NULL. Takes no lock. */
OpenclQueue *opencl_queue_find(cl_command_queue handle);

/* Returns the record with a reference, or NULL: for callers that hold no reference to the application's queue, which
 * may be released at any time. */
OpenclQueue *opencl_queue_get(cl_command_queue handle);

/* Keeps the handle valid until opencl_queue_unpin(). Returns false when the application has released it. */
bool opencl_queue_pin(OpenclQueue *q);
void opencl_queue_unpin(OpenclQueue *q);

void opencl_queue_ref(OpenclQueue *q);
void opencl_queue_unref(OpenclQueue *q);
static inline void opencl_queue_unrefp(OpenclQueue **q) {
        if (*q)
                opencl_queue_unref(*q);
}

/* The number of queues with tracked launches: at zero no look is needed. */
extern _hidden_ _Atomic uint32_t opencl_n_busy;

/* --- the registry's table, here for the launch path --- */

typedef struct OpenclTableEntry {
        _Atomic(cl_command_queue) key; /* never removed from a table, so a chain never breaks */
        _Atomic(OpenclQueue *) queue;  /* NULL: gone */
} OpenclTableEntry;

typedef struct OpenclTable {
        size_t mask;
        size_t n_keys;
        struct OpenclTable *older; /* kept, because a reader may still be in it */
        OpenclTableEntry entries[];
} OpenclTable;

extern _hidden_ _Atomic(OpenclTable *) opencl_table;

/* Adds a handle. *ret_stale is the record that had the handle before, or NULL. Takes and gives no references. Returns
 * false without memory. */
bool opencl_table_add(cl_command_queue handle, OpenclQueue *q, OpenclQueue **ret_stale);

/* Removes a handle. Returns false when it leads to another record, or to none. */
bool opencl_table_remove(cl_command_queue handle, OpenclQueue *q);

/* Removes all handles. Returns the old table, which is never freed. */
OpenclTable *opencl_table_forget(void);

/* In the child after fork: the parent's queues are not the child's. */
void opencl_table_fork_child(void);

static inline size_t opencl_table_hash(const OpenclTable *t, cl_command_queue handle) {
        /* The low bits of heap addresses are alike; the product's high half depends on all others. */
        return (size_t) (((uint64_t) (uintptr_t) handle * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & t->mask;
}

static inline OpenclQueue *opencl_table_find(const OpenclTable *t, cl_command_queue handle) {
        for (size_t i = opencl_table_hash(t, handle);; i = (i + 1) & t->mask) {
                cl_command_queue key = atomic_load_explicit(&t->entries[i].key, memory_order_acquire);
                if (likely(key == handle))
                        return atomic_load_explicit(&t->entries[i].queue, memory_order_acquire);
                if (!key)
                        return NULL;
        }
}
