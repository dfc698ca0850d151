/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Calls into the runtime that the application did not ask for: by the control thread (a drain), and by callbacks of the
 * runtime (a sentinel)
 *
 * The application may call the runtime too late at its own risk. But our threads must not call a runtime that is being
 * unloaded: after opencl_own_stop() none does.
 */

#include <stdbool.h>

/* Returns false when the runtime must not be called any more. Pairs nest; call opencl_own_end() only after true. */
bool opencl_own_begin(void);
void opencl_own_end(void);

/* Whether this thread is in such a call. */
bool opencl_own_is_here(void);

/* Waits until other threads are out of such calls, for a limited time: a call that never returns must not keep a
 * process from ending. */
void opencl_own_stop(void);
void opencl_own_restart(void);

/* In the child after fork: only the calling thread is left. */
void opencl_own_fork_child(void);
