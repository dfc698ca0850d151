/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which of this process's XQueues run
 *
 * Under the local scheduler (LCL) each device has a policy of policy/, whose entities are the XQueues on it. A thread
 * of the device sleeps until there is an edge, or until the policy wants to be asked. Under the other two schedulers
 * (APP, GLB) all XQueues run that are not suspended; under GLB hints go to xschedd. Below all three, xschedd decides as
 * always.
 *
 * All functions need the lock, but for scheduler_forget().
 */

#include "shim/compat/compat.h"

XSchedulerType scheduler_type(void);

/* Returns 0, or -EOPNOTSUPP for a policy that is not there; -EINVAL; or why there is no scheduler. */
int scheduler_set(XSchedulerType type, XPolicyType policy);
void scheduler_set_timeslice(uint64_t ns); /* NSEC_INFINITY: none */
void scheduler_set_k(uint32_t k);

/* An XQueue comes, and goes. Returns 0 or a negative errno: it runs unscheduled then. */
int scheduler_add(XQueue *x);
void scheduler_remove(XQueue *x);

/* Its hints, whether it is suspended, its threshold, or what waits for it is another. */
void scheduler_changed(XQueue *x);

/* The command that this thread is launching waits for another XQueue from here on; does not any more. */
void scheduler_wait_begin(XQueue *waits, XQueue *on);
void scheduler_wait_end(XQueue *waits);

/* In a child after fork. */
void scheduler_forget(void);

/* --- hint.c --- */
