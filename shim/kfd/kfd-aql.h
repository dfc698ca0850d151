/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The runtime's view of a queue, found by what the kernel is told when the queue is made
 *
 * Every HSA runtime has the indices in an amd_queue_t, because firmware reads it: so the hsa_queue_t lies in front of
 * the write index, and names the doorbell's signal. It is filled in before the kernel is asked, whatever function the
 * application has called for it.
 */

#include "hal/kfd-abi.h"
#include "shim/kfd/hsa.h"

/* NULL when something else lies there: a program without a runtime. */
const AmdQueue *kfd_aql_find(const KfdCreateQueue *a);

/* The same of one that a runtime says it has made. */
const AmdQueue *kfd_aql_of(const HsaQueue *queue);

bool kfd_aql_is_readable(const void *p, size_t size); /* up to a page */
