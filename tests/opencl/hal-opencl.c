/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The OpenCL backend: see opencl.h for what a hold means here
 *
 * A hold that comes while a command is on its way lets it through: it was submitted as far as its thread can tell. No
 * thread is left waiting: release stores the word and then looks for waiters, a waiter announces itself and then looks
 * at the word (both sequentially consistent), and the futex call compares the word once more.
 */

#include <limits.h>

#include "common/futex.h"
#include "common/macro.h"
#include "tests/opencl/hal-opencl.h"

static OpenclHalQueue *opencl_queue(const HalQueue *q) {
        return container_of((HalQueue *) q, OpenclHalQueue, hal);
}

void opencl_hal_init(OpenclHalQueue *q) {
        *q = (OpenclHalQueue){.hal.ops = &hal_opencl_ops};
}

void opencl_hal_enter(OpenclHalQueue *q) {
        if (unlikely(atomic_load(&q->closed))) {
                PROTECT_ERRNO;
                atomic_fetch_add(&q->waiters, 1);
                while (atomic_load(&q->closed))
                        (void) futex(&q->closed, FUTEX_WAIT_PRIVATE, 1, NULL, 0);
                atomic_fetch_sub(&q->waiters, 1);
        }
        atomic_fetch_add(&q->entered, 1);
}

void opencl_hal_leave(OpenclHalQueue *q, uint32_t n) {
        atomic_fetch_add(&q->left, n);
}

static int opencl_apply(HalQueue *hal, bool held) {
        OpenclHalQueue *q = opencl_queue(hal);

        atomic_store(&q->closed, held);
        if (!held && atomic_load(&q->waiters) > 0)
                (void) futex(&q->closed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, 0);
        return 0;
}

static int opencl_hold(HalQueue *const *queues, size_t n) {
        return hal_apply_each(queues, n, true, opencl_apply);
}

static int opencl_release(HalQueue *const *queues, size_t n) {
        return hal_apply_each(queues, n, false, opencl_apply);
}

int opencl_hal_backlog(const HalQueue *hal, uint64_t *ret) {
        OpenclHalQueue *q = opencl_queue(hal);

        /* In this order, so that the difference is never negative. */
        uint64_t left = atomic_load(&q->left);
        *ret = atomic_load(&q->entered) - left;
        return 0;
}

const HalOps hal_opencl_ops = {
                .name = "opencl",
                .hold = opencl_hold,
                .release = opencl_release,
};
