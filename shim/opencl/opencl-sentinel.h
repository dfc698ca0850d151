/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Sentinels: the completion callbacks that we have requested from the runtime
 *
 * A callback costs more than a tiny launch, so not every launch has one. The idle sentinel waits for the launch that is
 * the newest when it is armed; if newer ones exist when it fires, it is armed again. So the last completion is always
 * noticed at once, and the others in batches. A thread that waits for the bound has one more sentinel, on the launch
 * that it waits for.
 *
 * NVIDIA's driver has a thread that spins for 50 to 100 ms after each callback, and after each flush or marker by
 * another thread than the one that launches (580.159, H200). It takes a whole CPU, and locks of the driver, so that
 * each launch takes a fifth longer. It does not spin for a question about an event, whoever asks. So there no callback
 * is requested, and the control thread only asks: first when the launch is expected to be complete, and then less and
 * less often. It flushes only what is long overdue. A drain is put by the thread that launches, if it launches soon.
 */

#include "shim/opencl/opencl-record.h"

/* Called with the queue's lock held, which is released meanwhile and held again at the end. Only for the harvester
 * (opencl-track.h): no other thread may then remove an event that is passed to the runtime. The runtime may run the
 * callback inside this call. */
void opencl_sentinels_arm(OpenclQueue *q);

/* Under the queue's lock. Returns the launch whose end will be noticed; 0: none. */
static inline uint64_t opencl_sentinel_seq(const OpenclQueue *q) {
        if (q->idle)
                return q->idle->seq;
        return opencl_record_n(q) > 0 && q->polled_seq >= q->tracked[q->head].seq ? q->polled_seq : 0;
}

/* On the control thread, after a look: the end is still polled for. */
void opencl_sentinel_poll_again(OpenclQueue *q);

/* Gives up the sentinel of a failed launch, because runtimes may not call for those. Called with the lock held; the
 * caller has a reference of its own. */
void opencl_sentinel_give_up(OpenclSentinel **sentinel);
