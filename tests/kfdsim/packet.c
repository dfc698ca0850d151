/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Packets: reads the packet at a queue's read index, and executes it
 *
 * Everything here reads and writes memory of the process that the queue belongs to, so only its own engine may call it.
 */

#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "aql.h"
#include "shim/kfd/hsa.h"
#include "sim.h"

#define DEFAULT_KERNEL_NS (10 * NSEC_PER_USEC)

static uint64_t read_index(const SimQueue *q) {
        return __atomic_load_n((uint64_t *) (uintptr_t) q->read_pointer, __ATOMIC_ACQUIRE);
}

static uint64_t write_index(const SimQueue *q) {
        return __atomic_load_n((uint64_t *) (uintptr_t) q->write_pointer, __ATOMIC_ACQUIRE);
}

static uint64_t n_places(const SimQueue *q) {
        return q->type == KFD_QUEUE_COMPUTE_AQL ? q->ring_size / sizeof(AqlPacket) : 0;
}

static AqlPacket *queue_place(const SimQueue *q, uint64_t index) {
        return (AqlPacket *) (uintptr_t) q->ring + index % n_places(q);
}

static uint16_t packet_type(const AqlPacket *p) {
        return __atomic_load_n(&p->header, __ATOMIC_ACQUIRE) & 0xff;
}

/* Of this process's queues, by their doorbells, which no two have in common. */
static AqlPacket copies[SIM_DOORBELLS][SIM_FETCH_MAX];

static AqlPacket *queue_copy(const SimQueue *q, uint64_t index) {
        return copies[q->doorbell] + index % SIM_FETCH_MAX;
}

/* Fetches packets that are announced and written: at a place without a packet the hardware looks again. */
static void queue_fetch(SimQueue *q) {
        uint64_t read = read_index(q), ahead = read + MIN(SIM_FETCH_MAX, n_places(q)),
                 end = MIN(atomic_load(&q->rung), ahead), i = MAX(atomic_load(&q->fetched), read);

        for (; i < end && packet_type(queue_place(q, i)) != AQL_INVALID; i++)
                memcpy(queue_copy(q, i), queue_place(q, i), sizeof(AqlPacket));
        atomic_store(&q->fetched, i);
}

void sim_packet_look(SimQueue *q) {
        uint64_t w = write_index(q);

        if (w > atomic_load(&q->rung))
                atomic_store(&q->rung, w);
        if (n_places(q) > 0)
                queue_fetch(q);
}

/* Whether the place has no packet. A packet that is being retired has no header any more, but still has its place. */
static bool is_torn(const SimQueue *q, uint64_t index) {
        return packet_type(queue_place(q, index)) == AQL_INVALID && atomic_load(&q->execution) != SIM_RETIRING &&
                        index >= read_index(q);
}

static KfdsimTorn last_torn;

KfdsimTorn sim_packet_last_torn(void) {
        return last_torn;
}

/* Called under the lock. */
uint64_t sim_packets_torn(const SimQueue *q) {
        uint64_t read = n_places(q) > 0 ? read_index(q) : 0, torn = 0,
                 end = n_places(q) > 0 ? MIN(write_index(q), read + n_places(q)) : 0;

        for (uint64_t i = read; i < end; i++)
                if (is_torn(q, i)) {
                        last_torn = (KfdsimTorn){.index = i, .found_ns = now_ns()};
                        torn++;
                }
        return torn;
}

/* The packet at the read index, once it is fetched. */
static const AqlPacket *queue_packet(const SimQueue *q) {
        return queue_copy(q, read_index(q));
}

/* A thread that rings has written the packet that it announces; packets before it may be another thread's. A GPU would
 * run whatever those places hold, and hang: here the process ends. Only the thread that retires packets may call it. */
