/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds of KFD: queues of other processes, without their help
 *
 * Two means, one ops table each:
 *   criu   CRIU_OP: PROCESS_INFO evicts all queues of the process on all its GPUs, UNPAUSE restores them. Through the
 *          process's own /dev/kfd, taken by pidfd_getfd. Queues made meanwhile start evicted. The driver counts
 *          evictions and remembers one pause, so two pauses and one UNPAUSE leave the process stopped for ever. Only
 *          UNPAUSE ends a pause: the death of the process that made it does not.
 *   debug  DBG_TRAP: ENABLE, SUSPEND_QUEUES, RESUME_QUEUES, DISABLE, as a debugger, through a /dev/kfd of our own. Only
 *          compute queues. Queues made meanwhile run until the next hold() sees them. The end of our process resumes
 *          everything.
 *
 * The driver requires that the caller traces the process at the time of the call. So each call is made by a short-lived
 * thread: it seizes the process (which does not stop it), calls, and ends. The end of the thread ends the tracing,
 * because PTRACE_DETACH requires a stopped process. A signal for the process waits for that, and is then delivered.
 *
 * Invariants: PROCESS_INFO is called only when no pause of ours is in force (`state` is RUNNING). After a failed call
 * its undo is called at once; EINVAL from the undo means that there was nothing to undo. If the undo fails otherwise,
 * the state is UNSURE, and the next call begins with the undo. So there are never two pauses, and a failed hold leaves
 * the process running or reports that it may not.
 *
 * ENABLE registers a process with KFD that never opened /dev/kfd, so it is called only for a process that has it open.
 * A process whose runtime has not called RUNTIME_ENABLE would wait for its debugger inside that call: we disable
 * debugging at once and report that its runtime is not up yet.
 *
 * GPUs scheduled by MES (gfx11 and later) are refused unless allowed, see kfd_node_is_fragile() in kfd-topology.h.
 *
 * From Linux 7.0 on a process may have several contexts. Both calls act on one of them, and nothing tells which fd
 * belongs to which: a hold could stop half the process, or pause one context twice and so for ever. Such a process is
 * refused. A context that is made during a hold is noticed at the next hold.
 *
 * Thread safety: a KfdTarget belongs to one thread at a time. Nothing here waits longer than the driver does (9 s by
 * its default), plus KFD_TARGET_SEIZE_NS. None of this has been run on an AMD GPU: see tests/kfdsim and tests/vm for
 * what is tested.
 */

#include <sys/types.h>

#include "common/time-util.h"
#include "hal/hal.h"
#include "hal/kfd-abi.h"
#include "hal/privileged-mode.h"

/* Maximum wait for the exit of a former tracing thread of ours. */
#define KFD_TARGET_SEIZE_NS (1 * NSEC_PER_SEC)

/* The system calls and files that a target needs, replaceable by tests. Functions return 0 or positive, or a negative
 * errno; ioctl() is as libc's. */
typedef struct KfdTargetSys {
        int (*open_process)(pid_t pid, uint64_t *ret_start_time); /* a pidfd */
        /* A copy of the first /dev/kfd among the fds of the process from number *at on; sets *at to its number.
         * -ENODEV: there is none. */
        int (*open_device)(pid_t pid, int pidfd, int *at);
        int (*open_own)(void);    /* our own /dev/kfd */
        int (*open_events)(void); /* an fd that KFD writes events to */
        /* Whether the process has queues on a fragile GPU (kfd_node_is_fragile()); -ESRCH: KFD does not know the
         * process. */
        int (*has_mes)(pid_t pid);
        int (*is_split)(pid_t pid); /* whether the process has more than one context of KFD */
        int (*seize)(pid_t pid);
        int (*tracer)(pid_t pid, pid_t *ret);
        bool (*is_own_thread)(pid_t tid);
        int (*ioctl)(int fd, unsigned long request, ...);
        uint64_t (*now)(void);
        void (*nap)(void); /* sleeps shortly */
} KfdTargetSys;

typedef struct KfdTarget KfdTarget;

typedef struct KfdPrivilegedOps {
        const char *name;
        HalInherit inherit; /* what new queues of a held process do */

        int (*open)(KfdTarget *t);
        int (*hold)(KfdTarget *t); /* on the tracing thread */
        int (*undo)(KfdTarget *t); /* in any state; 0 also when there was nothing to undo */
        bool traces_undo;          /* undo() is called on the tracing thread, too */
} KfdPrivilegedOps;

struct KfdTarget {
        const KfdPrivilegedOps *ops;
        const KfdTargetSys *sys;
        pid_t pid;
        uint64_t start_time;
        bool allow_mes;
        TargetState state;
        HalCosts costs;

        int pidfd;
        int device;    /* criu: the process's; debug: ours */
        int device_at; /* criu: the fd's number in the process */

        /* debug */
        int events;
        bool enabled;
        uint32_t *suspended; /* ids */
        uint32_t n_suspended;
        size_t suspended_room;
        uint32_t *ids; /* the argument of kfd_target_suspend() and kfd_target_resume() */
        uint32_t n_ids;
};

#define KFD_TARGET_NULL ((KfdTarget){.pidfd = -EBADF, .device = -EBADF, .events = -EBADF})

/* Opens a target, which the caller gives back by kfd_target_done(). `start_time` 0: whatever process has that pid now.
 * Returns 0; -ESRCH: the process is gone; -ENODEV: it does not use KFD; -EPERM: we may not look at it, or trace it;
 * -ENOSYS: this KFD is too old; -EINVAL: no such mode. */
int kfd_target_open(PrivilegedMode mode, pid_t pid, uint64_t start_time, bool allow_mes, const KfdTargetSys *sys,
                KfdTarget *ret);

/* Releases the target's hold, and closes it. */
void kfd_target_done(KfdTarget *t);

/* Holds the process. When it is held already, this only suspends queues made since (mode debug). Returns 0 or an error
 * of kfd_target_open(); -EOPNOTSUPP: MES schedules one of its GPUs, or this is unknown; -EMLINK: the process has
 * several contexts; -EPERM: it may not be traced, or is traced already; -EACCES: we lack the capability; -EAGAIN: its
 * runtime is not up yet; -EBUSY: the process or its GPU is being debugged; -EIO, -ETIME: the hardware did not stop.
 * After an error the process runs, unless the state is UNSURE. */
int kfd_target_hold(KfdTarget *t);

/* Resumes the process. Returns 0 or a negative errno; -ESRCH: the process is gone, which callers may ignore. After any
 * other error the caller tries again. */
int kfd_target_release(KfdTarget *t);

/* Resumes a process that a dead process of ours may have held. */
int kfd_target_undo(KfdTarget *t);

/* Mode debug only: suspends or resumes some queues in one call. Ids of queues that failed come back with
 * KFD_DBG_QUEUE_INVALID or KFD_DBG_QUEUE_ERROR set. Returns the number of queues that succeeded. */
int kfd_target_suspend(KfdTarget *t, uint32_t *ids, uint32_t n);
int kfd_target_resume(KfdTarget *t, uint32_t *ids, uint32_t n);

/* Returns a sentence for people about an error of these functions. Never NULL. */
const char *kfd_privileged_explain(int error);
