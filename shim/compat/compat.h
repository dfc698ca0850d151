/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * libxsched-compat: XSched's programming interface on top of libxsched
 *
 *   compat.c      what there is: handles of queues and commands, the one lock, forks
 *   side.c        the local gate of an XQueue (xsched/local.h), as a slot of a page that only this process has
 *   worker.c      commands that were submitted: buffered, launched by a thread of their XQueue, waited for
 *   scheduler.c   which of this process's XQueues runs: the schedulers APP, LCL and GLB
 *   hint.c        hints, and what a policy is told of an XQueue
 *   environment.c what XSched's variables say
 *   xqueue.c      the public calls on XQueues; command.c, those on commands and hardware queues
 *   runtime.c     what those have in common
 *   opencl.c ...  the runtimes behind them, of which nothing is linked: what the program has loaded is used
 *
 * One lock, compat_lock(), guards everything here except the words of side.h. No runtime, and no callback, is ever
 * called under it, and no thread waits for a device under it.
 *
 * Memory: objects have references, which are counted under the lock. A handle is a number that is never used twice.
 */

#include <pthread.h>

#include "common/macro.h"
#include "include/xsched-compat/xsched/xsched.h"
#include "include/xsched/local.h"
#include "policy/policy.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define COMPAT_NAME_MAX 256U

typedef struct Command Command;
typedef struct HwQueue HwQueue;
typedef struct LocalDevice LocalDevice;
typedef struct Side Side;
typedef struct XQueue XQueue;

/* A runtime. What returns int returns 0 or a negative errno. */
typedef struct Platform {
        const char *backend; /* as layers call themselves */

        /* Opens a queue. Writes the id that all processes use for its device, and the device's name for people, of
         * COMPAT_NAME_MAX bytes each. Keeps a reference to the runtime's queue. */
        int (*open)(HwQueue *h, char *ret_device, char *ret_name);
        void (*close)(HwQueue *h); /* may be NULL */

        /* Has a layer make its own queue now that it would otherwise make with the first launch. May be NULL. */
        void (*announce)(const HwQueue *h);

        /* Called on a thread that launches on the queue from now on. May be NULL. */
        void (*attach)(const HwQueue *h);
        int (*finish)(const HwQueue *h);

        /* mark() records where the queue is now, and wait() waits until the queue has come so far. All three are NULL
         * if the runtime cannot do this. */
        void *(*mark)(const HwQueue *h); /* NULL: it has failed */
        void (*wait)(void *mark);        /* and frees it */
} Platform;

struct HwQueue {
        uint64_t handle; /* the runtime's */
        const Platform *platform;
        unsigned refs;
        void *context; /* the platform's */
        XQueue *xq;
        const XQueue *leaving; /* XQueueDestroy() is under way */
        pthread_cond_t left;   /* ... and has ended */
        char device[COMPAT_NAME_MAX], name[COMPAT_NAME_MAX];
        UT_hash_handle hh;
};

struct Command {
        uint64_t handle;
        LaunchCallback launch;
        void *data;

        XQueue *xq;   /* submitted to; NULL: not yet */
        uint64_t seq; /* its number among the commands of `xq` */
        XResult result;
        void *mark;   /* recorded behind the command */
        bool tracked; /* by the service's gate */
        Command *next;
        UT_hash_handle hh;
};

typedef struct CommandList {
        Command *first, *last;
        size_t n;
} CommandList;

typedef struct Hints {
        int priority, lax_priority, critical;
        uint32_t utilization;
        int64_t laxity_us, deadline_us; /* negative: none */
} Hints;

#define UNSUBMITTED_MAX 64U /* commands that are remembered because no XQueue had them */
#define FAILURES_MAX    64U /* results that are remembered of commands that failed */

struct XQueue {
        uint64_t handle;
        unsigned refs;
        HwQueue *hwq;
        int64_t level, threshold, batch_size;
        bool bounded; /* XQueueSetLaunchConfig() */

        XschedQueue *queue; /* NULL: the service knows no queue for it */
        bool is_layers;     /* the queue is a layer's, which counts what is launched */
        Side *side;

        /* scheduler.c */
        Hints hints;
        unsigned told;  /* hint.c: what xschedd has of them */
        bool suspended; /* by XQueueSuspend() */
        bool granted;   /* by the policy */
        uint32_t grant_threshold;
        LocalDevice *device;
        PolicyEntity *entity;
        bool told_ready;
        bool changed; /* it is in the list of XQueues whose grant changed */
        XQueue *next_changed;
        XQueue *waits_for; /* one of its commands waits in XQueueWait() */
        XQueue *next_waiting;

