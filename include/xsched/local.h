/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A local gate: code of this process that decides when its own queues launch, in addition to xschedd
 *
 * A launch passes the local gate first and then xschedd's gate, so decisions of xschedd hold all the same. The local
 * gate also works when there is no service.
 *
 * Promises, errors and thread safety are those of xsched/xsched.h. After fork() the child's queues have no local gate.
 */

#include "xsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* libxsched calls these functions on the application's threads that launch or report completions, and on several of
 * them at a time. All members are mandatory except `userdata` and those that say otherwise. */
typedef struct XschedLocal {
        uint32_t size; /* sizeof(XschedLocal), set by the caller: the struct may grow */

        /* Called before each launch. The launch counts as begun, and it is tracked as long as there is a local gate.
         * May block when `wait` is not 0. When it returns, the launch goes on to xschedd's gate. */
        void (*begin)(void *userdata, int wait);

        /* n launches have completed. Some of them may have begun before this local gate was set. */
        void (*complete)(void *userdata, uint32_t n);

        /* Returns the maximum number of launches in flight; 0: unlimited. The lower of this and xschedd's limit
         * applies. */
        uint32_t (*limit)(void *userdata);

        /* Returns non-zero when begin() would wait now. */
        int (*held)(void *userdata);

        /* Called once, after the last call of the other functions, on any thread. The place to free `userdata`. May be
         * NULL. */
        void (*release)(void *userdata);

        void *userdata;
} XschedLocal;

/* Sets the local gate of the queue; NULL removes it. The struct is copied. Launches that are inside begin() stay there
 * until it returns. Returns 0; -EBUSY: the queue has a local gate already; -EINVAL: `size` is too small or a mandatory
 * member is missing; -ENOMEM; -ENOENT: there was no local gate to remove. */
int xsched_queue_set_local(XschedQueue *q, const XschedLocal *local);

/* Finds the queue that a layer made for a runtime's object `native` (XschedQueueInfo.native): a cl_command_queue for
 * "opencl", a CUstream for "cuda". Returns a reference, which the caller gives back by xsched_queue_unref(), or
 * NULL. */
XschedQueue *xsched_queue_find(const char *backend, uint64_t native);

/* A layer makes the queue of an object when it sees the object made, or at its first launch. One that does the latter
 * exports a function of this type, which makes the queue now: "xsched_cuda_make_queue". `native` has to exist. */
typedef void (*XschedMakeQueue)(uint64_t native);

/* The id of the queue's device, as in XschedQueueInfo.device. Valid as long as the caller's reference to the queue. */
const char *xsched_queue_device(const XschedQueue *q);

/* As xsched_hint(), with the same names, values and errors, for one queue: xschedd then schedules that queue on its
 * own. */
int xsched_queue_hint(XschedQueue *q, const char *name, int64_t value);

#ifdef __cplusplus
}
#endif
