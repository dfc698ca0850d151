/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Finds from the queues' indices when they become ready and idle
 */

#include "kfd-queue.h"

/* Kick and drain: under the lock. */
void kfd_poll_start(void);
void kfd_poll_drain(KfdQueue *q);
void kfd_poll_kick(void);
void kfd_poll_launched(void); /* `pending` went up; also from signal handlers */
void kfd_poll_after_fork(void);

/* Notes whether the driver has reset the queue: nothing of it runs then, so nothing goes past the gate. Under the lock.
 */
void kfd_poll_set_lost(KfdQueue *q, bool lost);

/* Nothing of the queue is under way any more, whatever its indices say. Under the lock. */
void kfd_poll_end_launches(KfdQueue *q);
