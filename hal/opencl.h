/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The OpenCL backend: the submission path is what stops
 *
 * OpenCL has no way to take back a command that was enqueued, or to stop one that runs: its level is the gate, and only the process
 * itself can close it. Who submits to a queue passes opencl_hal_enter() before each command and says opencl_hal_leave() when
 * commands have completed; a hold makes the next one wait. The layer (shim/opencl/) has the page's verdict for a gate
 * and needs none of this; it is for runtimes that schedule their own queues, and for what the conformance suite demands
 * of every backend.
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
