/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The backend for queues that nothing can stop: see hal-null.h
 */

#include "tests/lib/hal-null.h"
#include "common/macro.h"

static int null_apply(HalQueue *q, bool held) {
        return 0;
}

static int null_hold(HalQueue *const *queues, size_t n) {
        return hal_apply_each(queues, n, true, null_apply);
}

static int null_release(HalQueue *const *queues, size_t n) {
        return hal_apply_each(queues, n, false, null_apply);
}

const HalOps hal_null_ops = {
                .name = "null",
                .hold = null_hold,
                .release = null_release,
};
