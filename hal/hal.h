/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * HAL: the backends that stop and resume queues, one for each kind of driver
 *
 * One backend is one const HalOps table in one file. Drivers differ in what a hold covers, whether they count holds,
 * and whether a call can fail half applied: the backend hides what it can, and its header says the rest.
 *
 * Gates (level 1) are not a backend's job: a gate is in front of the application's own call, in the shim, and closes by
 * the page's verdict alone. hold() stops launches that were submitted already (levels 2 and 3), or, in a backend that
 * cannot, the backend's own submission path.
 *
 * A hold is one boolean per queue, never a count: hold() of a held queue and release() of a running one succeed and
 * change nothing. Both act on a batch, all or nothing: when one queue fails, the queues changed before it are rolled
 * back, and the error of the first failure is returned. Where the driver can leave a half-applied state behind,
 * the caller applies the wanted state again after an error.
 *
 * Thread safety: the caller serialises the calls of a process (in the shim: its control thread).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/verdict.h"

typedef struct HalQueue HalQueue;

typedef enum HalInherit {
        HAL_INHERIT_RUN,  /* a queue made while others are held runs: the caller holds it itself */
        HAL_INHERIT_HOLD, /* it starts held */
} HalInherit;

typedef struct HalCosts {
        uint64_t hold_ns; /* running estimate of one hold() batch; 0: not measured yet */
        uint64_t release_ns;
} HalCosts;

typedef struct HalOps {
        const char *name;
        /* Both return 0 or a negative errno: -EAGAIN (interrupted: try again), -EIO, -ETIME, -EACCES (the level is no
         * longer available: fall back to a lower one), -ENODEV (the device is gone). */
        int (*hold)(HalQueue *const *queues, size_t n);
        int (*release)(HalQueue *const *queues, size_t n);
} HalOps;

/* The first member of every backend's queue. */
struct HalQueue {
        const HalOps *ops;
        bool held;    /* written by hold() and release() only */
        bool changed; /* private to hal_apply_each() */
};

/* For backends whose driver takes one queue at a time: calls apply() for each queue whose `held` differs, and rolls
 * back the changed queues on the first failure. A queue that cannot be rolled back keeps its state, and `held` says
 * which. Returns 0 or the first error. */
int hal_apply_each(HalQueue *const *queues, size_t n, bool held, int (*apply)(HalQueue *q, bool held));

/* Returns the running estimate after one more sample, by ns_learn() of common/time-util.h. */
uint64_t hal_learn_cost(uint64_t estimate_ns, uint64_t sample_ns);
