/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Commands that were submitted
 *
 * A thread of the XQueue launches them in their order, each when the local gate and xschedd's let it pass, and waits
 * for what it has launched: in batches while there is more to come, or the queue is held. It is started by the first
 * command, and ends with the XQueue.
 *
 * All with the lock, which those that wait give back meanwhile.
 */

#include "shim/compat/compat.h"

/* Returns 0, or why there is no thread. */
int worker_submit(XQueue *x, Command *c);

/* Until all that was submitted before has gone. */
void worker_wait_all(XQueue *x);
/* Until this one has. */
void worker_wait(XQueue *x, HwCommandHandle handle);

/* What a command that has gone returned, as long as it is remembered. */
XResult worker_result(const XQueue *x, HwCommandHandle handle);

/* What was submitted and not launched goes. */
void worker_drop(XQueue *x);

/* No more is to come: until all has gone, and the thread with it. */
void worker_end(XQueue *x);
