/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD backend: see kfd.h for what a hold means here
 */

#include "hal/kfd.h"

#include <sched.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "hal/kfd-abi.h"

/* A signal that interrupts a call comes once, or a few times. */
#define INTERRUPTS_MAX 100U

static KfdHalQueue *kfd_queue(const HalQueue *q) {
        return container_of((HalQueue *) q, KfdHalQueue, hal);
}

void kfd_hal_init(KfdHalQueue *q, KfdHalDevice *device) {
        *q = (KfdHalQueue){.hal.ops = &hal_kfd_ops, .device = device, .percentage = KFD_PERCENTAGE_MAX};
}

PreemptLevel kfd_hal_level(const KfdNode *node, bool saves_waves) {
        if (kfd_node_is_fragile(node) || !kfd_node_has_wide_doorbells(node))
                return LEVEL_GATE;
        return saves_waves ? LEVEL_INTERRUPT : LEVEL_DEQUEUE;
}

uint32_t kfd_hal_effective(uint32_t requested, bool held) {
        return held ? requested & ~UINT32_C(0xff) : requested;
}

static int kfd_update(const KfdHalQueue *q, bool held) {
        KfdUpdateQueue a = {
                        .ring_base_address = q->ring,
                        .queue_id = q->id,
                        .ring_size = q->ring_size,
                        .queue_percentage = kfd_hal_effective(q->percentage, held),
                        .queue_priority = q->priority,
        };
        PROTECT_ERRNO;

        for (unsigned i = 0; i < INTERRUPTS_MAX; i++) {
                if (q->ioctl(q->fd, KFD_IOC_UPDATE_QUEUE, &a) >= 0)
                        return 0;
                if (errno != EINTR && errno != EAGAIN)
                        return negative_errno();
        }
        return -EAGAIN;
}

#define HEADER_TYPE    0xffU
#define HEADER_INVALID 1U
#define PACKET_WORDS   (KFD_AQL_PACKET_SIZE / sizeof(uint16_t))

static bool packet_is_written(const KfdHalQueue *q, uint64_t index, uint64_t n_packets) {
        const _Atomic uint16_t *headers = (const _Atomic uint16_t *) (uintptr_t) q->ring;

        return (atomic_load_explicit(headers + index % n_packets * PACKET_WORDS, memory_order_acquire) & HEADER_TYPE) !=
                        HEADER_INVALID;
}

/* Returns whether a reserved place of the ring has no packet yet, or is about to be reserved. Packets below the
 * doorbell's index are written. */
static bool kfd_has_gap(const KfdHalQueue *q) {
        uint64_t n_packets = q->ring_size / KFD_AQL_PACKET_SIZE;
        if (q->type != KFD_QUEUE_COMPUTE_AQL || !q->write_index || !q->read_index || n_packets == 0)
                return false;
        if (atomic_load(&q->reserving) > 0)
                return true;

        uint64_t write = atomic_load(q->write_index), read = atomic_load(q->read_index),
                 rung = q->rung ? atomic_load(q->rung) : 0, end = MIN(write, read + n_packets);

        for (uint64_t i = MAX(read, rung); i < end; i++)
                if (!packet_is_written(q, i, n_packets))
                        return true;
        return false;
}

static bool kfd_device_has_gap(const KfdHalQueue *q) {
        const KfdHalDevice *d = q->device;
        if (!d->next_queue)
                return kfd_has_gap(q);

        for (const KfdHalQueue *p = NULL; (p = d->next_queue(d, p));)
                if (kfd_has_gap(p))
                        return true;
        return false;
}

/* When queues are unmapped or mapped, the firmware reads all write indices again, and hangs at a packet that is not
 * written yet (rocm-systems 10377). A thread writes its packet a moment after it reserved the place, so we wait for
 * that, but only briefly, since the thread may lose its CPU in between. */
static void kfd_wait_for_packets(const KfdHalQueue *q) {
        if (!kfd_device_has_gap(q))
                return;

        uint64_t until = now_ns() + KFD_PACKETS_WAIT_NS;
        while (kfd_device_has_gap(q) && now_ns() < until)
                (void) sched_yield();
}

/* Returns the index below which packets may be announced. Never more than the application announced: between reserving
 * an index and writing the packet there is time, and hardware hangs at an announced packet that is not written. Where
 * we do not see the doorbell, this is the first packet that is not written. */
