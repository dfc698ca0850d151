/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which queues a process has with KFD, as the kernel tells whoever asks
 *
 * For tools: read from sysfs, which every user may, and for root the rest from debugfs. `root` stands before every path
 * ("" for the system's own; a directory of files for tests).
 *
 * sysfs and debugfs number nothing alike: a descriptor in debugfs carries no queue id. But the kernel puts a new queue
 * at the head of the list that debugfs prints and makes its sysfs directory in the same breath, and inode numbers of
 * sysfs ascend. So the queues by descending inode number are the descriptors in their order. That is believed only if
 * both have the same length and every pair agrees about GPU, type and ring size.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hal/kfd-debugfs.h"

#define KFD_PROC_PATH "/sys/class/kfd/kfd/proc"

typedef struct KfdProcQueue {
        uint32_t id;
        uint32_t context; /* 0: the process's first; ids are of a context */
        uint32_t gpu_id;
        uint32_t type; /* in the kernel's own numbers, which are not those of CREATE_QUEUE */
        uint64_t ring_size;
        uint64_t inode;

        KfdMqd mqd;    /* is_known: only then */
        int is_mapped; /* -ENODATA: not known */
} KfdProcQueue;

typedef struct KfdProcQueues {
        KfdProcQueue *queues; /* by context and id */
        size_t n;
        size_t n_contexts; /* beside the first, whether they have queues or not */
        size_t n_hidden;   /* on GPUs that the caller's device cgroup does not allow */
} KfdProcQueues;

void kfd_proc_queues_done(KfdProcQueues *q);

/* 0; -ESRCH when the process has not opened KFD; -ENODEV when there is no KFD. A queue that goes meanwhile is left
 * out. */
int kfd_proc_read_queues(const char *root, pid_t pid, KfdProcQueues *ret);

/* All processes that have opened KFD; the caller frees *ret. 0 or -ENODEV. */
int kfd_proc_list(const char *root, pid_t **ret, size_t *ret_n);

/* Adds what debugfs says of descriptors. 0; -EACCES or -ENOENT where it may not be read or is not there; -ENODATA when
 * it does not fit what sysfs says. */
int kfd_proc_read_mqds(const char *root, pid_t pid, KfdProcQueues *q);

/* Adds which of them are in the hardware, for those whose descriptor is known: has the kernel read the registers of
 * every GPU. */
int kfd_proc_read_hqds(const char *root, KfdProcQueues *q);

/* What a process uses of a GPU. What the kernel does not tell is UINT64_MAX. */
typedef struct KfdProcUsage {
        uint32_t gpu_id;
        uint64_t vram;         /* bytes */
        uint64_t sdma_us;      /* time of its copies */
        uint64_t evicted_ms;   /* its queues were off the GPU */
        uint64_t cu_occupancy; /* compute units with waves of it */
} KfdProcUsage;

/* Of every GPU that the kernel names; the caller frees *ret. Errors as above. */
int kfd_proc_read_usage(const char *root, pid_t pid, KfdProcUsage **ret, size_t *ret_n);

/* "compute", "sdma" or "other". 3 and 4 have changed their meaning: 3 was the debugger's, 4 is a copy queue in all
 * kernels. */
const char *kfd_proc_type_to_string(uint32_t type);
