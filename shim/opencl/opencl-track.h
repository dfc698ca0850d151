/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * None of these functions may be called with a lock held that a completion callback could want.
 */

#include "shim/opencl/opencl-record.h"
#include "shim/opencl/opencl-wait.h"

/* Takes over one reference to the event, also on failure; the event may be NULL (opencl-tail.h). Returns false when the
 * launch is not tracked, so that its completion will not be reported. */
bool opencl_track(OpenclQueue *q, cl_event event, const OpenclTrack *t);

/* Finds completed launches and reports them. `seq`: the caller knows that all up to here have completed; or 0. */
void opencl_harvest(OpenclQueue *q, uint64_t seq);
void opencl_harvest_some(OpenclQueue *q); /* at bounded cost */

/* No runtime is to be asked any more: counts what is in flight as done, and tracks nothing later. */
void opencl_track_forget(OpenclQueue *q);

/* Called before and after the application waits for the queue: launches that complete in between are noticed at once.
 * `tells`: everything launched before the wait is complete. A thread may end in between (opencl_wait_leave()). */
void opencl_before_wait(OpenclQueue *q, OpenclWait *w);
void opencl_after_wait(OpenclQueue *q, OpenclWait *w, bool tells);

/* The application knows that `event` is complete. `waited`: because it waited for it. */
void opencl_harvest_event(cl_event event, bool waited);

/* The same when the application polled the event, which it may do often: only does something for queues with a tail. */
void opencl_harvest_asked(cl_event event);

bool opencl_event_is_tracked(cl_event event);
