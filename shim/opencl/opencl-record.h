/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The record of a queue's tracked launches: those that are not known to have completed, oldest first
 */

#include "shim/opencl/opencl-queue.h"

typedef enum OpenclTrackKind {
        OPENCL_TRACK_SAFE,   /* a launch that waits for nothing that the host has to do */
        OPENCL_TRACK_UNSAFE, /* a launch that may */
        OPENCL_TRACK_DRAIN,  /* a marker: its completion ends the drain */
        OPENCL_TRACK_POINT,  /* a marker that closes a tail, and nothing more */
} OpenclTrackKind;

typedef struct OpenclTrack {
        OpenclTrackKind kind;
        uint64_t what;     /* opencl_time_kind() */
        uint64_t start_ns; /* when the runtime was given it: the device has not begun before */
        uint64_t covers;   /* its completion says that all up to here is complete, too: see opencl-tail.h */
} OpenclTrack;

/* Under the queue's lock. */
static inline size_t opencl_record_n(const OpenclQueue *q) {
        return q->n - q->head;
}

/* Under the queue's lock. On success the record owns the event, which may be NULL. */
bool opencl_record_push(OpenclQueue *q, cl_event event, const OpenclTrack *t);

/* Among the newest. */
bool opencl_record_find(OpenclQueue *q, cl_event event, OpenclTracked *ret);

/* The number of the newest; 0: there is none. */
uint64_t opencl_record_last(OpenclQueue *q);
