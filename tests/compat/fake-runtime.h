/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A runtime for tests of libxsched-compat, whose launches run when the test says so
 */

#include "shim/compat/compat.h"

/* A queue of device `device`, by any unused address. */
HwQueueHandle fake_queue(const void *address, const char *device);

/* fake_hold(false), the default: launches are over at once. fake_hold(true): they stay in flight until
 * fake_hold(false). */
void fake_hold(bool on);
/* As fake_hold(true), for the launches of one queue alone. */
void fake_hold_only(HwQueueHandle hwq);

/* Waits for the n-th launch of all queues, and returns its `data`, which tells launches apart. */
const void *fake_launched(size_t n);
size_t fake_n_launched(void);
void fake_forget(void);

/* A LaunchCallback. */
XResult fake_launch(HwQueueHandle hwq, void *data);

/* Waits until a thread waits for launches in flight for the n-th time. */
void fake_await_finish(size_t n);
