/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Hints: what policies go by
 *
 * A hint stays with its queue whatever scheduler and policy there are, now or later. Under the global scheduler hints
 * are sent to xschedd, where they can only lower what the process has: see xsched-api(3). All functions may be called
 * from any thread, and return at once. kXSchedErrorNotFound: there is no such queue; kXSchedErrorInvalidValue: a value
 * is out of range.
 */

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `policy` counts with kSchedulerLocal only. Queues that were held by the scheduler before go on, and come under the
 * new one; what XQueueSuspend() holds stays suspended. kXSchedErrorNotSupported: there is no such policy here. */
XResult XHintSetScheduler(XSchedulerType scheduler, XPolicyType policy);

/* PRIORITY_NO_EXECUTE, or PRIORITY_MIN..PRIORITY_MAX. */
XResult XHintPriority(XQueueHandle xq, Priority prio);

/* The queue's part of the time in percent, in relation to the others': for UP. 0: nothing, under UP and PUP. */
XResult XHintUtilization(XQueueHandle xq, Utilization util);

/* For all queues: TIMESLICE_MIN..TIMESLICE_MAX microseconds, or TIMESLICE_UNLIMITED. Local schedulers only. */
XResult XHintTimeslice(Timeslice ts_us);

/* For LAX: the queue has priority `lax_prio` until it has waited for `lax_us` microseconds, and `crit_prio` then.
 * NO_LAXITY: it has the priority of XHintPriority(). */
XResult XHintLaxity(XQueueHandle xq, Laxity lax_us, Priority lax_prio, Priority crit_prio);

/* For KEDF: to be done so many microseconds after it became ready. NO_DEADLINE: whenever. */
XResult XHintDeadline(XQueueHandle xq, Deadline ddl_us);

/* For KEDF: so many queues of a device run at once, 1 or more. Local schedulers only. */
XResult XHintKDeadline(size_t k);

#ifdef __cplusplus
}
#endif
