/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Scheduler: decides which of this process's XQueues run
 *
 * Under the local scheduler (LCL) each device has a policy of policy/, whose entities are the XQueues on it. A thread
 * of the device sleeps until there is an edge, or until the policy wants to be asked. Under the other two schedulers
 * (APP, GLB) all XQueues run that are not suspended; under GLB hints go to xschedd. Below all three, xschedd decides as
 * always.
 *
 * All functions except scheduler_forget() need the lock.
 */

#include "shim/compat/compat.h"

XSchedulerType scheduler_type(void);

/* Returns 0; -EOPNOTSUPP: there is no such policy; -EINVAL; or the error of starting the scheduler. */
int scheduler_set(XSchedulerType type, XPolicyType policy);
void scheduler_set_timeslice(uint64_t ns); /* NSEC_INFINITY: none */
void scheduler_set_k(uint32_t k);

/* Add an XQueue, and remove it. scheduler_add() returns 0 or a negative errno: the XQueue then runs unscheduled. */
int scheduler_add(XQueue *x);
void scheduler_remove(XQueue *x);

/* Called after the XQueue's hints, its suspension, its threshold or its waiters changed. */
void scheduler_changed(XQueue *x);

/* Called when an XQueue's command begins to wait for another XQueue, and when the wait has ended. */
void scheduler_wait_begin(XQueue *waits, XQueue *on);
void scheduler_wait_end(XQueue *waits);

/* In a child after fork. */
void scheduler_forget(void);

/* --- hint.c --- */
