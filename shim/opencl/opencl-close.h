/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Closing a tail (opencl-tail.h), so that the end of its launches is noticed
 */

#include "shim/opencl/opencl-queue.h"

/* Makes sure that a sentinel reports the end of the launches in flight. Calls the runtime: only for threads that
 * may. */
void opencl_tail_close(OpenclQueue *q);

/* The same for a held queue, and for a queue of which a thread is about to wait until `keep` launches are in flight. A
 * low bound, at which each completion has to be known, ends the tail. */
void opencl_tail_close_held(OpenclQueue *q);
void opencl_tail_close_bound(OpenclQueue *q, uint32_t keep);

/* The application's last reference to the queue is about to be released. */
void opencl_tail_end(OpenclQueue *q);

/* XschedQueueInfo.look */
void opencl_tail_look(XschedQueue *xq, void *userdata);
