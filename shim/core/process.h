/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The life of the process: a fork makes a new one without a client, and the first queue starts the control thread
 *
 * Thread safety: both functions may be called by any threads at once.
 */

/* Around the making of a queue: notices a fork that ran no handlers; starts the control thread. */
void process_before_queue(void);
void process_after_queue(void);
