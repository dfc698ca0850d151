/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The conformance suite of HAL backends
 *
 * Every backend has the same cases. They use its HalOps, and a driver that can make devices and queues, submit work,
 * let time pass, and prove what was done. Cases are left out by the levels that a driver gives, and never by the name
 * of a backend.
 *
 * Three files. hal-suite.c is one process and its queues; hal-suite-process.c has several processes on the backend's
 * device, and processes that fork, exit and are killed while they are held; hal-suite-service.c holds that come from a
 * service, by way of libxsched, and end with it.
 */

#include "hal/hal.h"

typedef struct HalDriver {
        const HalOps *ops;
        PreemptLevel max_level; /* what a hold of the backend stops */
        HalInherit inherit;     /* what a queue does that is made while others are held */

        void *(*device_new)(void);
        void (*device_free)(void *device);
        HalQueue *(*queue_new)(void *device);
        void (*queue_free)(HalQueue *q); /* of a held one with work to do, too */

        /* Work of this length. Returns its number on the queue, counted from 0. */
        uint64_t (*submit)(HalQueue *q, uint64_t duration_ns);
        /* Lets the device work for this long. */
        void (*run)(void *device, uint64_t ns);
        /* How often the work was completed. */
        unsigned (*times_done)(HalQueue *q, uint64_t n);
        /* Work done so far, in nanoseconds; exact if `exact`, else only its standing still means something. */
        uint64_t (*progress)(HalQueue *q);
        bool exact;
        /* Counts the launches that are submitted and not complete. NULL, or < 0: the backend's queues cannot tell. */
        int (*backlog)(const HalQueue *q, uint64_t *ret);

        /* Of the driver's calls to come, `after` succeed and one fails. NULL where that cannot be arranged. */
        void (*inject)(void *device, unsigned after, int error);
} HalDriver;

/* main(): all cases, for each driver of the list, which NULL ends. The suite calls the program again for its processes,
 * with arguments of its own; "--long" is the variant that takes minutes. HAL_SEED replaces the seed of what is random.
 * Returns an exit status. */
int hal_suite_main(const HalDriver *const *drivers, int argc, char *argv[]);