static uint64_t kfd_announced(const KfdHalQueue *q) {
        uint64_t write = atomic_load(q->write_index), n_packets = q->ring_size / KFD_AQL_PACKET_SIZE;
        if (q->type != KFD_QUEUE_COMPUTE_AQL)
                return write;
        if (!q->read_index || n_packets == 0)
                return 0;

        uint64_t read = atomic_load(q->read_index), end = MIN(write, read + n_packets);
        uint64_t rung = q->rung ? atomic_load(q->rung) : 0;
        if (rung > 0)
                return MIN(rung, end);
        while (read < end && packet_is_written(q, read, n_packets))
                read++;
        return read;
}

/* An AQL doorbell takes the index of the last packet, a PM4 doorbell that of the next one. The application may ring at
 * the same time. If it has announced more meanwhile, our older value may have come last, so the loop rings again. */
static void kfd_ring(KfdHalQueue *q) {
        uint64_t end;

        while ((end = kfd_announced(q)) > q->announced) {
                atomic_store_explicit(
                                q->doorbell, q->type == KFD_QUEUE_COMPUTE_AQL ? end - 1 : end, memory_order_seq_cst);
                q->announced = end;
        }
}

/* When we do not see the queue's doorbell, packets behind one that is not written yet may have been announced during
 * the hold: kfd_hal_ring_rest() announces them. */
static void kfd_ring_released(KfdHalQueue *q) {
        bool aql = q->type == KFD_QUEUE_COMPUTE_AQL && q->read_index;

        if (!q->doorbell || !q->write_index)
                return;
        q->owed = aql ? atomic_load(q->write_index) : 0;
        q->announced = aql ? atomic_load(q->read_index) : 0; /* the device knows the packets that it has read */
        kfd_ring(q);
}

bool kfd_hal_ring_rest(KfdHalQueue *q) {
        if (q->owed == 0)
                return true;
        if (!q->rung || atomic_load(q->rung) == 0)
                kfd_ring(q);
        else
                q->owed = 0; /* the application's own rings announce the rest */
        if (q->announced >= q->owed || atomic_load(q->read_index) >= q->owed)
                q->owed = 0;
        return q->owed == 0;
}

/* A queue that the application itself has stopped (percentage 0) is the same to the kernel held and released. */
static bool kfd_must_call(const KfdHalQueue *q) {
        return !q->lost && (q->unsure || (q->percentage & 0xff) != 0);
}

static int kfd_set(KfdHalQueue *q, bool held) {
        int r = 0;

        if (kfd_must_call(q)) {
                atomic_store(&q->device->moving, true);
                kfd_wait_for_packets(q);
                r = kfd_update(q, held);
                atomic_store(&q->device->moving, false);
        }
        if (r < 0 && r != -EFAULT)
                return r;

        q->lost |= r == -EFAULT;
        q->unsure = false;
        q->owed = 0;
        if (!held && !q->lost && (q->percentage & 0xff) != 0)
                kfd_ring_released(q);
        return 0;
}

int kfd_hal_reapply(KfdHalQueue *q) {
        q->unsure = true;
        return kfd_set(q, q->hal.held);
}

/* EIO: a reset is under way. ETIME: the hardware did not stop in time. EACCES: the queue was reset. Calling again does
 * not help with any of them. */
static void kfd_note_failure(KfdHalDevice *d, int r) {
        if (r != -EIO && r != -ETIME && r != -EACCES)
                return;
        if (d->level > LEVEL_GATE)
                d->level = LEVEL_GATE;
        d->degraded = true;
        d->error = r;
}

static int kfd_apply(HalQueue *hal, bool held) {
        KfdHalQueue *q = kfd_queue(hal);

        int r = kfd_set(q, held);
        if (r < 0) {
                kfd_note_failure(q->device, r);
                (void) kfd_hal_reapply(q);
        }
        return r;
}

/* Applies the state again to `unsure` queues whose `held` is right already. */
static int kfd_settle(HalQueue *const *queues, size_t n, bool held) {
        int result = 0;

        for (size_t i = 0; i < n; i++) {
                KfdHalQueue *q = kfd_queue(queues[i]);
                int r = q->unsure && q->hal.held == held ? kfd_hal_reapply(q) : 0;
                if (r < 0 && result == 0)
                        result = r;
        }
        return result;
}

static int kfd_batch(HalQueue *const *queues, size_t n, bool held) {
        if (n == 0)
                return 0;
        int unsettled = kfd_settle(queues, n, held), r = hal_apply_each(queues, n, held, kfd_apply);

        return r < 0 ? r : unsettled;
}

static int kfd_hold(HalQueue *const *queues, size_t n) {
        return kfd_batch(queues, n, true);
}

static int kfd_release(HalQueue *const *queues, size_t n) {
        return kfd_batch(queues, n, false);
}

const HalOps hal_kfd_ops = {
                .name = "kfd",
                .hold = kfd_hold,
                .release = kfd_release,
};
