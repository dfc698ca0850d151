/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * libxsched: the public C interface
 *
 * For authors of frameworks and runtimes that have queues of their own, and for tools that show whether the process
 * they run in is scheduled. Applications need none of it: the shims register the queues of unmodified programs.
 *
 * Promises: no function here ever aborts, exits, prints, changes errno or blocks a signal. Functions that return int
 * return 0 or a positive number on success and a negative errno on failure. Without a service every queue runs
 * unscheduled and every call succeeds, so callers need no special case. Thread safety: all functions may be called from
 * any thread; xsched_queue_begin(), _begin_nowait(), _complete() and _unref() also from signal handlers and completion
 * callbacks. After fork() the child's queues are unscheduled; a child that makes a new queue registers as a new client.
 *
 * Order of use: xsched_queue_new(); then for each launch xsched_queue_begin(), the real submission, and, when begin()
 * returned XSCHED_TRACKED, xsched_queue_complete() once the device has finished the launch; xsched_queue_unref() at the
 * end.
 */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XSCHED_API_VERSION 1

typedef struct XschedQueue XschedQueue;

typedef enum XschedBegin {
        XSCHED_UNTRACKED = 0, /* submit, and do not report the completion */
        XSCHED_TRACKED = 1,   /* submit, then report the completion by xsched_queue_complete() */
} XschedBegin;

typedef struct XschedQueueInfo {
        uint32_t size;           /* sizeof(XschedQueueInfo), set by the caller: the struct may grow */
        const char *device;      /* mandatory; the same in all processes: "pci:0000:65:00.0" or "opencl:NAME:N" */
        const char *device_name; /* for people; may be NULL */
        const char *backend;     /* "opencl", "hip", ...; mandatory */
        const char *label;       /* what the queue is for; may be NULL */
        int32_t priority_hint; /* 0, or a negative number that lowers this queue under its process; positive: ignored */

        /* Called on the control thread when the service starts to watch a queue that ran unwatched: the launches
         * outstanding at that moment were not tracked. The callee arranges for xsched_queue_drained() to be called once
         * everything submitted before this call has completed. NULL: the queue counts as busy until it is freed, or
         * until a tracked launch completes (launches of such a queue complete in order). */
        void (*drain)(XschedQueue *q, void *userdata);
        void *userdata;

        /* Called once, on any thread, after the last reference is gone and after the last call of drain(): the place to
         * free `userdata`. The call may come late, or not at all when the process ends. May be NULL. */
        void (*destroy)(void *userdata);

        /* For a backend that can stop launches that were submitted already. `level` says how much a hold stops by
         * default: 1: nothing, only the gate closes, unless an administrator lets the service order more; 2: launches
         * that have not started; 3: running launches, too.
         *
         * apply() stops (`held` 1) or resumes (`held` 0) n queues of one device. libxsched calls it on the control
         * thread, one batch per device and change. A stop is all or nothing: when it fails, every queue that ran before
         * must run again. Calls with `held` 0 also come for queues that are not stopped: when a queue gets its slot in
         * the page, and when the service goes. The control thread resumes every queue whose lease runs out, whatever
         * the service does, and calls again after a failed resume. Returns 0 or a negative errno. `userdata[i]` belongs
         * to `queues[i]`. NULL: a hold only closes the gate. */
        uint32_t level;
        int (*apply)(XschedQueue *const *queues, void *const *userdata, uint32_t n, int held);

        /* Backend "kfd": the kernel's ids of the device (never 0) and of the queue. */
        uint32_t kfd_gpu_id;
        uint32_t kfd_queue_id;

        /* Called on the control thread, once for all calls of xsched_queue_look() before it. Must not make a launch
         * that may wait; may call xsched_queue_look() again. NULL: xsched_queue_look() does nothing. */
        void (*look)(XschedQueue *q, void *userdata);

        uint32_t hooked; /* XschedHooked, as far as it is known at first */

        /* The runtime's handle of the queue, for xsched_queue_find(); 0: the queue cannot be found. */
        uint64_t native;
} XschedQueueInfo;

