/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Privileged holds of KFD: somebody else's queues, without that process's help
 *
 * Two means, one ops table each:
 *   criu   CRIU_OP: PROCESS_INFO evicts all queues of the process on all its GPUs, UNPAUSE restores them. Through the
 *          process's own /dev/kfd, taken by pidfd_getfd. Queues made meanwhile start evicted. The driver counts
 *          evictions and remembers one pause, so two pauses and one UNPAUSE leave the process stopped for ever; and
 *          nothing but UNPAUSE ends a pause, not even the death of who made it.
 *   debug  DBG_TRAP: ENABLE, SUSPEND_QUEUES, RESUME_QUEUES, DISABLE, as a debugger, through a /dev/kfd of our own. Only
 *          compute queues. Queues made meanwhile run until the next hold() sees them. The end of our process resumes
 *          everything.
 *
 * The driver wants the caller to be the tracer of the process at the time of the call. So each call is made by a thread
 * that lives for it: it seizes the process (which does not stop it), calls, and ends. The end of the thread is what
 * lets go: PTRACE_DETACH wants a stopped process. A signal that the process gets meanwhile waits for that, and is then
 * delivered.
 *
 * What holds: PROCESS_INFO is called only when we know that no pause of ours is in force (`state` is RUNNING). A call
 * that failed is followed by its undo at once, whose EINVAL says that there was nothing to undo; if that, too, fails
 * otherwise, the state is UNSURE, and begins with the undo next time. So there are never two pauses, and a failed hold
 * leaves the process running or says so.
 *
 * ENABLE makes a process known to KFD that never opened /dev/kfd: it is called only for one that has it open. A process
 * whose runtime has not said RUNTIME_ENABLE would wait for its debugger in there: it is let go at once, with the word
 * that it would wait for.
 *
 * GPUs scheduled by MES (gfx11 and later) are refused unless allowed, for what is said in kfd.h.
 *
 * From Linux 7.0 on a process may have several contexts, and both calls are about one of them, while nothing tells
 * which fd is whose: such a process would be held by half, or one context twice and so for ever. It is refused. One
 * that is made during a hold is not noticed before the next.
 *
 * Thread safety: a KfdTarget belongs to one thread at a time. Nothing here waits longer than the driver does (9 s by
 * its default), plus KFD_TARGET_SEIZE_NS. On an AMD GPU nothing of this has been seen to work: see tests/kfdsim and
 * tests/vm for what has been seen.
 */

#include <sys/types.h>

#include "common/time-util.h"
#include "hal/hal.h"
#include "hal/kfd-abi.h"

typedef enum KfdPrivilegedMode {
        KFD_PRIVILEGED_NO,
        KFD_PRIVILEGED_CRIU,
        KFD_PRIVILEGED_DEBUG,
        _KFD_PRIVILEGED_MODE_MAX,
} KfdPrivilegedMode;

/* "no", "criu", "debug". */
const char *kfd_privileged_mode_to_string(KfdPrivilegedMode v);
int kfd_privileged_mode_from_string(const char *s);

/* How long to wait for a former tracing thread of ours to be gone. */
#define KFD_TARGET_SEIZE_NS (1 * NSEC_PER_SEC)

/* What the outside answers. Functions return 0 or positive, or a negative errno; ioctl() is as libc's. */
typedef struct KfdTargetSys {
        int (*open_process)(pid_t pid, uint64_t *ret_start_time); /* a pidfd */
        /* A copy of the first /dev/kfd among its fds from number *at on, which is set to its number; -ENODEV: there is
         * none. */
        int (*open_device)(pid_t pid, int pidfd, int *at);
        int (*open_own)(void);    /* our own /dev/kfd */
        int (*open_events)(void); /* an fd that KFD writes events to */
        /* Whether it has queues on a fragile GPU (kfd_node_is_fragile()); -ESRCH: KFD does not know it. */
        int (*has_mes)(pid_t pid);
        int (*is_split)(pid_t pid); /* whether it has more than one context of KFD */
        int (*seize)(pid_t pid);
        int (*tracer)(pid_t pid, pid_t *ret);
        bool (*is_own_thread)(pid_t tid);
        int (*ioctl)(int fd, unsigned long request, ...);
        uint64_t (*now)(void);
        void (*nap)(void); /* shortly */
} KfdTargetSys;

