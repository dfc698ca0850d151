/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The life of the process: a fork makes a new process without a client, and the first queue starts the control thread
 *
 * Thread safety: any threads may call these at once.
 */

/* Called before and after a queue is made: the first notices a fork that ran no handlers, the second starts the control
 * thread. Where that fails, the next queue tries again, and so do launches, less and less often: gate-private.h. */
void process_before_queue(void);
void process_after_queue(void);
