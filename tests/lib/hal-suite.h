/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The conformance suite of HAL backends
 *
 * The same cases for every backend: written against its HalOps, and against a driver that can make devices and queues, submit work, let
 * time pass, and prove what was done. A case that a backend's traits exclude is left out by the traits, never by its name.
 */

#include "hal/hal.h"

typedef struct HalDriver {
        const HalOps *ops;

        void *(*device_new)(void);
        void (*device_free)(void *device);
        HalQueue *(*queue_new)(void *device);
        void (*queue_free)(HalQueue *q);

        /* Work of this length. Returns its number on the queue, counted from 0. */
        uint64_t (*submit)(HalQueue *q, uint64_t duration_ns);
        /* Lets the device work for this long. */
        void (*run)(void *device, uint64_t ns);
        /* How often the work was completed. */
        unsigned (*times_done)(HalQueue *q, uint64_t n);
        /* Work done so far, in nanoseconds; exact if `exact`, else only its standing still means something. */
        uint64_t (*progress)(HalQueue *q);
        bool exact;

        /* Of the driver's calls to come, `after` succeed and one fails. NULL where that cannot be arranged. */
        void (*inject)(void *device, unsigned after, int error);
} HalDriver;

/* Runs all cases under the backend's name; returns the number of failures. */
int hal_suite_run(const HalDriver *driver);
