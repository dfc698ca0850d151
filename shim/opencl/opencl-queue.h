/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * One OpenCL command queue as we know it
 *
 * A record is found on every launch, without a lock, by the application's queue handle; a handle that we do not know
 * passes as if we were not there. Records are never given back to malloc(), only reused for later queues: a launch that
 * races with the release of its own queue (which is the application's bug) may meet the wrong record, never freed
 * memory.
 *
 * Life. `life` counts: the registry (until the application has released its last reference), each armed sentinel, each
 * pin. The record ends when all are gone. References of the application are counted here, as they are taken and
 * released, because the runtime's own count contains what its commands and events hold. Should the count be wrong (an
 * application can reach the runtime past us), the queue runs unscheduled, or its record is replaced when the runtime
 * hands out the same address again.
 *
 * Handle. Code that runs on its own account (the drain, a sentinel that flushes) pins the handle. A release of the last
 * reference that meets a pin leaves the native release to whoever unpins last, so no reference of ours is ever visible
 * to the application.
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
        uint64_t covers; /* when the event is complete, so is all up to here */
        uint64_t kind;
        uint64_t expected_ns; /* part of the queue's flying_ns */
        bool safe;            /* it completes without anything more from the host */
        bool drain;           /* not a launch, but a marker behind what nobody had tracked */
        bool point;           /* not a launch, but a marker that closes a tail */
} OpenclTracked;

/* A completion callback that we have outstanding at the runtime. Memory of its own, because a runtime can forget to
 * call (PoCL does when a command fails): then nobody waits for it any more, and its few bytes are given up. */
typedef struct OpenclSentinel {
        _Atomic(OpenclQueue *)
                        queue; /* taken by who ends it: the callback, or who finds that none will come */
        uint64_t seq, covers;  /* of the launch it hangs on */
        struct OpenclSentinel *next_lost;
} OpenclSentinel;

typedef struct OpenclSample OpenclSample;

struct OpenclQueue {
        /* What a launch reads. */
        XschedQueue *xq;
        _Atomic bool in_order;
        _Atomic bool waits_unknown; /* something waits for what we have not looked at, see opencl-launch.c */
        _Atomic uint32_t n_tracked; /* copy of n - head, for readers without the lock */
        _Atomic uint32_t submitting; /* threads between native call and record */
        _Atomic bool multi_threaded; /* our order of launches may not be the runtime's */
        bool callbacks_prompt;       /* a CPU device: it needs our CPU, and calls back at once */
        int32_t priority_hint;

        cl_command_queue handle;
        _Atomic uint32_t app_refs;
        _Atomic uint32_t pins; /* and OPENCL_QUEUE_DROPPED */
        _Atomic uint32_t life;

        /* Tracked launches, oldest first, from `head` on. Under `lock`, except that only the harvester removes. No
         * native function is ever called with the lock held: runtimes call back with locks of their own. */
        pthread_mutex_t lock;
        OpenclTracked *tracked;
        size_t head, n, allocated;
        uint64_t last_seq; /* given to a launch */
        uint64_t done_seq; /* highest known complete */
        uint64_t unsafe_seq; /* in-order: from here on nothing is safe until a launch with at least this number completes */
        uint64_t known_seq; /* somebody has learned that all up to here is complete */
        bool harvesting, again;
        bool waited;                 /* somebody waited for what is about to be found */
        uint64_t saturated_since_ns; /* a completion that was seen at once and left work behind; 0: none */
        uint64_t started_ns;         /* when the first of a batch was submitted */
        _Atomic uint64_t head_since_ns;    /* since when the device works on the oldest one; 0: unknown */
        uint64_t looked_ns;                /* last look that left work behind; 0: none */
        uint32_t n_above;                  /* samples one after the other that were far above the mean */
        _Atomic bool was_held;             /* since the last completion: others had the device */
        uint32_t n_held;                   /* completions of which that is true, and no other in between */
        uint64_t held_least_ns, held_kind; /* the shortest of those; their kind, where they have one */

