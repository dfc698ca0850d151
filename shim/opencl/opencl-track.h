/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Tracked launches: from their submission until they are known to have completed
 *
 * None of these functions may be called with a lock held that a completion callback could want.
 */

#include "shim/opencl/opencl-queue.h"

typedef enum OpenclEventStatus {
        OPENCL_EVENT_PENDING,
        OPENCL_EVENT_COMPLETE,
        OPENCL_EVENT_FAILED,
} OpenclEventStatus;

OpenclEventStatus opencl_event_status(cl_event event);
cl_command_queue opencl_event_queue(cl_event event); /* NULL: a user event */

typedef enum OpenclTrackKind {
        OPENCL_TRACK_SAFE,   /* a launch that waits for nothing that the host has to do */
        OPENCL_TRACK_UNSAFE, /* a launch that may */
        OPENCL_TRACK_DRAIN,  /* a marker: its completion ends the drain */
} OpenclTrackKind;

typedef struct OpenclTrack {
        OpenclTrackKind kind;
        uint64_t what;     /* opencl_time_kind() */
        uint64_t start_ns; /* when the runtime was given it: the device has not begun before */
} OpenclTrack;

/* Takes one reference to the event, whatever it returns. False: the event is not tracked, and nothing will be reported. */
bool opencl_track(OpenclQueue *q, cl_event event, const OpenclTrack *t);

/* Looks what has completed, and reports it. `seq`: the caller has learned that on an in-order queue all up to here has; or 0. */
void opencl_harvest(OpenclQueue *q, uint64_t seq);
void opencl_harvest_some(OpenclQueue *q); /* at bounded cost */

/* Before the application waits for the queue, and after: what was not complete before completed while it waited, and was noticed at once. */
uint64_t opencl_before_wait(OpenclQueue *q);
void opencl_after_wait(OpenclQueue *q, uint64_t seq);
uint64_t opencl_last_seq(OpenclQueue *q);

/* The application has learned that `event` is complete; `waited`: by waiting until it was. */
void opencl_harvest_event(cl_event event, bool waited);

bool opencl_track_find(OpenclQueue *q, cl_event event, OpenclTracked *ret);
bool opencl_event_is_tracked(cl_event event);
