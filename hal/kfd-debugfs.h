/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What KFD's debugfs files say of queues: mqds and hqds
 *
 * Debugfs is no interface that anybody promises to keep, so nothing but a tool for people reads it, what cannot be
 * understood counts as not said, and no number is believed that a second source contradicts. Known are the texts of
 * Linux 4.16 to 7.0:
 *
 *   mqds   "Process PID PASID ...:", then for each of its queues, the newest first, "  Compute queue on device GPU" (or
 *          SDMA, or DIQ) and a hex dump of the queue's descriptor in memory, on some GPUs once for each partition. What
 *          stands where in a compute queue's descriptor has been the same from gfx8 to gfx12.
 *   hqds   "Node N, gpu_id GPU:", then for each of the GPU's places for queues a line that names it, and its registers
 *          with their addresses. They follow each other as the words of the descriptor do, whatever their addresses
 *          are.
 *
 * GPU ids are hexadecimal here and decimal in sysfs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define KFD_DEBUGFS_MQDS "/sys/kernel/debug/kfd/mqds"
#define KFD_DEBUGFS_HQDS "/sys/kernel/debug/kfd/hqds"

/* A queue's descriptor. */
typedef struct KfdMqd {
        uint32_t gpu_id;
        bool is_compute; /* what follows is known of these only */
        bool is_known;   /* and only if the dump was long enough */
        uint64_t ring;   /* address */
        uint64_t ring_size;
        uint32_t doorbell; /* index of its 32-bit word in the GPU's doorbell aperture */
} KfdMqd;

/* Those of a process, the newest first; the caller frees *ret. 0, -ESRCH when the text has no such process, -ENOTUNIQ
 * when it has several (from 7.0 on a process may have more than one context), -ENOMEM, -EIO. */
int kfd_debugfs_read_mqds(FILE *f, pid_t pid, KfdMqd **ret, size_t *ret_n);

/* Whether a queue's ring is in one of the GPU's places for queues: 1, 0, or -ENODATA when the text says nothing of that
 * GPU. */
int kfd_debugfs_is_mapped(FILE *f, uint32_t gpu_id, uint64_t ring);