        /* worker.c */
        CommandList pending, flying;
        Command *launching;
        uint64_t n_submitted;
        XResult first_error;
        struct {
                uint64_t handle;
                XResult result;
        } failures[FAILURES_MAX];
        size_t n_failures;
        bool has_worker, ending;
        pthread_cond_t work, done;

        UT_hash_handle hh;
};

/* --- compat.c --- */

void compat_lock(void);
void compat_unlock(void);
/* Waits for the condition; the lock is released meanwhile. */
void compat_sleep(pthread_cond_t *cond);

static inline void compat_unlockp(int *unused) {
        compat_unlock();
}

/* Holds the lock for the rest of the block. */
#define COMPAT_LOCKED                                                                                                  \
        _cleanup_(compat_unlockp)                                                                                      \
        _unused_ int XS_CONCAT(_locked, __LINE__) = (compat_lock(), 0)

/* The caller has the lock. What is found exists for as long as the lock is held. */
HwQueue *compat_find_hwq(HwQueueHandle handle);
XQueue *compat_find(XQueueHandle handle);
XQueue *compat_all(void); /* by hh.next */
Command *compat_find_command(HwCommandHandle handle);
bool compat_was_command(HwCommandHandle handle); /* an XQueue had such a command */

/* A command is gone that no XQueue had. */
void compat_note_unsubmitted(HwCommandHandle handle);

int compat_add_hwq(HwQueue *h);
void compat_remove_hwq(HwQueue *h);
int compat_add(XQueue *x); /* gives it its handle */
void compat_remove(XQueue *x);
int compat_add_command(Command *c);
void compat_remove_command(Command *c);

/* Called without the lock. Frees the object with its last reference. */
void compat_unref_hwq(HwQueue *h);
void compat_unref(XQueue *x);
/* The XQueue was never published. */
void compat_free(XQueue *x);
static inline void compat_unrefp(XQueue **x) {
        if (*x)
                compat_unref(*x);
}
static inline void compat_unref_hwqp(HwQueue **h) {
        if (*h)
                compat_unref_hwq(*h);
}

/* Find as the functions above do, but without the lock. The caller gets a reference. */
XQueue *compat_get(XQueueHandle handle);
HwQueue *compat_get_hwq(HwQueueHandle handle);

/* --- the begin of a public call --- */

#define CALL_NEEDS(condition, otherwise)                                                                               \
        do                                                                                                             \
                if (!(condition))                                                                                      \
                        return otherwise;                                                                              \
        while (false)

/* Begin a public call: errno is kept, and the call returns kXSchedErrorNotFound when there is no such XQueue. `x` is
 * the XQueue until the end of the block: under the lock, or by a reference. */
#define CALL_LOCKED(x, xq)                                                                                             \
        PROTECT_ERRNO;                                                                                                 \
        COMPAT_LOCKED;                                                                                                 \
        XQueue *x = compat_find(xq);                                                                                   \
        CALL_NEEDS(x, kXSchedErrorNotFound)

#define CALL(x, xq)                                                                                                    \
        PROTECT_ERRNO;                                                                                                 \
        _cleanup_(compat_unrefp)                                                                                       \
        XQueue *x = compat_get(xq);                                                                                    \
        CALL_NEEDS(x, kXSchedErrorNotFound)

/* The same for a call that waits for the XQueue's commands. A command of this XQueue cannot make the call. */
#define CALL_WAITING(x, xq)                                                                                            \
        CALL(x, xq);                                                                                                   \
        CALL_NEEDS(x != compat_launching, kXSchedErrorNotAllowed)

/* The same for the queue of a runtime, by a reference. */
#define CALL_HWQ(h, hwq)                                                                                               \
        PROTECT_ERRNO;                                                                                                 \
        _cleanup_(compat_unref_hwqp)                                                                                   \
        HwQueue *h = compat_get_hwq(hwq);                                                                              \
        CALL_NEEDS(h, kXSchedErrorNotFound)

/* Makes the object for a runtime's queue, and its handle: the common part of all ...QueueCreate(). */
XResult compat_make_hwq(const Platform *p, const void *native, HwQueueHandle *ret);

XResult compat_error(int r);

/* The XQueue of the command that this thread is launching, or NULL. */
extern _hidden_ _Thread_local XQueue *compat_launching;
