/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Queues of this process, and how they reach the control thread
 *
 * Application threads make and drop queues; the control thread registers, attaches and recycles them. They meet in two
 * lists that are only ever pushed to one by one and taken as a whole, so that no lock is needed (a signal handler may
 * drop the last reference, a fork may happen at any instruction) and none of the usual troubles of lock-free lists
 * exist.
 *
 * The memory of a queue is never given back, only used for the next queue: readers of the counters walk over all queues
 * without asking whether one of them is just going away.
 */

#include "include/xsched/xsched.h"
#include "shim/core/gate.h"
#include "shim/core/hints.h"

/* Belongs to the control thread. */
typedef enum QueueState {
        QUEUE_LOOSE,       /* in no list: just made, or left over from the parent of a fork */
        QUEUE_NEW,         /* to be registered */
        QUEUE_REGISTERING, /* asked for */
        QUEUE_ATTACHED,    /* has a slot */
        QUEUE_REFUSED,     /* the service does not want it; runs unscheduled */
        _QUEUE_STATE_MAX,
} QueueState;

const char *queue_state_to_string(QueueState s);

struct XschedQueue {
        Gate gate; /* first, so that a launch finds it where the queue is */

        /* Read by every launch, written seldom. */
        _Atomic(struct QueueLocal *) local; /* local.h; NULL: there is none */

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

        XschedQueue *all_next; /* for ever */
        XschedQueue *new_next; /* in queue_take_new()'s list */
        XschedQueue *dead_next; /* in queue_take_dead()'s list, which it may reach before it was taken from the other; or free */

        /* the control thread's */
        struct Control *control;
        QueueState state;
        bool dead;
        uint64_t id;
        uint32_t slot;
        uint32_t word;            /* the slot's verdict when apply() was called */
        bool held;                /* by apply() */
        bool apply_due;           /* whatever `held` says */
        uint32_t refused;         /* verdict word whose hold failed; 0: none */
        uint64_t retry_at_ns;     /* letting go has failed */
        XschedQueue *prev, *next; /* in the list of its state, unless loose */
};

/* Makes one with a reference, for queue_take_new(). The strings of info are copied. -ENOMEM. */
int queue_make(const XschedQueueInfo *info, XschedQueue **ret);

/* Whether somebody else has clients on the device of any queue. */
bool queue_any_has_others(void);

/* Takes what has been made (linked by new_next), or dropped for the last time (dead_next), since the last call. To find
 * every dead queue among those made, take the dead first. */
XschedQueue *queue_take_new(void);
XschedQueue *queue_take_dead(void);

/* For a queue that nobody refers to any more and that is in no list of the control thread. */
void queue_recycle(XschedQueue *q);

/* Whether a queue has been given a hint, or has come to have a number by which the service can be told, since the last
 * call. */
bool queue_take_hints_changed(void);
void queue_hints_due(XschedQueue *q);

/* A reference for the time of a call into the application. Fails when the last one has gone. */
bool queue_try_ref(XschedQueue *q);

/* Adds up all queues, those gone included. */
void queue_read_counters(GateCounters *ret);

/* In a child after fork: every queue is open, unregistered, and stays so. */
void queue_forget_all(void);
