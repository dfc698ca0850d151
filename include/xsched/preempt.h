/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Suspending and resuming the queues of other processes that use AMD GPUs: see xsched_preempt(3)
 *
 * For schedulers and tools that decide by themselves. These functions do not involve xschedd, and xschedd does not know
 * about them: do not use both on one process.
 *
 * Thread safety: any thread may call; calls on one object wait for each other. After fork() the object belongs to the
 * parent; suspending and resuming fail with -EPERM in the child. Errors: negative errno values, which
 * xsched_preempt_strerror() explains. After a failed call the process runs. The exceptions are -EPERM, -EIO and -ETIME
 * of a resume: queues that were suspended may then still be suspended.
 */

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct XschedPreempt XschedPreempt;

typedef enum XschedPreemptMode {
        /* Suspends queue by queue, as a debugger does. Needs CAP_SYS_PTRACE for processes of other users, and access to
         * /dev/kfd. The driver resumes the queues when the object or the calling process ends. Needs Linux 6.5, and a
         * process whose runtime allows debugging (ROCm 5.7). */
        XSCHED_PREEMPT_DEBUG = 1,
        /* Suspends whole processes on all their GPUs, as for a checkpoint. Queues that such a process makes meanwhile
         * are suspended, too. Needs CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE and Linux 5.18. When the caller is
         * killed, the process stays suspended until xsched_preempt_resume_queues() is called for it: record its pid
         * before suspending it. */
        XSCHED_PREEMPT_CRIU = 2,
} XschedPreemptMode;

/* Allows suspending on GPUs that the MES firmware schedules (gfx11 and later). There are open reports that they
 * hang. */
#define XSCHED_PREEMPT_ALLOW_MES 1U

/* Makes an object for xsched_preempt_free(). Returns 0; -EINVAL: no such mode or flag; -ENOMEM. The first suspend shows
 * whether the machine and the caller's privileges suffice. */
int xsched_preempt_init(int mode, uint32_t flags, XschedPreempt **ret);

/* Resumes everything that the object suspended and frees the object. Accepts NULL, returns NULL. */
XschedPreempt *xsched_preempt_free(XschedPreempt *p);

/* Suspends n queues of a process, given by their ids, or all its compute queues (queues NULL, n 0). Mode CRIU can only
 * suspend all: ids fail with -EOPNOTSUPP. Suspends do not count: suspending a suspended queue changes nothing. An id of
 * `queues` that was not suspended gets one of the two bits below. Returns the number of named queues that were
 * suspended, or 0 for all. */
int xsched_preempt_suspend_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n);

#define XSCHED_PREEMPT_QUEUE_ERROR   (UINT32_C(1) << 30) /* the hardware did not stop it; the call fails with -ETIME */
#define XSCHED_PREEMPT_QUEUE_INVALID (UINT32_C(1) << 31) /* no such queue, or it is being destroyed */

/* Resumes n queues, or all. With all, or in mode CRIU, this also resumes what a killed process had suspended. Returns
 * the number of named queues that were resumed, or 0 for all. */
int xsched_preempt_resume_queues(XschedPreempt *p, pid_t pid, uint32_t *queues, uint32_t n);

typedef enum XschedPreemptQueueType {
        XSCHED_PREEMPT_COMPUTE,
        XSCHED_PREEMPT_SDMA,
        XSCHED_PREEMPT_OTHER,
} XschedPreemptQueueType;

typedef struct XschedPreemptQueue {
        uint32_t id;
        uint32_t gpu_id;    /* KFD's id */
        uint32_t type;      /* XschedPreemptQueueType */
        uint32_t suspended; /* by this object */
        uint64_t ring_size; /* bytes */
        uint64_t reserved[2];
} XschedPreemptQueue;

/* Lists the queues of a process, which needs no privilege. Fills in at most n entries and returns how many queues there
 * are. -ESRCH: KFD does not know the process; -ENODEV: there is no KFD. */
int xsched_preempt_query_queues(XschedPreempt *p, pid_t pid, XschedPreemptQueue *queues, uint32_t n);

/* Returns a sentence about an error of these functions: a static string, never NULL. */
const char *xsched_preempt_strerror(int error);

#ifdef __cplusplus
}
#endif
