/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The KFD backend, from inside the process that owns the queues: a hold unmaps the queue
 *
 * hold() is UPDATE_QUEUE with percentage 0; release() is UPDATE_QUEUE with what the application asked for, and then one
 * more ring of the doorbell, because one rung while the queue was unmapped may have gone unseen. That announces what
 * the application has announced, and nothing beyond. The kernel saves the running waves when it can (CWSR:
 * LEVEL_INTERRUPT), else it waits for them (LEVEL_DEQUEUE).
 *
 * Before either, it waits for KFD_PACKETS_WAIT_NS at most until every place of the ring that the application has taken
 * has its packet.
 *
 * What holds: the kernel's percentage is always `held ? 0 : percentage`, or `unsure` is set. A call that failed leaves
 * the kernel's state unknown; the backend then applies the old state once more, and if that fails, too, every later
 * call starts with it.
 *
 * A queue of which the driver says that there is none (EFAULT) is lost: held and released without a call, for there is
 * nothing that could run, and the others of its batch must not suffer for it.
 *
 * A device on which a hold has failed for good (EIO, ETIME, EACCES) is degraded: level GATE, nothing is unmapped there
 * any more. A release is tried whatever the level is.
 */

#include <stdatomic.h>

#include "common/time-util.h"
#include "hal/hal.h"
#include "hal/kfd-topology.h"

#define KFD_PACKETS_WAIT_NS (100 * NSEC_PER_USEC)

typedef struct KfdHalDevice {
        PreemptLevel level;
        bool degraded;
        int error; /* what degraded it */
        HalCosts costs;
} KfdHalDevice;

typedef struct KfdHalQueue {
        HalQueue hal;
        KfdHalDevice *device;

        /* As the libc function: -1 and errno. The file is the one that the queue was made with. */
        int (*ioctl)(int fd, unsigned long request, ...);
        int fd;

        uint32_t id;
        uint32_t type; /* KfdQueueType */
        uint64_t ring;
        uint32_t ring_size;
        uint32_t percentage; /* what the application asked for */
        uint32_t priority;
        bool unsure;
        bool lost;

        const _Atomic uint64_t *write_index, *read_index;
        _Atomic uint64_t *doorbell; /* NULL: none that we can ring */
        const _Atomic uint64_t
                        *rung; /* the application has announced packets below it; NULL or 0: not known */
        uint64_t announced;    /* since the last release, by us, likewise */
        uint64_t owed;         /* see kfd_hal_ring_rest(); 0: nothing */
} KfdHalQueue;

extern const HalOps hal_kfd_ops;

/* Running. `level` comes from kfd_hal_level(). */
void kfd_hal_init(KfdHalQueue *q, KfdHalDevice *device);

/* What a hold of a queue on this device does. Where there are open reports of hangs at exactly that
 * (kfd_node_is_fragile()), the gate only; what the administrator allows beyond is the service's word, see
 * PageSlot.level. */
PreemptLevel kfd_hal_level(const KfdNode *node, bool saves_waves);

/* The percentage word that the kernel is to see: bits above the low 8 are not about time. */
uint32_t kfd_hal_effective(uint32_t requested, bool held);

/* After a release: announces what was not written then, where the application may have announced it meanwhile and we do
 * not know. False: not all of it yet, so it is to be called again. */
bool kfd_hal_ring_rest(KfdHalQueue *q);

/* Brings the kernel to what `held`, percentage and priority say, whatever it was. */
int kfd_hal_reapply(KfdHalQueue *q);
