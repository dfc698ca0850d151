/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Calls into the runtime on our own account: by the control thread (a drain), and by callbacks of the runtime (a
 * sentinel)
 *
 * What the application calls is its own business, also when it does so too late. But no thread of ours may call a
 * runtime that is being taken down: after opencl_own_stop() none does.
 */

#include <stdbool.h>

/* False: there is nothing to call any more. Pairs nest; those that returned true are ended. */
bool opencl_own_begin(void);
void opencl_own_end(void);

/* Waits for those of other threads that are at it; not for ever: what does not come back from the runtime must not
 * keep a process from ending. */
void opencl_own_stop(void);
void opencl_own_restart(void);

/* In the child only the calling thread is left. */
void opencl_own_fork_child(void);
