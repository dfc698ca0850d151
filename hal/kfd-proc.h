/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The queues that a process has with KFD, by the kernel's public files
 *
 * For tools: read from sysfs, which is open to every user, and as root also from debugfs. `root` is put in front of
 * every path ("" for the system's own; a directory of files for tests).
 *
 * A descriptor in debugfs carries no queue id, so it has to be matched with the queue in sysfs. The kernel puts a new
 * queue at the head of the list that debugfs prints and makes its sysfs directory at the same time, and inode numbers
 * of sysfs ascend. So the queues by descending inode number are the descriptors in their order. The match is used only
 * if both lists have the same length and every pair agrees about GPU, type and ring size.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hal/kfd-debugfs.h"

#define KFD_PROC_PATH "/sys/class/kfd/kfd/proc"

typedef struct KfdProcQueue {
        uint32_t id;
        uint32_t context; /* 0: the process's first; an id is unique within its context */
        uint32_t gpu_id;
        uint32_t type; /* in the kernel's own numbers, which are not those of CREATE_QUEUE */
        uint64_t ring_size;
        uint64_t inode;

        KfdMqd mqd;    /* valid if mqd.is_known */
        int is_mapped; /* -ENODATA: not known */
} KfdProcQueue;

typedef struct KfdProcQueues {
        KfdProcQueue *queues; /* sorted by context and id */
        size_t n;
        size_t n_contexts; /* beside the first, with or without queues */
        size_t n_hidden;   /* on GPUs that the caller's device cgroup does not allow */
} KfdProcQueues;

void kfd_proc_queues_done(KfdProcQueues *q);

/* Reads the queues; the caller gives *ret back by kfd_proc_queues_done(). Returns 0; -ESRCH: the process has not opened
 * KFD; -ENODEV: there is no KFD. A queue that is destroyed meanwhile is left out. */
int kfd_proc_read_queues(const char *root, pid_t pid, KfdProcQueues *ret);

/* Lists all processes that have opened KFD; the caller frees *ret. Returns 0 or -ENODEV. */
int kfd_proc_list(const char *root, pid_t **ret, size_t *ret_n);

/* Adds the descriptors of debugfs. Returns 0; -EACCES or -ENOENT: debugfs may not be read or is not there; -ENODATA: it
 * does not match sysfs. */
int kfd_proc_read_mqds(const char *root, pid_t pid, KfdProcQueues *q);

/* Adds whether the queues with a known descriptor are in the hardware. The kernel reads the registers of every GPU for
 * this. */
int kfd_proc_read_hqds(const char *root, KfdProcQueues *q);

/* A process's use of a GPU. Values that the kernel does not tell are UINT64_MAX. */
typedef struct KfdProcUsage {
        uint32_t gpu_id;
        uint64_t vram;         /* bytes */
        uint64_t sdma_us;      /* time spent on copies */
        uint64_t evicted_ms;   /* time that its queues were off the GPU */
        uint64_t cu_occupancy; /* compute units that run its waves */
} KfdProcUsage;

/* Reads the use of every GPU that the kernel lists; the caller frees *ret. Errors are those of
 * kfd_proc_read_queues(). */
int kfd_proc_read_usage(const char *root, pid_t pid, KfdProcUsage **ret, size_t *ret_n);

/* Returns "compute", "sdma" or "other". Types 3 and 4 have changed their meaning: 3 was the debugger's, 4 is a copy
 * queue in all kernels. */
const char *kfd_proc_type_to_string(uint32_t type);
