/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * XQueues on queues of the fake runtime
 */

#include "fake-runtime.h"
#include "tests/lib/unit.h"

#define assert_ok(call) assert_int_equal(call, kXSchedSuccess)

typedef struct Queue {
        char address; /* so that each has one */
        HwQueueHandle hwq;
        XQueueHandle xq;
} Queue;

static inline void make_on(Queue *q, const char *device) {
        *q = (Queue){0};
        q->hwq = fake_queue(&q->address, device);
        assert_int_not_equal(q->hwq, 0);
        assert_ok(XQueueCreate(&q->xq, q->hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
}

static inline void make(Queue *q) {
        make_on(q, "one");
}

static inline void end(Queue *q) {
        assert_ok(XQueueDestroy(q->xq));
        assert_ok(HwQueueDestroy(q->hwq));
}

static inline HwCommandHandle submit_call(const Queue *q, LaunchCallback call, void *data) {
        HwCommandHandle c;

        assert_ok(HwCommandCreateCallback(&c, call, data));
        assert_ok(XQueueSubmit(q->xq, c));
        return c;
}

static inline HwCommandHandle submit(const Queue *q, char *data) {
        return submit_call(q, fake_launch, data);
}

/* Returns when the scheduler knows all submissions, and has acted on them, as each call that changes something does. */
static inline void look(const Queue *q) {
        assert_ok(XHintUtilization(q->xq, UTILIZATION_DEFAULT));
}

/* Returns when all work for `q` is done. */
static inline void settle(const Queue *q) {
        assert_ok(XQueueWaitAll(q->xq));
}