/* The kernel. */
extern const KfdTargetSys kfd_target_sys;

typedef enum KfdTargetState {
        KFD_TARGET_RUNNING, /* nothing of ours is in force */
        KFD_TARGET_HELD,
        KFD_TARGET_UNSURE, /* a call failed, and its undo, too */
        _KFD_TARGET_STATE_MAX,
} KfdTargetState;

const char *kfd_target_state_to_string(KfdTargetState v);

typedef struct KfdTarget KfdTarget;

typedef struct KfdPrivilegedOps {
        const char *name;
        HalTraits traits;

        int (*open)(KfdTarget *t);
        int (*hold)(KfdTarget *t); /* on the tracing thread */
        int (*undo)(KfdTarget *t); /* whatever the state is; 0 also when there was nothing to undo */
        bool traces_undo;          /* undo() is called on the tracing thread, too */
} KfdPrivilegedOps;

extern const KfdPrivilegedOps kfd_criu_ops, kfd_debug_ops;

struct KfdTarget {
        const KfdPrivilegedOps *ops;
        const KfdTargetSys *sys;
        pid_t pid;
        uint64_t start_time;
        bool allow_mes;
        KfdTargetState state;
        HalCosts costs;

        int pidfd;
        int device;    /* criu: the process's; debug: ours */
        int device_at; /* criu: its number there */

        /* debug */
        int events;
        bool enabled;
        uint32_t *suspended; /* ids */
        uint32_t n_suspended;
        uint32_t *ids; /* what kfd_target_suspend() and kfd_target_resume() are about */
        uint32_t n_ids;
};

#define KFD_TARGET_NULL ((KfdTarget){.pidfd = -EBADF, .device = -EBADF, .events = -EBADF})

/* `start_time` 0: whoever has that number now. Errors: -ESRCH it is gone; -ENODEV it does not use KFD; -EPERM we may
 * not look at it, or trace it; -ENOSYS this KFD is too old; -EINVAL no such mode. */
int kfd_target_open(KfdPrivilegedMode mode, pid_t pid, uint64_t start_time, bool allow_mes,
                const KfdTargetSys *sys, KfdTarget *ret);

/* Releases what is held, and closes. */
void kfd_target_done(KfdTarget *t);

/* Nothing new when it is held already, but for queues made since, in mode debug. Errors beside those of open:
 * -EOPNOTSUPP one of its GPUs is scheduled by MES, or nothing tells that none is; -EMLINK it has several contexts;
 * -EPERM it may not be traced, or is already; -EACCES we lack the capability; -EAGAIN its runtime is not up yet; -EBUSY
 * it, or its GPU, is being debugged; -EIO, -ETIME the hardware did not stop. The process runs after all of them, but
 * for state UNSURE. */
int kfd_target_hold(KfdTarget *t);

/* -ESRCH, when the process is gone, is nothing to worry about. After another error: again. */
int kfd_target_release(KfdTarget *t);

/* For a process that somebody held who is no more: undoes what may be in force. */
int kfd_target_undo(KfdTarget *t);

/* debug only: suspends or resumes some of its queues, in one call. Ids that could not be come back with
 * KFD_DBG_QUEUE_INVALID or KFD_DBG_QUEUE_ERROR. Returns how many were. */
int kfd_target_suspend(KfdTarget *t, uint32_t *ids, uint32_t n);
int kfd_target_resume(KfdTarget *t, uint32_t *ids, uint32_t n);

/* kfd-debug.c, on the tracing thread. */
int kfd_debug_suspend(KfdTarget *t);
int kfd_debug_resume(KfdTarget *t);
bool kfd_debug_is_suspended(const KfdTarget *t, uint32_t id);

/* As ioctl(), but a negative errno; a signal that interrupts it is nobody's business. */
int kfd_target_ioctl(const KfdTarget *t, unsigned long request, void *arg);

/* A sentence for people about an error of these functions. Never NULL. */
const char *kfd_privileged_explain(int error);
