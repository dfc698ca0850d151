/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Worker: launches submitted commands
 *
 * A thread of the XQueue launches them in their order, each when the local gate and xschedd's let it pass, and waits
 * for what it has launched: in batches while there is more to come, or the queue is held. It is started by the first
 * command, and ends with the XQueue.
 *
 * All functions need the lock. Those that wait release it meanwhile.
 */

#include "shim/compat/compat.h"

/* Returns 0, or why there is no thread. */
int worker_submit(XQueue *x, Command *c);

/* Waits until all commands that were submitted before are gone. */
void worker_wait_all(XQueue *x);
/* Waits until this command is gone. */
void worker_wait(XQueue *x, HwCommandHandle handle);

/* Returns the result of a command that is gone, if it is still remembered; else success. */
XResult worker_result(const XQueue *x, HwCommandHandle handle);

/* Drops commands that were not launched yet. */
void worker_drop(XQueue *x);

/* No more commands will come: waits until all are gone, and the thread has ended. */
void worker_end(XQueue *x);
