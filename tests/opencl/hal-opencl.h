/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * An OpenCL backend for the conformance suite: the submission path is what stops
 *
 * OpenCL cannot take back a command that was enqueued, or stop one that runs: the level of this backend is the gate,
 * and only the process itself can close it. Each submission calls opencl_hal_enter() before its command, and
 * opencl_hal_leave() when commands have completed; a hold makes the next one wait. The layer (shim/opencl/) does not
 * use it: its gate is the verdict of the page.
 *
 * Thread safety: enter and leave from any thread, concurrently with hold and release; neither touches errno.
 */

#include <stdatomic.h>

#include "hal/hal.h"

typedef struct OpenclHalQueue {
        HalQueue hal;
        _Atomic uint32_t closed;  /* futex */
        _Atomic uint32_t waiters; /* threads in opencl_hal_enter() */
        _Atomic uint64_t entered;
        _Atomic uint64_t left;
} OpenclHalQueue;

extern const HalOps hal_opencl_ops;

/* An open queue with nothing submitted. */
void opencl_hal_init(OpenclHalQueue *q);

/* Waits while the queue is held, and counts one command as submitted. */
void opencl_hal_enter(OpenclHalQueue *q);

/* n commands have completed, or were refused by the runtime. */
void opencl_hal_leave(OpenclHalQueue *q, uint32_t n);

/* HalDriver.backlog. */
int opencl_hal_backlog(const HalQueue *hal, uint64_t *ret);
