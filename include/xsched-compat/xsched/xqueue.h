/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * XQueues: command queues that can be suspended, and that a scheduler schedules
 *
 * An XQueue schedules work of two kinds. Launches by the runtime's own functions pass a gate before they reach the
 * runtime, if xsched's layer for that runtime is loaded: they are never buffered, and the calls keep their meaning. A
 * command that is submitted by XQueueSubmit() is buffered until a thread of this library launches it.
 *
 * Thread safety: all functions may be called from any thread. None of them ends the process, prints or changes errno.
 * After fork() the child has no XQueues; it may make some of its own. kXSchedErrorNotFound: there is no such handle.
 */

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `level`: kPreemptLevelBlock, or a higher one, which counts as far as the queue's backend supports it. Waits until the
 * queue has completed earlier launches, and until an XQueueDestroy() of its XQueue in another thread has ended. For a
 * queue that has an XQueue already, returns that one. kXSchedErrorNotAllowed: there are 4096 XQueues, or it is called
 * by a command of the XQueue that is being destroyed. */
XResult XQueueCreate(XQueueHandle *xq, HwQueueHandle hwq, int64_t level, int64_t flags);

/* Resumes the XQueue, waits for its submitted commands, and destroys it. kXSchedErrorNotAllowed: called by a command of
 * this queue. */
XResult XQueueDestroy(XQueueHandle xq);

XResult XQueueGet(XQueueHandle *xq, HwQueueHandle hwq);

/* kXSchedErrorNotSupported: another level than the XQueue has. */
XResult XQueueSetPreemptLevel(XQueueHandle xq, XPreemptLevel level);

/* At most `threshold` commands are in flight; the library waits for submitted commands `batch_size` at a time. Values
 * below 1 change nothing. kXSchedErrorInvalidValue: more in a batch than may be in flight. */
XResult XQueueSetLaunchConfig(XQueueHandle xq, int64_t threshold, int64_t batch_size);

/* Submits the command, which is launched when its turn comes. The caller must not destroy the handle: it ends when the
 * command has completed. kXSchedErrorNotAllowed: the command was submitted before. */
XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle hw_cmd);

/* Waits until the command has completed; returns at once if it has. While a command of another queue waits here, this
 * queue is scheduled like the other one where that is better. Returns what the callback returned.
 * kXSchedErrorNotAllowed: called by a command of this queue, or the command was not submitted to it. */
XResult XQueueWait(XQueueHandle xq, HwCommandHandle hw_cmd);

/* Waits for all commands that were submitted or launched before. Returns the first error of a callback since the last
 * call. */
XResult XQueueWaitAll(XQueueHandle xq);

XResult XQueueQuery(XQueueHandle xq, XQueueState *state);

/* Suspends the XQueue: submitted commands stay buffered, and launches by the runtime's functions wait. Suspends are not
 * counted: one XQueueResume() ends them. */
XResult XQueueSuspend(XQueueHandle xq, int64_t flags);
XResult XQueueResume(XQueueHandle xq, int64_t flags);

/* Returns the number of submitted commands and of launches that passed the gate since XQueueCreate(). */
XResult XQueueProfileHwCommandCount(XQueueHandle xq, int64_t *count);

/* kXSchedErrorNotAllowed: its XQueue has to be destroyed first. */
XResult HwQueueDestroy(HwQueueHandle hwq);

/* Calls the callback at once, without the XQueue, and returns its result. The handle ends. */
XResult HwQueueLaunch(HwQueueHandle hwq, HwCommandHandle hw_cmd);

/* Waits for all launches on the queue. */
XResult HwQueueSynchronize(HwQueueHandle hwq);

/* `data` must exist until the callback has returned. */
XResult HwCommandCreateCallback(HwCommandHandle *hw_cmd, LaunchCallback launch, void *data);

/* Destroys a command that was not submitted. kXSchedErrorNotAllowed: it was submitted, and has not completed. */
XResult HwCommandDestroy(HwCommandHandle hw_cmd);

#ifdef __cplusplus
}
#endif
