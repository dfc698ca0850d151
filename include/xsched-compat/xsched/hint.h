/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Hints: values by which policies decide
 *
 * A hint stays with its queue over changes of the scheduler and the policy. Under the global scheduler hints are sent
 * to xschedd, where they can only lower the process's settings: a deadline or a laxity has no effect there where the
 * process was given none, see xsched-api(3). All functions may be called from any thread, and return at once.
 * kXSchedErrorNotFound: there is no such queue; kXSchedErrorInvalidValue: a value is out of range.
 */

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the scheduler of all queues. `policy` counts with kSchedulerLocal only. Queues that the former scheduler held go
 * on under the new one; queues suspended by XQueueSuspend() stay suspended. kXSchedErrorNotSupported: the library does
 * not have this policy. */
XResult XHintSetScheduler(XSchedulerType scheduler, XPolicyType policy);

/* `prio`: PRIORITY_NO_EXECUTE, or PRIORITY_MIN..PRIORITY_MAX. */
XResult XHintPriority(XQueueHandle xq, Priority prio);

/* For UP: the queue's part of the time in percent, in relation to the other queues' parts. 0: under UP and PUP the
 * queue gets no time. */
XResult XHintUtilization(XQueueHandle xq, Utilization util);

/* Sets the time slice of all queues: TIMESLICE_MIN..TIMESLICE_MAX microseconds, or TIMESLICE_UNLIMITED. Local
 * schedulers only. */
XResult XHintTimeslice(Timeslice ts_us);

/* For LAX: the queue has priority `lax_prio` until it has waited for `lax_us` microseconds, and `crit_prio` then.
 * NO_LAXITY: it has the priority of XHintPriority(). */
XResult XHintLaxity(XQueueHandle xq, Laxity lax_us, Priority lax_prio, Priority crit_prio);

/* For KEDF: the queue's work has to be done `ddl_us` microseconds after the queue became ready. NO_DEADLINE: no
 * deadline. */
XResult XHintDeadline(XQueueHandle xq, Deadline ddl_us);

/* For KEDF: `k` queues of a device run at once, 1 or more. Local schedulers only. */
XResult XHintKDeadline(size_t k);

#ifdef __cplusplus
}
#endif
