/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * libxsched: the public C interface
 *
 * For authors of frameworks and runtimes that have queues of their own, and for tools that want to see whether the
 * process they run in is scheduled. Applications need none of it: the shims register the queues of unmodified programs.
 *
 * Promises: no function here ever aborts, exits, prints, changes errno or blocks a signal. Functions that return int
 * return 0 or a positive number on success and a negative errno on failure. When there is no service, every queue runs
 * unscheduled, and every call succeeds: a caller need not care. Thread safety: all functions may be called from any
 * thread; xsched_queue_begin(), _begin_nowait(), _complete() and _unref() from signal handlers and completion
 * callbacks, too. After fork() the child's queues are unscheduled; a child that makes a new queue registers as a new
 * client.
 *
 * Order of use: xsched_queue_new(); then for each launch xsched_queue_begin(), the real submission, and, when begin()
 * said XSCHED_TRACKED, xsched_queue_complete() once the device has finished it; xsched_queue_unref() at the end.
 */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XSCHED_API_VERSION 1

typedef struct XschedQueue XschedQueue;

typedef enum XschedBegin {
        XSCHED_UNTRACKED = 0, /* nobody contends: submit, and do not report the completion */
        XSCHED_TRACKED = 1,   /* submit, then report the completion by xsched_queue_complete() */
} XschedBegin;

typedef struct XschedQueueInfo {
        uint32_t size; /* sizeof(XschedQueueInfo), set by the caller: the struct may grow */
        const char *device; /* mandatory: stable id that all processes agree on, "pci:0000:65:00.0" or "opencl:NAME:N" */
        const char *device_name; /* for people; may be NULL */
        const char *backend;     /* "opencl", "hip", ...; mandatory */
        const char *label;       /* what the queue is for; may be NULL */
        int32_t priority_hint; /* 0, or a negative number that lowers this queue under its process; positive: ignored */

        /* Called on the control thread when the service starts to watch a queue that ran unwatched: whatever is
         * outstanding now is to be tracked. The callee arranges for xsched_queue_drained() to be called once everything
         * that was submitted before this call has completed. NULL: the queue counts as busy until it is freed, or until
         * a tracked launch completes (launches of such a queue complete in order). */
        void (*drain)(XschedQueue *q, void *userdata);
        void *userdata;

        /* Called once, on any thread, when the last reference is gone and drain() will not be called again: the place
         * to free `userdata`. May come late, and at the end of the process not at all. May be NULL. */
        void (*destroy)(void *userdata);

        /* For a backend that can stop what has been submitted already. `level` says how far it does so by itself: 2,
         * what has not started; 3, running work, too; 1: only the gate, unless the service, by the word of an
         * administrator, asks for more.
         *
         * apply() stops (`held`) or lets go n queues of one device; it is called on the control thread, one batch per
         * device and change. All or nothing when it holds: on failure every queue that ran before runs again. Called
         * with `held` 0 for a queue that is not stopped, too: first when a queue gets its place in the page, and when
         * the service goes. The control thread lets go every queue whose lease runs out, whatever the service does, and
         * calls again after a failure to let go. Returns 0 or a negative errno. `userdata[i]` belongs to `queues[i]`.
         * NULL: a hold is the gate. */
        uint32_t level;
        int (*apply)(XschedQueue *const *queues, void *const *userdata, uint32_t n, int held);

        /* Backend "kfd": what the kernel calls the device (never 0) and the queue. */
        uint32_t kfd_gpu_id;
        uint32_t kfd_queue_id;

        /* Called on the control thread, once for all calls of xsched_queue_look() before it. May launch nothing that
         * waits, and may ask again. NULL: nobody looks. */
        void (*look)(XschedQueue *q, void *userdata);

        uint32_t hooked; /* XschedHooked, as far as is known at first */

        /* What the runtime calls the queue: for xsched_queue_find(); 0: it is not found. */
        uint64_t native;
} XschedQueueInfo;

/* Makes a queue and has it registered in the background; never waits for the service. Returns 0 and the queue in *ret,
 * or -EINVAL (a mandatory member is missing), -ENOMEM. One reference is the caller's. */
int xsched_queue_new(const XschedQueueInfo *info, XschedQueue **ret);
XschedQueue *xsched_queue_ref(XschedQueue *q);

/* Returns NULL; accepts NULL. What was launched and has not been said to be complete by the last one counts as running
 * on, for at most a second. */
XschedQueue *xsched_queue_unref(XschedQueue *q);

/* The gate, in front of one launch: returns at once while nobody contends (no system call, no lock), waits while the
 * queue is held. Returns an XschedBegin. The number in flight is bounded by the caller through xsched_queue_limit(). */
int xsched_queue_begin(XschedQueue *q);

/* The same, but a held gate does not stop it: for a launch made on a thread that others wait for, such as a completion
 * callback on a driver's thread. */
int xsched_queue_begin_nowait(XschedQueue *q);

/* The same for a launch that would be one too many: in between, wait(userdata) is called, which returns when there is
 * room for it, or when it gives up waiting. From the call on the queue counts as busy, so that it does not lose its
 * turn each time that its last launch completes and the next is on its way. While the queue is held then, and has
 * something in flight, it is called again from time to time, for a caller that learns of completions by looking. When
 * nothing is tracked, wait() is not called. It must not launch on this queue. */
int xsched_queue_begin_bounded(XschedQueue *q, void (*wait)(void *userdata), void *userdata);

/* n launches for which begin() returned XSCHED_TRACKED have completed. `device_ns`: device time that they took, 0 if
 * unknown. */