/* Makes a queue and registers it in the background; never waits for the service. `info` and its strings are copied.
 * Returns 0 and a reference in *ret, which the caller gives back by xsched_queue_unref(); -EINVAL: a mandatory member
 * is missing; -ENOMEM. */
int xsched_queue_new(const XschedQueueInfo *info, XschedQueue **ret);
XschedQueue *xsched_queue_ref(XschedQueue *q);

/* Drops a reference. Accepts NULL, returns NULL. Launches that are not reported complete when the last reference goes
 * count as running for at most one more second. */
XschedQueue *xsched_queue_unref(XschedQueue *q);

/* Passes the gate before one launch. Waits while the queue is held, and otherwise returns at once. While no other
 * program contends this takes no system call and no lock, except while the service counts the launches of the process
 * (Accounting= in xsched.conf(5)). Returns an XschedBegin. The caller bounds the launches in flight by
 * xsched_queue_limit(). */
int xsched_queue_begin(XschedQueue *q);

/* As xsched_queue_begin(), but does not wait at a held gate: for launches on a thread that other threads wait for, for
 * example in a completion callback on a driver's thread. */
int xsched_queue_begin_nowait(XschedQueue *q);

/* As xsched_queue_begin(), for a caller that keeps to xsched_queue_limit(): wait(userdata) is called first, and returns
 * when there is room for the launch, or to give up waiting for room. The queue counts as busy from the start of this
 * call, so that it does not lose its turn between its last completion and this launch. While the queue is held and has
 * launches in flight, wait() is called repeatedly, for callers that find completions by polling. wait() is not called
 * when the launch is not tracked. wait() must not launch on this queue. */
int xsched_queue_begin_bounded(XschedQueue *q, void (*wait)(void *userdata), void *userdata);

/* Counts n launches that were made without xsched_queue_begin(), as n calls of xsched_queue_begin_nowait() do, but in
 * one. For short launches behind a tracked one, which are counted together because to count each takes a part of its
 * own time. The caller has looked at xsched_queue_get_state() before each, and made none while the queue was held; and
 * it does not report the last tracked launch before these complete. Returns an XschedBegin, for all of them. */
int xsched_queue_join(XschedQueue *q, uint32_t n);

/* Reports that n launches for which begin() returned XSCHED_TRACKED have completed. `device_ns`: the device time of all
 * of them together; 0: unknown. */
void xsched_queue_complete(XschedQueue *q, uint32_t n, uint64_t device_ns);

/* Reports that everything which was outstanding when drain() was called has completed. */
void xsched_queue_drained(XschedQueue *q);

/* Returns how many launches may be in flight on this queue now; 0: unlimited. A caller at the limit waits for its
 * oldest launch before it submits the next, best by xsched_queue_begin_bounded(). */
uint32_t xsched_queue_limit(XschedQueue *q);

/* As xsched_queue_limit(), for a caller that knows how long its launches take. `each_ns`: device time of each launch in
 * flight and of the next one; 0: unknown, only the number of launches is limited. */
uint32_t xsched_queue_limit_for(XschedQueue *q, uint64_t each_ns);

/* Tells the service how much work is in flight: `ns` of device time in total, of which the device has worked since
 * `since_ns` (CLOCK_MONOTONIC: the last completion, or the first submission). `ns` 0: unknown. The service decides by
 * this whether stopping the queue pays: in a program that mixes short and long launches mostly a long one runs, and the
 * mean does not show that. Call it on every change. Costs two stores. */
void xsched_queue_set_flying(XschedQueue *q, uint64_t ns, uint64_t since_ns);

/* Tells the service that the device began the launches in flight at `since_ns` (CLOCK_MONOTONIC) and not when they were
 * submitted, because it had to switch from another program first. Call it before xsched_queue_complete() for the first
 * of these launches. The time before `since_ns` counts as used by no program. Costs two stores. */
void xsched_queue_started(XschedQueue *q, uint64_t since_ns);

/* Returns how many nanoseconds before the expected end of its oldest launch a caller at its limit may submit the next
 * one, so that the device does not run dry; 0: only after that end. Callers that cannot predict the end ignore this. */
