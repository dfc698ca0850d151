/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Scheduling the queues of one's own process: who stands in front of their launches beside xschedd
 *
 * What xschedd decides holds all the same: a launch passes the local gate first, and then xschedd's. Without a service
 * the local gate works as well.
 *
 * Promises, errors and thread safety are those of xsched/xsched.h. After fork() the child's queues have no local gate.
 */

#include "xsched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All functions are called on the threads that launch, or report completions; several at a time. `size` and what may
 * be NULL aside, all are mandatory. */
typedef struct XschedLocal {
        uint32_t size; /* sizeof(XschedLocal), set by the caller: the struct may grow */

        /* In front of a launch, which is counted from now on: each is tracked while there is a local gate. May wait
         * when `wait` is not 0; returns when the launch may go on to xschedd's gate. */
        void (*begin)(void *userdata, int wait);

        /* n launches have completed. Some of them may have begun before there was a local gate. */
        void (*complete)(void *userdata, uint32_t n);

        /* Launches in flight at most, 0: unlimited. What xschedd says of it counts where it is less. */
        uint32_t (*limit)(void *userdata);

        /* Whether begin() would wait. */
        int (*held)(void *userdata);

        /* Called once, when there will be no further call: on whatever thread that shows. May be NULL. */
        void (*release)(void *userdata);

        void *userdata;
} XschedLocal;

/* Puts a local gate in front of the queue; NULL: takes it away. The struct is copied. Launches that are inside begin()
 * stay there until it returns. Returns 0; -EBUSY: there is one already; -EINVAL: something mandatory is missing;
 * -ENOMEM; -ENOENT: there was none to take away. */
int xsched_queue_set_local(XschedQueue *q, const XschedLocal *local);

/* The queue that a layer has made for what its runtime calls `native` (XschedQueueInfo.native), with a reference, or
 * NULL. For "opencl" that is a cl_command_queue, for "cuda" a CUstream. */
XschedQueue *xsched_queue_find(const char *backend, uint64_t native);

/* The name of its device, as of XschedQueueInfo.device. Valid as long as the reference. */
const char *xsched_queue_device(const XschedQueue *q);

/* As xsched_hint(), for one queue: it is scheduled on its own then. Names and values are the same. */
int xsched_queue_hint(XschedQueue *q, const char *name, int64_t value);

#ifdef __cplusplus
}
#endif
