/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues of this process, and how they reach the control thread
 *
 * Application threads make and drop queues; the control thread registers, attaches and recycles them. They exchange
 * queues by two lists. Queues are pushed one by one and taken as a whole, so the lists need no lock (a signal handler
 * may drop the last reference, a fork may happen at any instruction) and have no ABA problem.
 *
 * The memory of a queue is never freed, only used for the next queue: readers of the counters walk over all queues
 * without checking whether one of them is being dropped.
 */

#include "include/xsched/xsched.h"
#include "shim/core/gate.h"
#include "shim/core/hints.h"

/* Belongs to the control thread. */
typedef enum QueueState {
        QUEUE_LOOSE,       /* in no list: just made, or left over from the parent of a fork */
        QUEUE_NEW,         /* to be registered */
        QUEUE_REGISTERING, /* the registration waits for its reply */
        QUEUE_ATTACHED,    /* has a slot */
        QUEUE_REFUSED,     /* the service refused it; runs unscheduled */
        _QUEUE_STATE_MAX,
} QueueState;

const char *queue_state_to_string(QueueState s);

struct XschedQueue {
        Gate gate; /* first, so that a launch finds it where the queue is */

        /* Read by every launch, written seldom. */
        _Atomic(struct QueueLocal *) local; /* local.h; NULL: no local gate */

        _Atomic uint32_t refs;
        _Atomic bool look_wanted; /* xsched_queue_look() */
        _Atomic bool wants_room;  /* the control thread waits for gate_has_room() */

        /* constant from xsched_queue_new() on, until the queue is recycled */
        char *device;
        char *device_name;
        char *backend;
        char *label;
        int32_t priority_hint;
        void (*drain)(XschedQueue *q, void *userdata);
        void (*look)(XschedQueue *q, void *userdata);
        void (*destroy)(void *userdata);
        void *userdata;
        int (*apply)(XschedQueue *const *queues, void *const *userdata, uint32_t n, int held);
        uint32_t kfd_gpu_id, kfd_queue_id;
        uint64_t native;

        HintSet hints;

        _Atomic uint32_t level;     /* PreemptLevel that apply() reaches; only ever lowered */
        _Atomic bool level_changed; /* the service has been told another one */

        XschedQueue *all_next;  /* in the list of all queues, never removed */
        XschedQueue *new_next;  /* in queue_take_new()'s list */
        XschedQueue *dead_next; /* in queue_take_dead()'s list, maybe while in the other one; or in the free list */

        /* for the control thread only */
        struct Control *control;
        QueueState state;
        bool dead;
        uint64_t id;
        uint32_t slot;
        uint32_t word;            /* the slot's verdict when apply() was called */
        bool held;                /* by apply() */
        bool apply_due;           /* call apply() even if `held` is right */
        uint32_t refused;         /* verdict word whose hold failed; 0: none */
        uint64_t retry_at_ns;     /* when to try again after a failed release */
        XschedQueue *prev, *next; /* in the list of its state, unless loose */
};

/* Makes a queue with one reference, for queue_take_new(). Copies the strings of info. Returns 0 or -ENOMEM. */
int queue_make(const XschedQueueInfo *info, XschedQueue **ret);

/* Returns whether any queue shares its device with other clients. */
bool queue_any_has_others(void);

/* gate_look_again() for all queues. */
void queue_look_again(void);

/* Take the queues that were made (linked by new_next), or dropped for the last time (dead_next), since the last call.
 * To find every dead queue among those made, take the dead first. */
XschedQueue *queue_take_new(void);
XschedQueue *queue_take_dead(void);

/* Frees a queue for reuse that has no reference and is in no list of the control thread. */
void queue_recycle(XschedQueue *q);

/* Returns whether, since the last call, a queue was given a hint, or got the id by which the service can be told. */
bool queue_take_hints_changed(void);
void queue_hints_due(XschedQueue *q);

/* Takes a reference for the time of a call into the application. Returns false when the last one has gone. */
bool queue_try_ref(XschedQueue *q);

/* Adds up the counters of all queues, including dropped ones. */
void queue_read_counters(GateCounters *ret);

/* In a child after fork: opens and unregisters every queue for good. */
void queue_forget_all(void);