uint64_t xsched_queue_lead(XschedQueue *q);

/* Asks for a call of look() within a millisecond, with or without a service, because a launch is in flight whose
 * completion is only found by polling. For launches that are shorter than a completion notice costs. Costs nothing
 * while a look is already due, so it may be called for every launch. */
void xsched_queue_look(XschedQueue *q);

/* As xsched_queue_look(), for a completion that is expected in `ns` nanoseconds: look() is then called at that time, if
 * that is earlier. Wakes the control thread, so not for every launch; inside of look() it costs nothing. */
void xsched_queue_look_in(XschedQueue *q, uint64_t ns);

/* Raises this queue to the process's own priority until it drains, because another queue of this process waits for
 * it. */
void xsched_queue_boost(XschedQueue *q);

typedef enum XschedQueueState {
        XSCHED_QUEUE_WATCHED = 1 << 0, /* the service wants edges when the queue turns ready or idle */
        XSCHED_QUEUE_HELD = 1 << 1,    /* xsched_queue_begin() would wait */
} XschedQueueState;

/* Returns the queue's state by the service: a set of XschedQueueState. For a backend that finds launches by polling.
 * May be called from signal handlers. */
int xsched_queue_get_state(XschedQueue *q);

/* How libxsched sees the launches of a queue, and so whether its gate can stop them. A caller that calls
 * xsched_queue_begin() for each launch leaves this 0. */
typedef enum XschedHooked {
        XSCHED_HOOKED_CALLS = 1, /* each launch by a call; 0 means the same */
        XSCHED_HOOKED_DOORBELL,  /* each launch by the doorbell that it rings */
        XSCHED_HOOKED_CREATE,    /* its doorbell is known and has not been rung yet */
        XSCHED_HOOKED_POLL,      /* by polling the queue: launches do not pass the gate */
        XSCHED_HOOKED_NONE,      /* not at all */
} XschedHooked;

/* Changes how the launches of the queue are seen (XschedHooked). May be called from signal handlers. */
void xsched_queue_set_hooked(XschedQueue *q, uint32_t hooked);

/* Lowers the level of XschedQueueInfo for good: the backend has found that its holds reach no further. */
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
        uint64_t launches; /* that passed the gate since the start */
        uint64_t tracked;  /* of these, those whose completion is tracked */
        uint64_t waited;   /* of these, those that waited at the gate */
        uint64_t waited_ns;
        uint64_t lease_expired; /* passed a held gate because the service had gone silent */
} XschedCounters;

int xsched_get_counters(XschedCounters *ret);

/* Sets a hint of this process, which is sent in the background. Hints can only lower what the service decided. Names
 * and values: "Priority" (-255..255), "Weight" (1..10000), "Threshold" (0..65535 launches in flight), "Deadline" and
 * "Laxity" (0..3600000000 microseconds; 0: none), "Critical" (-255..255: the priority once the laxity is used up),
 * "Utilization" (1..100 percent).
 *
 * "WillLaunch" (0..2000000 microseconds from now) says when the process launches next, so that clients below it in
 * precedence can be held a little before, as by forecasts for regular clients. The hint is sent at once, counts once,
 * and costs others no more than forecasts may. Returns 0; -EINVAL: unknown name; -ERANGE: value out of range. */
int xsched_hint(const char *name, int64_t value);

#define XSCHED_HOLD_CHILDREN UINT64_C(1) /* includes processes that the caller starts */

/* Claims a class for this process until the returned descriptor and all copies of it are closed. A claim may raise the
 * process if the caller has that right. Waits for the service for at most ten seconds, on a connection of its own.
 * Returns a close-on-exec descriptor, which the caller closes; -EPERM: the service refuses, or knows no such class;
 * -EINVAL: the name is empty, the reason is longer than 256 bytes, or a flag is unknown; -EHOSTUNREACH: there is no
 * service; another negative errno when there is no bus. `reason`: a text for people; may be NULL. */
int xsched_hold_priority(const char *class_name, const char *reason, uint64_t flags);

#ifdef __cplusplus
}
#endif