void sim_packet_check(const SimQueue *q, uint64_t value) {
        uint64_t n = n_places(q), read = n > 0 ? read_index(q) : 0;

        if (n == 0 || value == SIM_DOORBELL_SILENT || value < read)
                return;
        if (value - read < n && packet_type(queue_place(q, value)) != AQL_INVALID)
                return;
        (void) fprintf(stderr, "kfdsim: queue %u: packet %llu is announced, which nobody has written; it is at %llu\n",
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
        return q->type == KFD_QUEUE_SDMA || q->type == KFD_QUEUE_SDMA_XGMI || q->type == KFD_QUEUE_SDMA_BY_ENGINE;
}

bool sim_queue_is_executed(const SimQueue *q) {
        return q->type == KFD_QUEUE_COMPUTE_AQL || is_sdma(q);
}

/* The GPUs that the driver has taken this process's queues off, by bits. */
static _Atomic uint32_t gpus_lost;

void sim_packet_forget(void) {
        atomic_store(&gpus_lost, 0);
}

static bool is_lost(const SimQueue *q) {
        return atomic_load(&gpus_lost) & (1U << q->gpu);
}

bool sim_packet_is_ready(SimQueue *q) {
        if (!atomic_load(&q->mapped) || atomic_load(&q->stalled) || atomic_load(&q->halted) || is_lost(q))
                return false;
        if (is_sdma(q))
                return sim_sdma_is_ready(q);
        if (n_places(q) == 0 || read_index(q) >= atomic_load(&q->rung))
                return false;
        queue_fetch(q);
        if (read_index(q) >= atomic_load(&q->fetched))
                return false;
        const AqlPacket *p = queue_packet(q);
        switch (packet_type(p)) {
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

/* With the change the signal may be gone: its event is read before. */
static void signal_change(AqlSignal *s, int64_t add, int64_t set) {
        uint64_t mailbox = s->event_mailbox;
        uint32_t event = s->event_id;

        if (add != 0)
                __atomic_fetch_add(&s->value, add, __ATOMIC_ACQ_REL);
        else
                __atomic_store_n(&s->value, set, __ATOMIC_RELEASE);
        if (mailbox) {
                __atomic_store_n((uint64_t *) (uintptr_t) mailbox, event, __ATOMIC_RELEASE);
                sim_event_raise(event);
        }
}

static void signal_decrement(uint64_t handle, uint64_t begun_ns, uint64_t ended_ns) {
        AqlSignal *s = (void *) (uintptr_t) handle;

        if (!s)
                return;
        s->start_ts = sim_gpu_clock(begun_ns);
        s->end_ts = sim_gpu_clock(ended_ns);
        signal_change(s, -1, 0);
}

/* As the driver tells a runtime. It tells a debugger in its place, which is not modelled. */
static void exception_tell(const SimQueue *q, uint64_t mask) {
        const KfdSaveAreaHeader *h = (const KfdSaveAreaHeader *) (uintptr_t) q->save_area;

        sim_lock();
        const SimProcess *p = sim_process_self();
        bool told = p && p->runtime_enabled && h && h->err_payload_addr != 0;
        sim_unlock();
        if (!told)
                return;
        __atomic_fetch_or((uint64_t *) (uintptr_t) h->err_payload_addr, mask, __ATOMIC_ACQ_REL);
        sim_event_raise(h->err_event_id);
}

/* The packet stays where it is. */
bool sim_packet_fault(SimQueue *q) {
        const AqlPacket *p = is_sdma(q) ? NULL : queue_packet(q);
        const AqlKernel *k = p && packet_type(p) == AQL_DISPATCH ? packet_kernel(p) : NULL;

        if (!k || k->fault == 0)
                return false;
        if (k->fault == AQL_FAULT_MEMORY) {
                const KfdMemoryFault fault = {
                                .not_present = 1,
                                .address = AQL_FAULT_ADDRESS,
                                .gpu_id = sim_world()->gpus[q->gpu].gpu_id,
                };
                atomic_fetch_or(&gpus_lost, 1U << q->gpu);
                sim_event_fault(&fault);
                return true;
        }
        if (k->fault == AQL_FAULT_HANG) {
                sim_gpu_reset(sim_world()->gpus + q->gpu, KFD_RESET_HANG);
                return true;
        }
        if (k->fault < AQL_FAULT_EXCEPTION(AQL_EXCEPTIONS)) {
                atomic_store(&q->halted, true);
                exception_tell(q, KFD_EXCEPTION_MASK(k->fault - AQL_FAULT_EXCEPTION(0)));
                return true;
        }
        const AmdQueue *queue = container_of((const uint64_t *) (uintptr_t) q->write_pointer, AmdQueue, write_index);
        atomic_store(&q->stalled, true);
        signal_change((AqlSignal *) (uintptr_t) queue->inactive_signal.handle, 0, k->fault);
        return true;
}

/* Frees the slot before it advances the read index, and completes the signal last: a thread that waits for the signal
 * finds the queue's indices up to date. */
void sim_packet_retire(SimQueue *q, uint64_t ended_ns) {
        if (is_sdma(q)) {
                sim_sdma_retire(q);
                return;
        }
        const AqlPacket *p = queue_packet(q);
        uint64_t completion = p->completion_signal;

        if (packet_type(p) == AQL_DISPATCH && packet_kernel(p))
                aql_prove((AqlProof *) (uintptr_t) p->dispatch.kernarg, p->dispatch.reserved2);
        __atomic_store_n(&queue_place(q, read_index(q))->header, AQL_INVALID, __ATOMIC_RELEASE);
        __atomic_fetch_add((uint64_t *) (uintptr_t) q->read_pointer, 1, __ATOMIC_ACQ_REL);
        signal_decrement(completion, q->begun_ns, ended_ns);
}
