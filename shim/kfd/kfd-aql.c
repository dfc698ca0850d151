/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the runtime's view of a queue by the arguments with which the kernel makes the queue
 */

#include "shim/kfd/kfd-aql.h"

#include <signal.h>
#include <sys/syscall.h>

#include "common/macro.h"

/* The kernel reads a set of signals before it finds out that it is asked to do nothing that it knows. Reading another
 * process's memory, or our own, by a system call for that does not work where memory is a device's. */
static bool is_word_readable(uintptr_t p) {
        return syscall(SYS_rt_sigprocmask, ~0, p & ~(uintptr_t) 7, NULL, sizeof(uint64_t)) < 0 && errno != EFAULT;
}

bool kfd_aql_is_readable(const void *p, size_t size) {
        PROTECT_ERRNO;

        return is_word_readable((uintptr_t) p) && is_word_readable((uintptr_t) p + size - 1);
}

static bool is_doorbell(HsaSignal signal, const AmdQueue *q) {
        const AmdSignal *s = (const AmdSignal *) (uintptr_t) signal.handle;

        return signal.handle != 0 && signal.handle % sizeof(*s) == 0 && kfd_aql_is_readable(s, sizeof(*s)) &&
                        s->kind == AMD_SIGNAL_DOORBELL && s->queue == q;
}

const AmdQueue *kfd_aql_of(const HsaQueue *queue) {
        const AmdQueue *q = (const AmdQueue *) queue;

        if ((uintptr_t) q % sizeof(uint64_t) != 0 || !kfd_aql_is_readable(q, sizeof(*q)))
                return NULL;
        return queue->base_address && queue->size > 0 && is_doorbell(queue->doorbell_signal, q) ? q : NULL;
}

const AmdQueue *kfd_aql_find(const KfdCreateQueue *a) {
        const AmdQueue *q = (const AmdQueue *) (uintptr_t) (a->write_pointer_address - offsetof(AmdQueue, write_index));

        if (a->queue_type != KFD_QUEUE_COMPUTE_AQL || (uintptr_t) q % sizeof(uint64_t) != 0 ||
                        a->read_pointer_address != (uintptr_t) &q->read_index || !kfd_aql_is_readable(q, sizeof(*q)))
                return NULL;
        return (uintptr_t) q->hsa_queue.base_address == a->ring_base_address &&
                                        (uint64_t) q->hsa_queue.size * KFD_AQL_PACKET_SIZE <= a->ring_size &&
                                        is_doorbell(q->hsa_queue.doorbell_signal, q)
                        ? q
                        : NULL;
}

/* Reads a member that the runtime and the firmware may be writing. */
#define LOOK(member) __atomic_load_n(&(member), __ATOMIC_RELAXED)

/* In ROCm 7 and later: whether the runtime has limited the use of scratch memory to packets up to this index, and the
 * queue is not past it yet. UINT64_MAX: there is no limit. */
static bool is_before(const AmdQueue *q, uint64_t index) {
        return index != UINT64_MAX && index >= LOOK(q->read_index);
}

/* In ROCm 6.1 to 6.4 the runtime takes memory back when there is some, and the packets are told that there is none. */
bool kfd_aql_reclaims(const AmdQueue *q) {
        uint32_t caps = LOOK(q->caps);

        if (caps & AMD_QUEUE_CAPS_SW)
                return is_before(q, LOOK(q->scratch_index)) || is_before(q, LOOK(q->alt_scratch_index));
        if (!(caps & AMD_QUEUE_CAPS_CP))
                return false;
        return (LOOK(q->scratch_size) > 0 && LOOK(q->scratch_lane_size) == 0) ||
                        (LOOK(q->alt_scratch_size) > 0 && LOOK(q->alt_scratch_lane_size) == 0);
}
