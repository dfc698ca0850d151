/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * None of these functions may be called with a lock held that a completion callback could want.
 */

#include "shim/opencl/opencl-record.h"
#include "shim/opencl/opencl-tail.h"

/* Takes one reference to the event, whatever it returns; the event may be NULL (opencl-tail.h). False: it is not
 * tracked, and nothing will be reported. */
bool opencl_track(OpenclQueue *q, cl_event event, const OpenclTrack *t);

/* Looks what has completed, and reports it. `seq`: the caller has learned that all up to here has; or 0. */
void opencl_harvest(OpenclQueue *q, uint64_t seq);
void opencl_harvest_some(OpenclQueue *q); /* at bounded cost */

/* Before the application waits for the queue, and after: what was not complete before completed while it waited, and
 * was noticed at once. `tells`: all that was launched before is complete. Between the two a thread may end
 * (opencl_wait_leave()). */
void opencl_before_wait(OpenclQueue *q, OpenclWait *w);
void opencl_after_wait(OpenclQueue *q, OpenclWait *w, bool tells);

/* The application has learned that `event` is complete; `waited`: by waiting until it was. */
void opencl_harvest_event(cl_event event, bool waited);

/* The same by asking, which it may do time and again; only a queue with a tail wants to hear of that. */
void opencl_harvest_asked(cl_event event);

bool opencl_event_is_tracked(cl_event event);
