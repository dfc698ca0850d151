/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The gate in front of doorbells, between a program and the HSA runtime
 */

#include "hsa.h"
#include "kfd-queue.h"

/* Around a call through a runtime's own table. It goes straight on when the call was intercepted before. */
void kfd_hsa_store(HsaSignal signal, int64_t value, typeof(&hsa_signal_store_relaxed) next);
/* find_node() asks the runtime for the node of a queue that is not known; false: it does not say. */
typedef bool KfdHsaFindNode(const void *userdata, const HsaQueue *queue, uint32_t *ret);
uint64_t kfd_hsa_reserve(const HsaQueue *queue, uint64_t n, typeof(&hsa_queue_add_write_index_relaxed) next,
                KfdHsaFindNode *find_node, const void *userdata);
int kfd_hsa_async_handler(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg,
                typeof(&hsa_amd_signal_async_handler) next);
int kfd_hsa_async_function(HsaFunction *function, void *arg, typeof(&hsa_amd_async_function) next);
void kfd_hsa_after_fork(void);
