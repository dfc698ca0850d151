/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The KFD layer: this process's queues on /dev/kfd
 *
 * kfd-libc.c stands in front of libc and sees which fds are KFD's, which kfd-fds.c remembers; kfd-queue.c keeps a
 * record of every queue, answers the application's own calls about them, and is called by libxsched when a verdict is
 * to be applied; kfd-poll.c finds out from the queues' indices when they are ready and idle. kfd-hsa.c is the gate in
 * front of doorbells, which kfd-aql.c finds and kfd-doorbell.c remembers; behind it kfd-next.c finds the runtime, and
 * kfd-tool.c brings there what has gone past what is preloaded.
 *
 * One lock (kfd_lock()) covers records and the calls into the driver about them, so that the kernel's state of a queue
 * and the record never part: the kernel serialises these calls per process anyhow. No launch takes it. A thread that is
 * interrupted under the lock by a signal handler passes its handler's calls on as they are.
 *
 * A queue that is made while others of its device are held starts held, and follows them: it has no verdict of its own
 * yet. It is let go with the last of them, or by its own first verdict. When the driver fails to, the thread of
 * kfd-poll.c tries again.
 *
 * After fork() the child starts from nothing: the kernel does not let it use its parent's queues. In a child of
 * vfork(), which runs in the parent's memory, nothing is recorded.
 */

#include <stdatomic.h>

#include "hal/kfd-abi.h"
#include "hal/kfd.h"
#include "include/xsched/xsched.h"
#include "shim/kfd/hsa.h"

/* Our own mapping of the process's page. Kernels from 7.2 on have one for each file. */
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
        unsigned context;    /* see kfd-libc.c: the file that it was made with */
        XschedQueue *xsched; /* NULL: not scheduled */
        bool gone;
        bool adopted; /* not the kernel's, as far as we know: it has a gate, and nothing more */
        bool follows;
        const AmdQueue *aql; /* the runtime's view of it; NULL: not known */
        struct KfdQueue *next;

        /* Somebody stands between the application and the queue: packets come into it, under indices of its own, while
         * the application's doorbell is rung. */
        _Atomic bool intercepted;
        _Atomic uint32_t inside; /* doorbells that are being rung there: their packets may still come */

        /* kfd-poll.c */
        _Atomic bool hooked;      /* its doorbell passes kfd-hsa.c, which counts launches */
        _Atomic uint64_t rung;    /* doorbells that passed it have announced packets below this index */
        _Atomic uint64_t mean_ns; /* of the last launches */
        _Atomic uint32_t pending; /* launches begun and tracked, and not completed */
        bool tracking;            /* launches are counted by looking at the write index */
        bool past_us;             /* some were announced otherwise than by a doorbell that passed */
        uint64_t first_read;      /* the read index when it was made */
        bool draining;
        bool drain_open; /* who was inside when the drain was asked for may be so still */
        uint64_t drain_to;
        uint64_t seen_write;
        uint64_t seen_read;
        uint64_t looked_ns;
        _Atomic uint64_t mark_ns; /* since when the device works on what comes to its end next */
} KfdQueue;

/* False in a signal handler that has interrupted this very thread under the lock. */
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

/* The application uses an hsa_queue_t that is not known yet: finds out whose it is. False: the lock was not to be had
 * without waiting. */
bool kfd_queue_meet(const HsaQueue *queue, bool wait);

/* A runtime's queue that the kernel was not seen to be asked for (kfd-tool.c), on a node of the topology; and its end;
 * NULL: that of all such. Not under the lock. */
void kfd_queue_adopt(uint32_t node, const HsaQueue *queue);
void kfd_queue_abandon(const HsaQueue *queue);

/* The rest is under the lock. The list of all that are not gone: */
KfdQueue *kfd_queues(void);

/* Lets go of those that follow nobody any more. False when the driver would not have it: to be tried again. */
bool kfd_release_followers(void);

/* The file that the queues were made with is about to be closed for the last time. */
void kfd_context_end(unsigned context);
void kfd_queues_after_fork(void);

/* kfd-libc.c, for the others: what is next behind this library, and the driver by way of a context. */
int kfd_next_ioctl(int fd, unsigned long request, void *arg);
int kfd_context_ioctl(int context, unsigned long request, ...);
int kfd_context_fd(unsigned context);

/* kfd-poll.c; kick and drain under the lock, wake without. */
void kfd_poll_start(void);
void kfd_poll_drain(KfdQueue *q);
void kfd_poll_kick(void);
void kfd_poll_launched(void); /* `pending` went up; fit for signal handlers */
void kfd_poll_after_fork(void);

/* False: nothing is to be done in this process. Not under the lock. */
bool kfd_start(void);

/* kfd-hsa.c. Around a call that a runtime's own table leads to: nothing happens where the call has been met before. */
void kfd_hsa_store(HsaSignal signal, int64_t value, typeof(&hsa_signal_store_relaxed) next);
uint64_t kfd_hsa_reserve(const HsaQueue *queue, uint64_t n, typeof(&hsa_queue_add_write_index_relaxed) next);
int kfd_hsa_async_handler(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg,
                typeof(&hsa_amd_signal_async_handler) next);
int kfd_hsa_async_function(HsaFunction *function, void *arg, typeof(&hsa_amd_async_function) next);
void kfd_hsa_after_fork(void);
