/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * XQueues: command queues that can be suspended, and that a scheduler schedules
 *
 * A queue is one of two kinds, and may be both. What the program launches by its runtime's own functions passes a gate
 * before it comes to the runtime, if xsched's layer for that runtime is loaded: nothing is ever buffered, and the calls
 * mean what they mean without us. A command that is submitted by XQueueSubmit() is buffered until a thread of this
 * library launches it.
 *
 * Thread safety: all functions may be called from any thread. None of them ends the process, prints or changes errno.
 * After fork() the child has no XQueues; it may make some of its own. kXSchedErrorNotFound: there is no such handle.
 */

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `level`: kPreemptLevelBlock, or a higher one, which counts as far as what is behind the queue reaches. Waits until
 * the queue has completed what was launched on it before. A queue that has an XQueue already: that one.
 * kXSchedErrorNotAllowed: there are 4096 XQueues. */
XResult XQueueCreate(XQueueHandle *xq, HwQueueHandle hwq, int64_t level, int64_t flags);

/* Resumes it, and waits for the commands that were submitted. kXSchedErrorNotAllowed: called by a command of this
 * queue. */
XResult XQueueDestroy(XQueueHandle xq);

XResult XQueueGet(XQueueHandle *xq, HwQueueHandle hwq);

/* kXSchedErrorNotSupported: another level than it has. */
XResult XQueueSetPreemptLevel(XQueueHandle xq, XPreemptLevel level);

/* At most `threshold` commands are in flight; of those that are submitted, so many as `batch_size` are waited for at a
 * time. Values below 1 change nothing. kXSchedErrorInvalidValue: more in a batch than may be in flight. */
XResult XQueueSetLaunchConfig(XQueueHandle xq, int64_t threshold, int64_t batch_size);

/* The command is launched when it is its turn. The handle is not to be destroyed: it goes when the command has
 * completed. kXSchedErrorNotAllowed: it was submitted before. */
XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle hw_cmd);

/* Waits until the command has completed, which it may have before. While a command of another queue waits in here, this
 * queue is scheduled as the other where that is better. Returns what the callback returned. kXSchedErrorNotAllowed:
 * called by a command of this queue, or the command was not submitted to it. */
XResult XQueueWait(XQueueHandle xq, HwCommandHandle hw_cmd);

/* The same for all that was submitted, or launched, before. Returns the first error of a callback since the last
 * call. */
XResult XQueueWaitAll(XQueueHandle xq);

XResult XQueueQuery(XQueueHandle xq, XQueueState *state);

/* What comes next is not launched: submitted commands stay where they are, and who launches by the runtime's functions
 * waits in them. It does not count: one XQueueResume() ends it. */
XResult XQueueSuspend(XQueueHandle xq, int64_t flags);
XResult XQueueResume(XQueueHandle xq, int64_t flags);

/* Commands that were submitted, and launches that passed the gate, since XQueueCreate(). */
XResult XQueueProfileHwCommandCount(XQueueHandle xq, int64_t *count);

/* kXSchedErrorNotAllowed: its XQueue is to be destroyed first. */
XResult HwQueueDestroy(HwQueueHandle hwq);

/* Calls the callback at once, past the XQueue, and returns what it returns. The handle is gone then. */
XResult HwQueueLaunch(HwQueueHandle hwq, HwCommandHandle hw_cmd);

/* Waits for all that was launched on the queue. */
XResult HwQueueSynchronize(HwQueueHandle hwq);

/* `data` has to be there until the callback has returned. */
XResult HwCommandCreateCallback(HwCommandHandle *hw_cmd, LaunchCallback launch, void *data);

/* For a command that was not submitted. kXSchedErrorNotAllowed: it was, and has not completed. */
XResult HwCommandDestroy(HwCommandHandle hw_cmd);

#ifdef __cplusplus
}
#endif
