/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A simulated device in memory
 *
 * Time is simulated: it goes on by fake_device_run() and by the cost of holds and releases, and by nothing else. Each
 * queue is an engine of its own that works through its dispatches in order, one at a time, at full speed; a hold stops
 * it in the middle of a dispatch, a release goes on from there. There is no interference between queues, no memory and
 * no caches: the device counts, to the nanosecond, when and how often each dispatch was done.
 *
 * Thread safety: every function may be called from any thread.
 */

#include "hal/hal.h"

extern const HalOps hal_fake_ops;

typedef struct FakeDevice FakeDevice;

typedef struct FakeDispatch {
        uint64_t duration_ns;
        uint64_t done_ns;     /* of the duration */
        uint64_t finished_ns; /* when; 0: not yet */
        unsigned times;       /* finished; 1 in the end */
} FakeDispatch;

/* NULL when there is no memory. The device outlives its queues. */
FakeDevice *fake_device_new(void);
FakeDevice *fake_device_free(FakeDevice *d);

void fake_device_set_costs(FakeDevice *d, const HalCosts *costs);

/* Of the driver's calls to come, `after` succeed and the next one fails with `error` (negative) and changes nothing. 0:
 * no failure. */
void fake_device_fail(FakeDevice *d, unsigned after, int error);

void fake_device_run(FakeDevice *d, uint64_t ns);
uint64_t fake_device_now(FakeDevice *d);

HalQueue *fake_queue_new(FakeDevice *d);
HalQueue *fake_queue_free(HalQueue *q);

/* Returns the dispatch's number, counted from 0, or UINT64_MAX when there is no memory. */
uint64_t fake_queue_submit(HalQueue *q, uint64_t duration_ns);
FakeDispatch fake_queue_dispatch(HalQueue *q, uint64_t n);

/* Work done so far, in all dispatches together. */
uint64_t fake_queue_progress(HalQueue *q);

/* HalDriver.backlog. */
int fake_queue_backlog(const HalQueue *q, uint64_t *ret);
