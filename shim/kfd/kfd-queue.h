/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The KFD layer: this process's queues on /dev/kfd
 *
 * kfd-libc.c intercepts libc and sees which fds are KFD's, which kfd-fds.c remembers; kfd-queue.c keeps a record of
 * every queue, handles the application's calls about them, and applies verdicts for libxsched; kfd-poll.c finds from
 * the queues' indices when they are ready and idle. kfd-hsa.c is the gate in front of doorbells, which kfd-aql.c finds
 * and kfd-doorbell.c remembers; behind it kfd-next.c finds the runtime, and kfd-tool.c intercepts calls that bypass the
 * preloaded functions. kfd-drm.c knows queues that KFD does not, and kfd-fault.c GPUs that have stopped all queues of
 * the process. kfd-loan.c gives turns to held queues that the runtime waits for.
 *
 * One lock (kfd_lock()) covers the records and the calls into the driver about them, so that the record always matches
 * the kernel's state of a queue: the kernel serialises these calls per process anyhow. No launch takes it. When a
 * signal handler interrupts a thread under the lock, the handler's own calls are passed on unchanged.
 *
 * A queue that is made while others of its device are held starts held and follows them, because it has no verdict of
 * its own yet. It is released with the last of them, or by its own first verdict. When the driver fails to release it,
 * the thread of kfd-poll.c tries again.
 *
 * After fork() the child starts without records: the kernel does not let it use its parent's queues. In a child of
 * vfork(), which runs in the parent's memory, nothing is recorded.
 */

#include <stdatomic.h>

#include "common/macro.h"
#include "hal/kfd-abi.h"
#include "hal/kfd.h"
#include "include/xsched/xsched.h"
#include "shim/kfd/hsa.h"
#include "shim/kfd/kfd-fault.h"

/* Our own mapping of the process's doorbell page. Kernels from 7.2 on have one for each file. */
typedef struct KfdDoorbells {
        _Atomic uint64_t *cells;
        unsigned context;
        struct KfdDoorbells *next;
} KfdDoorbells;

typedef struct KfdGpu {
        KfdNode node;
        KfdHalDevice hal;
        char device[KFD_DEVICE_ID_MAX];
        char name[KFD_GFX_NAME_MAX];
        struct KfdDoorbells *doorbells;
        struct KfdGpu *next;
} KfdGpu;

typedef struct KfdQueue {
        KfdHalQueue hal; /* first: an array of these is an array of HalQueue */
        KfdGpu *gpu;
        unsigned context;    /* the file that it was made with, see kfd-libc.c */
        XschedQueue *xsched; /* NULL: not scheduled */
        bool gone;
        bool adopted; /* not seen at the kernel: it only has a gate */
        bool follows;
        bool lent;           /* held by its verdict, and on the device for a turn: kfd-loan.c */
        uint64_t loan_ns;    /* when the turn ends, or the next one may begin */
        const AmdQueue *aql; /* the runtime's view of it; NULL: unknown */
        struct KfdQueue *next;

        /* A tool intercepts the queue: it writes its own packets into it, under indices of its own, while the
         * application's doorbell is rung. */
        _Atomic bool intercepted;
        _Atomic uint32_t inside; /* doorbells being rung there, whose packets may still come */

        /* kfd-poll.c */
        _Atomic bool hooked;      /* its doorbell passes kfd-hsa.c, which counts launches */
        _Atomic uint64_t rung;    /* kfd-hsa.c saw doorbells announce packets below this index */
        _Atomic uint64_t mean_ns; /* mean time of the last launches */
        _Atomic uint32_t pending; /* launches begun and tracked, and not completed */
        bool tracking;            /* launches are counted by looking at the write index */
        bool rests;               /* it is stopped: none of its launches counts */
        bool faulted;             /* its GPU has, and faulted_read was the read index at the last look */
        bool survives;            /* nevertheless it has taken packets since then */
        uint64_t faulted_read;
        bool past_us;        /* packets were announced by a doorbell that kfd-hsa.c did not see */
        uint64_t first_read; /* the read index when it was made */
        unsigned draining;   /* requests, all of which end when the read index reaches drain_to */
        bool drain_open;     /* threads that were inside at the drain request may still be */
        uint64_t drain_to;
        uint64_t seen_write;
        uint64_t seen_read;
        uint64_t looked_ns;
        _Atomic uint64_t mark_ns; /* when the device began the launch that completes next */
} KfdQueue;

/* Returns false in a signal handler that has interrupted the same thread under the lock. */
bool kfd_lock(void);
void kfd_unlock(void);
static inline void kfd_unlockp(const bool *locked) {
        if (*locked)
                kfd_unlock();
}

/* The application's calls, as ioctl(): 0 or more, or -1 and errno. */
int kfd_create_queue(unsigned context, int fd, unsigned long request, void *arg);
int kfd_update_queue(unsigned context, int fd, unsigned long request, void *arg);
int kfd_destroy_queue(unsigned context, int fd, unsigned long request, void *arg);

/* The application uses an unknown hsa_queue_t: finds the queue that it belongs to. Returns false when `wait` is false
 * and the lock is not free. */
bool kfd_queue_meet(const HsaQueue *queue, bool wait);

/* kfd_queue_adopt(): records a runtime's queue whose CREATE_QUEUE we did not see (kfd-tool.c), on a node of the
 * topology. kfd_queue_abandon(): the end of that queue; NULL: of all adopted ones. Not under the lock. */
void kfd_queue_adopt(uint32_t node, const HsaQueue *queue);
void kfd_queue_abandon(const HsaQueue *queue);

/* The functions below need the lock. Returns the list of queues that are not gone. */
KfdQueue *kfd_queues(void);

/* Releases queues that have no held queue left to follow. Returns false when the driver refuses: try again. */
bool kfd_release_followers(void);

/* The driver has taken the queue off its GPU for good, as far as is known. */
static inline bool kfd_queue_has_faulted(const KfdQueue *q) {
        return unlikely(kfd_gpu_has_faulted(q->gpu->node.gpu_id)) && !q->survives;
}

/* The queue is off the device, whatever its verdict: by the runtime, after an error of the queue for good or while it
 * gives the queue other memory; or by the driver, for good, after a fault of the process on that GPU. */
static inline bool kfd_queue_is_stopped(const KfdQueue *q) {
        return (q->hal.percentage & 0xff) == 0 || kfd_queue_has_faulted(q);
}

/* Only the indices of AQL queues say what they say at any time; a queue of another type is never ready, as far as we
 * can tell. */
static inline XschedHooked kfd_queue_hooked(const KfdQueue *q) {
        if (q->hal.type != KFD_QUEUE_COMPUTE_AQL)
                return XSCHED_HOOKED_NONE;
        return q->aql ? XSCHED_HOOKED_CREATE : XSCHED_HOOKED_POLL;
}

/* Takes a queue off the device again that is lent. */
void kfd_hold_lent(KfdQueue *q);

/* Forgets an adopted queue whose memory is no queue any more: not every way in which queues end is seen. */
void kfd_queue_check_adopted(KfdQueue *q);

/* The last fd of the file that the queues were made with is about to be closed. */
void kfd_context_end(unsigned context);
void kfd_queues_after_fork(void);
