/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * None of these functions may be called with a lock held that a completion callback could want.
 */

#include "shim/opencl/opencl-record.h"

/* Takes one reference to the event, whatever it returns. False: the event is not tracked, and nothing will be
 * reported. */
bool opencl_track(OpenclQueue *q, cl_event event, const OpenclTrack *t);

/* Looks what has completed, and reports it. `seq`: the caller has learned that on an in-order queue all up to here
 * has; or 0. */
void opencl_harvest(OpenclQueue *q, uint64_t seq);
void opencl_harvest_some(OpenclQueue *q); /* at bounded cost */

/* Before the application waits for the queue, and after: what was not complete before completed while it waited, and
 * was noticed at once. */
uint64_t opencl_before_wait(OpenclQueue *q);
void opencl_after_wait(OpenclQueue *q, uint64_t seq);

/* The application has learned that `event` is complete; `waited`: by waiting until it was. */
void opencl_harvest_event(cl_event event, bool waited);

bool opencl_event_is_tracked(cl_event event);