void xsched_queue_complete(XschedQueue *q, uint32_t n, uint64_t device_ns);

/* What was outstanding when drain() was called has completed. */
void xsched_queue_drained(XschedQueue *q);

/* How many launches may be in flight on this queue right now: 0 is unlimited. A caller that has as many in flight waits
 * for its oldest before it submits the next, best by xsched_queue_begin_bounded(). */
uint32_t xsched_queue_limit(XschedQueue *q);

/* The same for a caller that knows its launches better than by their mean: `each_ns` is what each of those in flight,
 * and the next one, takes on the device; 0: that is not known. */
uint32_t xsched_queue_limit_for(XschedQueue *q, uint64_t each_ns);

/* For the same: all that is in flight takes `ns` on the device, of which it has had the time since `since_ns`
 * (CLOCK_MONOTONIC), when the last of its launches completed, or the first was submitted. Programs mix short launches
 * and long ones, and at any moment it is mostly a long one that runs: whether those that wait had better stop it the
 * service tells by this. 0: it is not known. Called whenever it changes. Costs two stores. */
void xsched_queue_set_flying(XschedQueue *q, uint64_t ns, uint64_t since_ns);

/* How many nanoseconds before the oldest launch in flight is expected to end a caller at its limit may submit the next,
 * so that the device does not run dry meanwhile; 0: only when it has ended. A caller that cannot tell when that will be
 * ignores it. */
uint64_t xsched_queue_lead(XschedQueue *q);

/* Something is in flight whose end nobody will tell unless somebody looks: look() is called within a millisecond,
 * whether or not there is a service. For launches that are shorter than what it costs to be told of their end. Costs
 * nothing while a look is to come, so it may be called for every launch. */
void xsched_queue_look(XschedQueue *q);

/* Another queue of this process waits for this one: until it drains, it counts with the process's own priority. */
void xsched_queue_boost(XschedQueue *q);

typedef enum XschedQueueState {
        XSCHED_QUEUE_WATCHED = 1 << 0, /* the service wants to hear when the queue turns ready or idle */
        XSCHED_QUEUE_HELD = 1 << 1,    /* xsched_queue_begin() would wait */
} XschedQueueState;

/* What the service wants of the queue right now: a set of XschedQueueState. For a backend that sees launches only by
 * looking. Fit for signal handlers. */
int xsched_queue_get_state(XschedQueue *q);

/* How the launches of a queue are seen, and so whether the gate stands in front of them. Whoever calls
 * xsched_queue_begin() for each has nothing to say. */
typedef enum XschedHooked {
        XSCHED_HOOKED_CALLS = 1, /* each by a call; also meant by 0 */
        XSCHED_HOOKED_DOORBELL,  /* each by the doorbell that it rings */
        XSCHED_HOOKED_CREATE,    /* where its doorbell is is known, and nobody has rung it yet */
        XSCHED_HOOKED_POLL,      /* by looking at the queue: none passes the gate */
        XSCHED_HOOKED_NONE,      /* not at all */
} XschedHooked;

/* It has turned out to be so. Fit for signal handlers. */
void xsched_queue_set_hooked(XschedQueue *q, uint32_t hooked);

/* A hold of this queue reaches no further than `level` from now on: the backend has found out. */
void xsched_queue_lower_level(XschedQueue *q, uint32_t level);

typedef enum XschedState {
        XSCHED_STATE_OFF,        /* disabled by XSCHED_DISABLE=1, or no queue was made yet */
        XSCHED_STATE_CONNECTING, /* no service yet; tried again in the background */
        XSCHED_STATE_ATTACHED,   /* registered, verdicts are followed */
        XSCHED_STATE_DETACHED,   /* was registered, lost the service; everything runs */
} XschedState;

typedef struct XschedCounters {
        uint32_t size;     /* sizeof(XschedCounters), set by the caller */
        uint32_t state;    /* XschedState */
        uint64_t queues;   /* registered now */
        uint64_t launches; /* seen at the gate since the start */
        uint64_t tracked;  /* of these, with their completion tracked */
        uint64_t waited;   /* of these, that waited at the gate */
        uint64_t waited_ns;
        uint64_t lease_expired; /* passed a held gate because the service had gone silent */
} XschedCounters;

int xsched_get_counters(XschedCounters *ret);

/* Hints of this process, sent in the background and applied as far as the caller may: they can only lower what the
 * service decided. Names, and what their values are: "Priority" (-255..255), "Weight" (1..10000), "Threshold"
 * (0..65535 launches in flight), "Deadline" and "Laxity" (0..3600000000 microseconds; 0: none), "Critical" (-255..255:
 * the priority once the laxity is used up), "Utilization" (1..100 percent). Returns -EINVAL for an unknown name,
 * -ERANGE for a value out of range. */
int xsched_hint(const char *name, int64_t value);

#define XSCHED_HOLD_CHILDREN UINT64_C(1) /* for processes that the caller starts, too */

/* Claims a class for this process, which may raise it where the caller has the right to that: for as long as the
 * descriptor that is returned, or a copy of it, is open. It is close-on-exec. Waits for the service, on a connection of
 * its own, ten seconds at most. Returns the descriptor; -EPERM: the service refuses, or knows of no such class;
 * -EINVAL: the name is empty; another error where there is no bus. `reason` is for people, and may be NULL. */
int xsched_hold_priority(const char *class_name, const char *reason, uint64_t flags);

#ifdef __cplusplus
}
#endif
