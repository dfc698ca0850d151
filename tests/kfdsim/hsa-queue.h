/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A queue of the first GPU, as a program makes it by the HSA runtime that it is linked to
 */

#include <stdint.h>

/* hsa_queue_t; with HSA_CREATE=descriptor by hsa_amd_queue_create(), which the models of newer releases have
 * (fake-rocr.h). */
void *hsa_queue_make(uint32_t n_packets);

/* The same, with what the runtime calls when the queue has had an error: hsa_status_t, hsa_queue_t. */
typedef void HsaQueueError(int status, void *queue, void *userdata);
void *hsa_queue_make_with(uint32_t n_packets, HsaQueueError *callback, void *userdata);
