/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Sentinels: the completion callbacks that we have requested from the runtime
 *
 * A callback costs more than a tiny launch, so not every launch has one. The idle sentinel waits for the launch that is
 * the newest when it is armed; if newer ones exist when it fires, it is armed again. So the last completion is always
 * noticed at once, and the others in batches. A thread that waits for the bound has one more sentinel, on the launch
 * that it waits for.
 */

#include "shim/opencl/opencl-queue.h"

/* Called with the queue's lock held, which is released meanwhile and held again at the end. Only for the harvester
 * (opencl-track.h): no other thread may then remove an event that is passed to the runtime. The runtime may run the
 * callback inside this call. */
void opencl_sentinels_arm(OpenclQueue *q);

/* Gives up the sentinel of a failed launch, because runtimes may not call for those. Called with the lock held; the
 * caller has a reference of its own. */
void opencl_sentinel_give_up(OpenclSentinel **sentinel);
