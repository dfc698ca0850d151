/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How long launches take, guessed by when they are found complete: where the runtime does not call back at once
 * (opencl-time.h)
 */

#include "shim/opencl/opencl-queue.h"

/* What was found complete in one go. */
typedef struct OpenclFound {
        uint32_t n_done, n_drains, n_removed; /* n_removed: of the record, with its own markers */
        bool unsafe;
        uint64_t kind; /* of all; 0: they are of several */
} OpenclFound;

/* Under the queue's lock, when it has been removed. Returns what a launch takes by what has been learned since the
 * last call, guessed or not; 0: nothing has. */
uint64_t opencl_guess(OpenclQueue *q, const OpenclFound *h);
