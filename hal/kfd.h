/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The KFD backend, from inside the process that owns the queues: a hold unmaps the queue
 *
 * hold() is UPDATE_QUEUE with percentage 0. release() is UPDATE_QUEUE with the percentage that the application asked
 * for, and then one more ring of the doorbell, because a ring while the queue was unmapped may have been lost. That
 * ring announces only packets that the application has announced. The kernel saves the running waves when it can (CWSR:
 * LEVEL_INTERRUPT), else it waits for them (LEVEL_DEQUEUE).
 *
 * Before either call, the backend waits, for KFD_PACKETS_WAIT_NS at most, until every place that the application has
 * reserved in the rings of the device has its packet. `moving` is set from before that wait until after the call. A
 * thread that reserves a place counts in `reserving` meanwhile, looks at `moving` after that, and waits for its end if
 * it can.
 *
 * Invariant: the kernel's percentage is always `held ? 0 : percentage`, or `unsure` is set. A failed call leaves the
 * kernel's state unknown. The backend then applies the old state once more; if that fails, too, every later call starts
 * with it.
 *
 * A queue that the driver does not know (EFAULT) is lost: it is held and released without a call, because it cannot
 * run, and because its error must not fail the other queues of the batch.
 *
 * A device on which a hold has failed for good (EIO, ETIME, EACCES) is degraded: its level is GATE and no queue is
 * unmapped there any more. A release is tried at every level.
 */

#include <stdatomic.h>

#include "common/time-util.h"
#include "hal/hal.h"
#include "hal/kfd-topology.h"

#define KFD_PACKETS_WAIT_NS (100 * NSEC_PER_USEC)

typedef struct KfdHalQueue KfdHalQueue;

typedef struct KfdHalDevice {
        PreemptLevel level;
        bool degraded;
        int error;           /* the error that degraded it */
        _Atomic bool moving; /* a queue of it is being unmapped or mapped */

        /* The process's queues on the device, one after the other; `q` NULL: the first. May be NULL: then only the
         * queue that is moved is waited for. */
        const KfdHalQueue *(*next_queue)(const struct KfdHalDevice *d, const KfdHalQueue *q);
} KfdHalDevice;

struct KfdHalQueue {
        HalQueue hal;
        KfdHalDevice *device;

        /* As the libc function: -1 and errno. `fd` is the file that the queue was made with. */
        int (*ioctl)(int fd, unsigned long request, ...);
        int fd;

        uint32_t id;
        uint32_t type; /* KfdQueueType */
        uint64_t ring;
        uint32_t ring_size;
        uint32_t percentage; /* as the application set it */
        uint32_t priority;
        bool unsure;
        bool lost;

        const _Atomic uint64_t *write_index, *read_index;
        _Atomic uint64_t *doorbell;   /* NULL: we cannot ring it */
        const _Atomic uint64_t *rung; /* the application announced the packets below this index; NULL or 0: unknown */
        uint64_t announced;           /* the same, announced by us since the last release */
        uint64_t owed;                /* see kfd_hal_ring_rest(); 0: nothing */
        _Atomic uint32_t reserving;   /* threads that may take a place at any moment */
};

extern const HalOps hal_kfd_ops;

/* Makes *q a running queue. The caller sets device->level by kfd_hal_level(). */
void kfd_hal_init(KfdHalQueue *q, KfdHalDevice *device);

/* Returns the level that a hold of a queue on this device reaches. Devices with open reports of hangs
 * (kfd_node_is_fragile()), and those without wide doorbells, get LEVEL_GATE; an administrator may allow more by the
 * service, see PageSlot.level. */
PreemptLevel kfd_hal_level(const KfdNode *node, bool saves_waves);

/* Returns the percentage word for the kernel: a hold clears only the low 8 bits, because the others are not a share of
 * time. */
uint32_t kfd_hal_effective(uint32_t requested, bool held);

/* After a release: announces packets that were not written at the release, and that the application may have announced
 * meanwhile without our knowledge. Returns false when packets are still missing: call it again. */
bool kfd_hal_ring_rest(KfdHalQueue *q);

/* Applies `held`, percentage and priority to the kernel, whatever its state is. Returns 0 or a negative errno. */
int kfd_hal_reapply(KfdHalQueue *q);
