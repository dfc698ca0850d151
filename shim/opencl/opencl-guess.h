/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The device time of launches, estimated from the times at which they are found complete: for runtimes that do not call
 * back at once (opencl-time.h)
 */

#include "shim/opencl/opencl-queue.h"

/* The launches found complete by one harvest. */
typedef struct OpenclFound {
        uint32_t n_done, n_drains, n_removed; /* n_removed: from the record, including our own markers */
        bool unsafe;
        uint64_t kind; /* the kind of all; 0: several kinds */

        /* Set by opencl_guess(): when the device began them, if that was later than their submission; else 0. */
        uint64_t began_ns;
} OpenclFound;

/* Under the queue's lock. Learns that a launch of this kind took `sample` ns. Another process's turn on the device
 * makes that longer, never shorter. */
void opencl_guess_learn(OpenclQueue *q, uint64_t kind, uint64_t sample);

/* Under the queue's lock. A launch is submitted at `now`, and nothing else is in flight. */
void opencl_guess_begin(OpenclQueue *q, uint64_t now);

/* Under the queue's lock, after the launches were removed from the record. Returns the mean device time of a launch
 * learned since the last call, measured or estimated; 0: none. */
uint64_t opencl_guess(OpenclQueue *q, OpenclFound *h);
