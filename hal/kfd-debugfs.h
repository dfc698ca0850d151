/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * KFD's debugfs files about queues: mqds and hqds
 *
 * Debugfs is no stable interface, so only a tool for people reads it, text that does not parse counts as unknown, and a
 * number that a second source contradicts is dropped. The known texts are those of Linux 4.16 to 7.0:
 *
 *   mqds   "Process PID PASID ...:", then for each of its queues, the newest first, "  Compute queue on device GPU" (or
 *          SDMA, or DIQ) and a hex dump of the queue's descriptor in memory, on some GPUs once for each partition. The
 *          layout of a compute queue's descriptor is the same from gfx8 to gfx12.
 *   hqds   "Node N, gpu_id GPU:", then for each of the GPU's hardware slots for queues a line that names it, and its
 *          registers with their addresses. The registers follow each other as the words of the descriptor do, whatever
 *          their addresses are.
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
        bool is_compute; /* the members below are valid for these only */
        bool is_known;   /* the dump was long enough for the members below */
        uint64_t ring;   /* address */
        uint64_t ring_size;
        uint32_t doorbell; /* index of its 32-bit word in the GPU's doorbell aperture */
} KfdMqd;

/* Reads the descriptors of a process, the newest first; the caller frees *ret. Returns 0; -ESRCH: the text has no such
 * process; -ENOTUNIQ: it has several (from Linux 7.0 on a process may have more than one context); -ENOMEM; -EIO. */
int kfd_debugfs_read_mqds(FILE *f, pid_t pid, KfdMqd **ret, size_t *ret_n);

/* Returns whether a queue's ring is in one of the GPU's hardware slots: 1, 0, or -ENODATA when the text does not
 * mention that GPU. */
int kfd_debugfs_is_mapped(FILE *f, uint32_t gpu_id, uint64_t ring);
