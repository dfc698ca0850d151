/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Sentinels: the completion callbacks that we have outstanding at the runtime
 *
 * One costs more than a tiny launch, so there is not one for each. The idle sentinel hangs on what is the newest
 * launch when it is armed, and is armed again while newer ones are there when it fires; so the last completion is
 * always noticed at once, and the others in bunches. A bound waiter has one more, on the launch that it waits for.
 */

#include "shim/opencl/opencl-queue.h"

/* Called and left with the queue's lock held, which is given up meanwhile; by the harvester (opencl-track.h), because
 * nobody else may remove an event that the runtime is called with. A callback may come from inside. */
void opencl_sentinels_arm(OpenclQueue *q);

/* Its launch has failed, and runtimes forget to call then. Called with the lock held; the caller has a reference,
 * too. */
void opencl_sentinel_give_up(OpenclSentinel **sentinel);
