/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Packets: what stands at a queue's read index, and what its execution does
 *
 * Everything here reads and writes memory of the process that the queue belongs to, so only its own engine may call it.
 */

#include <stdio.h>

#include "aql.h"
#include "sim.h"

#define DEFAULT_KERNEL_NS (10 * NSEC_PER_USEC)

static uint64_t read_index(const SimQueue *q) {
        return __atomic_load_n((uint64_t *) (uintptr_t) q->read_pointer, __ATOMIC_ACQUIRE);
}

void sim_packet_look(SimQueue *q) {
        uint64_t w = __atomic_load_n((uint64_t *) (uintptr_t) q->write_pointer, __ATOMIC_ACQUIRE);

        if (w > atomic_load(&q->rung))
                atomic_store(&q->rung, w);
}

static AqlPacket *queue_packet(const SimQueue *q) {
        uint64_t n = q->ring_size / sizeof(AqlPacket);

        return (AqlPacket *) (uintptr_t) q->ring + read_index(q) % n;
}

static uint16_t packet_type(const AqlPacket *p) {
        return __atomic_load_n(&p->header, __ATOMIC_ACQUIRE) & 0xff;
}

/* Whoever rings has written the packet that he announces; those before it may be another thread's. A GPU would run what
 * stands there, and hang: here the process ends. To be called where packets are retired, by no other thread. */
void sim_packet_check(const SimQueue *q, uint64_t value) {
        uint64_t n = q->ring_size / sizeof(AqlPacket), read = read_index(q);

        if (q->type != KFD_QUEUE_COMPUTE_AQL || n == 0 || value == SIM_DOORBELL_SILENT || value < read)
                return;
        const AqlPacket *p = (AqlPacket *) (uintptr_t) q->ring + value % n;
        if (value - read < n && packet_type(p) != AQL_INVALID)
                return;
        (void) fprintf(stderr,
                        "kfdsim: queue %u: packet %llu is announced, which nobody has written; it is at %llu\n",
                        q->id, (unsigned long long) value, (unsigned long long) read);
        abort();
}

static bool barrier_is_met(const AqlPacket *p, bool any) {
        bool some = false, none = true;

        for (size_t i = 0; i < ELEMENTSOF(p->barrier.dependency); i++) {
                const AqlSignal *s = (void *) (uintptr_t) p->barrier.dependency[i];
                if (!s)
                        continue;
                bool met = __atomic_load_n(&s->value, __ATOMIC_ACQUIRE) <= 0;
                if (!met && !any)
                        return false;
                some |= met;
                none = false;
        }
        return some || none || !any;
}

static bool is_sdma(const SimQueue *q) {
        return q->type == KFD_QUEUE_SDMA || q->type == KFD_QUEUE_SDMA_XGMI ||
                        q->type == KFD_QUEUE_SDMA_BY_ENGINE;
}

bool sim_queue_is_executed(const SimQueue *q) {
        return q->type == KFD_QUEUE_COMPUTE_AQL || is_sdma(q);
}

bool sim_packet_is_ready(const SimQueue *q) {
        if (!atomic_load(&q->mapped))
                return false;
        if (is_sdma(q))
                return sim_sdma_is_ready(q);
        if (q->type != KFD_QUEUE_COMPUTE_AQL || q->ring_size == 0 || read_index(q) >= atomic_load(&q->rung))
                return false;
        const AqlPacket *p = queue_packet(q);
        switch (packet_type(p)) {
        case AQL_INVALID:
                return false;
        case AQL_BARRIER_AND:
                return barrier_is_met(p, false);
        case AQL_BARRIER_OR:
                return barrier_is_met(p, true);
        default:
                return true;
        }
}

static const AqlKernel *packet_kernel(const AqlPacket *p) {
        const AqlKernel *k = (void *) (uintptr_t) p->dispatch.kernel_object;

        return k && k->magic == AQL_KERNEL_MAGIC ? k : NULL;
}

uint64_t sim_packet_duration(const SimQueue *q) {
        const AqlPacket *p = queue_packet(q);

        if (is_sdma(q) || packet_type(p) != AQL_DISPATCH)
                return 0;
        const AqlKernel *k = packet_kernel(p);
        return k ? k->duration_ns : DEFAULT_KERNEL_NS;
}

static void signal_decrement(uint64_t handle, uint64_t begun_ns, uint64_t ended_ns) {
        AqlSignal *s = (void *) (uintptr_t) handle;

        if (!s)
                return;
        s->start_ts = sim_gpu_clock(begun_ns);
        s->end_ts = sim_gpu_clock(ended_ns);
        uint64_t mailbox = s->event_mailbox;
        uint32_t event = s->event_id;
        __atomic_fetch_sub(&s->value, 1, __ATOMIC_ACQ_REL); /* from here on it may be gone */
        if (mailbox) {
                __atomic_store_n((uint64_t *) (uintptr_t) mailbox, event, __ATOMIC_RELEASE);
                sim_event_raise(event);
        }
}

/* The slot is free before the read index says so, and the signal comes last: who waits for it finds the queue's indices
 * up to date. */
void sim_packet_retire(SimQueue *q, uint64_t ended_ns) {
        if (is_sdma(q)) {
                sim_sdma_retire(q);
                return;
        }
        AqlPacket *p = queue_packet(q);
        uint64_t completion = p->completion_signal;

        if (packet_type(p) == AQL_DISPATCH && packet_kernel(p))
                aql_prove((AqlProof *) (uintptr_t) p->dispatch.kernarg, p->dispatch.reserved2);
        __atomic_store_n(&p->header, AQL_INVALID, __ATOMIC_RELEASE);
        __atomic_fetch_add((uint64_t *) (uintptr_t) q->read_pointer, 1, __ATOMIC_ACQ_REL);
        signal_decrement(completion, q->begun_ns, ended_ns);
}
