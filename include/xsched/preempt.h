/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Suspending and resuming the queues of processes that use AMD GPUs, from outside: see xsched_preempt(3)
 *
 * For schedulers and tools of one's own. No service is asked, and none knows of it: do not use both on one process.
 *
 * Thread safety: any thread, one call of an object at a time (others wait). After fork() the object belongs to the
 * parent. Errors: negative errno values, which xsched_preempt_strerror() explains. A call that fails leaves the process
 * running, unless it says -EPERM, -EIO or -ETIME to a resume: then what was suspended may be suspended still.
 */

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct XschedPreempt XschedPreempt;

typedef enum XschedPreemptMode {
        /* As a debugger does, queue by queue. Wants CAP_SYS_PTRACE for processes of others, and /dev/kfd. What is
         * suspended is resumed when the object, or the calling process, ends. Linux 6.5; a process whose runtime allows
         * debugging (ROCm 5.7). */
        XSCHED_PREEMPT_DEBUG = 1,
        /* As for a checkpoint, whole processes only, on all their GPUs; queues that they make meanwhile wait, too.
         * Wants CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE. When the calling process is killed the other stays suspended
         * until somebody resumes it: write it down before. Linux 5.18. */
        XSCHED_PREEMPT_CRIU = 2,
} XschedPreemptMode;

/* Also on GPUs that are scheduled by the MES firmware (gfx11 and later), of which there are open reports of hangs. */
#define XSCHED_PREEMPT_ALLOW_MES 1U

/* -EINVAL: no such mode or flag; -ENOMEM. Whether this machine and this caller can do it shows at the first suspend. */
int xsched_preempt_init(int mode, uint32_t flags, XschedPreempt **ret);

/* Resumes everything, and ends. Accepts NULL, returns NULL. */
XschedPreempt *xsched_preempt_free(XschedPreempt *p);

/* Suspends n queues of a process, or (queues NULL, n 0) all its compute queues; in mode CRIU always all, and ids are
 * -EOPNOTSUPP. Those that are suspended already stay so: it does not count. An id that was not suspended comes back
 * with a bit set. Returns how many are, of those named, or 0 for all. */
int xsched_preempt_suspend_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n);

#define XSCHED_PREEMPT_QUEUE_ERROR                                                                          \
        (UINT32_C(1) << 30) /* the hardware did not stop it; the call fails with -ETIME then */
#define XSCHED_PREEMPT_QUEUE_INVALID (UINT32_C(1) << 31) /* no such queue, or it is being destroyed */

/* The reverse, for n queues or for all. With all, and in mode CRIU, it also undoes what a caller who was killed has
 * left behind. Returns how many were resumed, of those named, or 0 for all. */
int xsched_preempt_resume_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n);

typedef enum XschedPreemptQueueType {
        XSCHED_PREEMPT_COMPUTE,
        XSCHED_PREEMPT_SDMA,
        XSCHED_PREEMPT_OTHER,
} XschedPreemptQueueType;

typedef struct XschedPreemptQueue {
        uint32_t id;
        uint32_t gpu_id;    /* KFD's */
        uint32_t type;      /* XschedPreemptQueueType */
        uint32_t suspended; /* by this object */
        uint64_t ring_size; /* bytes */
        uint64_t reserved[2];
} XschedPreemptQueue;

/* The queues of a process, whether or not it may be suspended: asks no privilege. Fills in at most n, and returns how
 * many there are. -ESRCH when KFD does not know the process, -ENODEV when there is no KFD. */
int xsched_preempt_query_queues(XschedPreempt *p, pid_t pid, XschedPreemptQueue *queues, uint32_t n);

/* A sentence about an error of these functions. Never NULL, and not to be freed. */
const char *xsched_preempt_strerror(int error);

#ifdef __cplusplus
}
#endif
