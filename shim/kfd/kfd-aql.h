/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The runtime's view of a queue, found by the arguments of CREATE_QUEUE
 *
 * Every HSA runtime has the indices in an amd_queue_t, because firmware reads it. So the hsa_queue_t is in front of the
 * write index, and contains the doorbell's signal. The runtime fills it in before it asks the kernel, whatever function
 * the application has called for it.
 */

#include "hal/kfd-abi.h"
#include "shim/kfd/hsa.h"

/* Returns NULL when the memory holds something else: a program without a runtime. */
const AmdQueue *kfd_aql_find(const KfdCreateQueue *a);

/* The same for a queue that a runtime reports. */
const AmdQueue *kfd_aql_of(const HsaQueue *queue);

/* Returns whether the runtime takes scratch memory back from the queue. It spins meanwhile, with a lock of the device,
 * until the queue is past the packet that used it last: for ever when the queue is off the device. */
bool kfd_aql_reclaims(const AmdQueue *q);

bool kfd_aql_is_readable(const void *p, size_t size); /* up to a page */
