/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The record of a queue's tracked launches: those not known to have completed, oldest first
 */

#include "shim/opencl/opencl-queue.h"

typedef enum OpenclTrackKind {
        OPENCL_TRACK_SAFE,   /* a launch that does not wait for the host */
        OPENCL_TRACK_UNSAFE, /* a launch that may wait for the host */
        OPENCL_TRACK_DRAIN,  /* a marker: its completion ends the drain */
        OPENCL_TRACK_POINT,  /* a marker that only closes a tail */
} OpenclTrackKind;

typedef struct OpenclTrack {
        OpenclTrackKind kind;
        uint64_t what;     /* opencl_time_kind() */
        uint64_t start_ns; /* when it was submitted: the device cannot have begun before */
        bool stamps;       /* read its time stamps: opencl-stamps.h */
        uint64_t covers;   /* its completion implies that of all up to here: see opencl-tail.h */
} OpenclTrack;

/* Under the queue's lock. */
static inline size_t opencl_record_n(const OpenclQueue *q) {
        return q->n - q->head;
}

/* Under the queue's lock. On success the record owns the event, which may be NULL. Returns false without memory. */
bool opencl_record_push(OpenclQueue *q, cl_event event, const OpenclTrack *t);

/* Looks for an event among the newest launches. */
bool opencl_record_find(OpenclQueue *q, cl_event event, OpenclTracked *ret);

/* Returns the number of the newest launch; 0: none. */
uint64_t opencl_record_last(OpenclQueue *q);