        /* opencl-tail.c */
        _Atomic bool tail;            /* launches need no events of their own */
        _Atomic uint32_t since_point; /* launches without event, after the newest that has one */
        _Atomic uint32_t
                        app_waits; /* threads of the application that will tell when what is in flight is over */
        _Atomic uint32_t event_waits; /* threads that wait for an event of this queue */
        uint64_t open_seq;            /* the newest launch without event */
        uint64_t covered_seq;         /* an event in the record tells of all up to here */
        _Atomic uint32_t plan_every;  /* one launch in so many has an event; 0: to be worked out */
        _Atomic uint32_t plan_limit, plan_threshold; /* the bound then, and what it came from */
        _Atomic uint64_t plan_kind;                  /* all that for launches of this kind */
        bool arm;           /* the next harvest arms the idle sentinel, tail or not */
        uint32_t n_told;    /* idle ends that the application's waits have told */
        uint64_t told_seq;  /* the newest launch then */
        uint64_t untold_ns; /* when one was found that nobody had waited for; 0: the last was told */
        uint32_t n_trusted; /* looks that have left it to a wait to tell */
        uint64_t newest_ns; /* when the newest launch was submitted */

        /* opencl-time.c */
        _Atomic(LaunchKinds *) kinds;
        _Atomic uint64_t mean_ns; /* running mean of a launch; 0: unknown */
        uint32_t n_mean, n_learned;
        uint64_t learned_ns; /* since opencl_time_take() */
        OpenclSample *samples;
        _Atomic bool no_samples; /* the runtime does not tell when launches begin */
        _Atomic uint32_t skip;   /* so many are no samples */
        _Atomic uint64_t random;
        _Atomic uint64_t flying_ns; /* what is in flight is expected to take */

        _Atomic uint32_t progress; /* futex: changes with every completion while somebody waits for one */
        _Atomic uint32_t bound_waiters;
        _Atomic uint32_t keep;  /* bound waiters: how many may stay in flight */
        _Atomic uint32_t grace; /* doublings of the bound, after waits that led nowhere */
        _Atomic uint32_t doubt; /* bound waiters: so many sleeps are to be short */
        _Atomic uint32_t
                        look_at; /* so many were in flight when a launch looked last; 0: it was idle since */

        OpenclSentinel *idle; /* for the idle edge, on the newest launch; NULL: not armed */
        OpenclSentinel *wake; /* for a bound waiter, on the launch that it waits for */

        OpenclQueue *next_free;
};

#define OPENCL_QUEUE_DROPPED UINT32_C(0x80000000)

/* A queue was made: remember it. Fails open: whatever goes wrong, the queue runs unscheduled. */
void opencl_queue_add(cl_command_queue handle, cl_device_id device, cl_command_queue_properties properties,
                int32_t priority_hint);

/* The record, or NULL. Lock-free. */
OpenclQueue *opencl_queue_find(cl_command_queue handle);

/* The record with a reference, for who does not hold the application's queue: it may be released at any time. */
OpenclQueue *opencl_queue_get(cl_command_queue handle);

/* The application's references. _released() is called before the native release and returns true when the caller shall
 * not do it: somebody has pinned the handle, and will. */
void opencl_queue_retained(cl_command_queue handle);
bool opencl_queue_released(cl_command_queue handle);

/* The runtime is going, after opencl_own_stop(): what was in flight is reported complete, without asking, and queues
 * pass from now on as if we were not there. The records stay: the application's own threads may still be in them. */
void opencl_queue_forget_all(void);

/* Keeps the handle valid; false when the application has released it. */
bool opencl_queue_pin(OpenclQueue *q);
void opencl_queue_unpin(OpenclQueue *q);

void opencl_queue_ref(OpenclQueue *q);
void opencl_queue_unref(OpenclQueue *q);
static inline void opencl_queue_unrefp(OpenclQueue **q) {
        if (*q)
                opencl_queue_unref(*q);
}

/* How many tracked launches all queues have right now: zero means that nobody need look. */
extern _hidden_ _Atomic uint32_t opencl_n_tracked;

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

static inline size_t opencl_table_hash(const OpenclTable *t, cl_command_queue handle) {
        /* The low bits of a heap address say nothing; the product's high half depends on all the others. */
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
