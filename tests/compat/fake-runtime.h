/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A runtime for tests of libxsched-compat: what is launched on its queues runs when the test says so
 */

#include "shim/compat/compat.h"

/* A queue of device `device`, by any unused address. */
HwQueueHandle fake_queue(const void *address, const char *device);

/* What is launched is over at once, as from the beginning; or stays in flight until it is let go. */
void fake_hold(bool hold);

/* Launches so far, of all queues, by what was given to fake_launch as data: its address. Waits for the n-th. */
const void *fake_launched(size_t n);
size_t fake_n_launched(void);
void fake_forget(void);

/* A LaunchCallback. */
XResult fake_launch(HwQueueHandle hwq, void *data);

/* Some thread waits for what is in flight. Waits for the n-th. */
void fake_await_finish(size_t n);
