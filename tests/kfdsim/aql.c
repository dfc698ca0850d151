/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The AQL client: queues, packets and completions over the real libhsakmt
 *
 * It does what a runtime does: memory, queue and event come from the thunk; packets, indices and doorbells are plain
 * stores. So a layer between a runtime and the kernel is between this client and the simulator in the same way.
 */

#include <errno.h>
#include <hsakmt.h>
#include <stdio.h>

#include "aql.h"
#include "common/macro.h"
#include "common/time-util.h"

#define PAGE            4096U
#define POLL_US         20U
#define PACKETS_DEFAULT 256U
#define BARRIER_BIT     (1U << 8)
#define FENCES          (2U << 9 | 2U << 11) /* acquire and release, system scope */
#define BARRIER_MAX     5U

/* The indices where amd_queue_t has them. */
typedef struct Indices {
        uint8_t before_write[56];
        uint64_t write;
        uint8_t before_read[64];
        uint64_t read;
} Indices;

_Static_assert(offsetof(Indices, write) == 56 && offsetof(Indices, read) == 128, "amd_queue_t");

struct AqlQueue {
        HSA_QUEUEID id;
        AqlPacket *ring;
        uint32_t n_packets;
        uint64_t *doorbell;
        Indices *indices;
        AqlKernel *kernels;
        AqlProof *proof;
        size_t proof_size;
        uint64_t *numbers; /* of the dispatch in each slot; 0: none */
        uint64_t written;  /* packets */
        uint64_t n_dispatched, n_folded, n_lost;
};

struct AqlCompletion {
        AqlSignal *signal;
        HsaEvent *event;
};

/* --- the device --- */

static int read_number(uint32_t node, const char *name, uint32_t *ret) {
        char path[128];
        (void) snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%u/%s", node, name);
        FILE *f = fopen(path, "re");
        if (!f)
                return negative_errno();
        int n = fscanf(f, "%u", ret);
        (void) fclose(f);
        return n == 1 ? 0 : -EBADMSG;
}

static int find_gpu(unsigned nth, AqlDevice *ret) {
        HsaSystemProperties system;

        if (hsaKmtAcquireSystemProperties(&system) != HSAKMT_STATUS_SUCCESS)
                return -ENODEV;
        for (uint32_t node = 0; node < system.NumNodes; node++) {
                HsaNodeProperties p;
                if (hsaKmtGetNodeProperties(node, &p) != HSAKMT_STATUS_SUCCESS || p.NumFComputeCores == 0 || nth-- > 0)
                        continue;
                AqlDevice d = {.node = node};
                int r = read_number(node, "gpu_id", &d.gpu_id);
                if (r < 0)
                        return r;
                (void) snprintf(d.pci, sizeof(d.pci), "%04x:%02x:%02x.%x", p.Domain, p.LocationId >> 8 & 0xff,
                                p.LocationId >> 3 & 0x1f, p.LocationId & 7);
                *ret = d;
                return 0;
        }
        return -ENODEV;
}

int aql_device_open(unsigned nth, AqlDevice *ret) {
        HSAKMT_STATUS s = hsaKmtOpenKFD();
        if (s != HSAKMT_STATUS_SUCCESS && s != HSAKMT_STATUS_KERNEL_ALREADY_OPENED)
                return -ENODEV;
        int r = find_gpu(nth, ret);
        if (r < 0)
                (void) hsaKmtCloseKFD();
        return r;
}

void aql_device_close(AqlDevice *d) {
        (void) hsaKmtReleaseSystemProperties();
        (void) hsaKmtCloseKFD();
}

static void *memory_new(size_t size) {
        HsaMemFlags flags = {.ui32 = {.HostAccess = 1, .ExecuteAccess = 1, .NonPaged = 1}};
        HSAuint64 va;
        void *p;

        if (hsaKmtAllocMemory(0, size, flags, &p) != HSAKMT_STATUS_SUCCESS)
                return NULL;
        if (hsaKmtMapMemoryToGPU(p, size, &va) != HSAKMT_STATUS_SUCCESS) {
                (void) hsaKmtFreeMemory(p, size);
                return NULL;
        }
        memset(p, 0, size);
        return p;
}

static void memory_free(void *p, size_t size) {
        if (!p)
                return;
        (void) hsaKmtUnmapMemoryToGPU(p);
        (void) hsaKmtFreeMemory(p, size);
}

static size_t whole_pages(size_t n) {
        return DIV_ROUND_UP(n, PAGE) * PAGE;
}

/* --- queues --- */

static void queue_free(AqlQueue *q) {
        memory_free(q->ring, whole_pages(q->n_packets * sizeof(AqlPacket)));
        memory_free(q->indices, PAGE);
        memory_free(q->kernels, whole_pages(q->n_packets * sizeof(AqlKernel)));
        memory_free(q->proof, q->proof_size);
        free(q->numbers);
        free(q);
}

static bool queue_allocate(AqlQueue *q) {
        uint32_t capacity = 4 * q->n_packets;

        q->proof_size = whole_pages(sizeof(AqlProof) + capacity);
        q->ring = memory_new(whole_pages(q->n_packets * sizeof(AqlPacket)));
        q->indices = memory_new(PAGE);
        q->kernels = memory_new(whole_pages(q->n_packets * sizeof(AqlKernel)));
        q->proof = memory_new(q->proof_size);
        q->numbers = calloc(q->n_packets, sizeof(*q->numbers));
        if (!q->ring || !q->indices || !q->kernels || !q->proof || !q->numbers)
                return false;
        q->proof->capacity = capacity;
        for (uint32_t i = 0; i < q->n_packets; i++)
                q->ring[i].header = AQL_INVALID;
        return true;
}

int aql_queue_create(const AqlDevice *d, const AqlOptions *o, AqlQueue **ret) {
        AqlQueue *q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        q->n_packets = o && o->n_packets > 0 ? o->n_packets : PACKETS_DEFAULT;
        if (!queue_allocate(q)) {
                queue_free(q);
                return -ENOMEM;
        }

        HsaQueueResource r = {
                        .Queue_write_ptr_aql = (HSAuint64 *) &q->indices->write,
                        .Queue_read_ptr_aql = (HSAuint64 *) &q->indices->read,
        };
        uint32_t percentage = o && o->percentage > 0 ? o->percentage : 100;
        if (o && o->created_stopped)
                percentage = 0;
        if (hsaKmtCreateQueue(d->node, HSA_QUEUE_COMPUTE_AQL, percentage, o ? o->priority : 0, q->ring,
                            q->n_packets * sizeof(AqlPacket), NULL, &r) != HSAKMT_STATUS_SUCCESS) {
                queue_free(q);
                return -EIO;
        }
        q->id = r.QueueId;
        q->doorbell = (uint64_t *) r.Queue_DoorBell_aql;
        *ret = q;
        return 0;
}

int aql_queue_destroy(AqlQueue *q) {
        if (!q)
                return 0;
        if (hsaKmtDestroyQueue(q->id) != HSAKMT_STATUS_SUCCESS)
                return -EIO;
        queue_free(q);
        return 0;
}

int aql_queue_update(AqlQueue *q, uint32_t percentage) {
        HSAKMT_STATUS s = hsaKmtUpdateQueue(
                        q->id, percentage, HSA_QUEUE_PRIORITY_NORMAL, q->ring, q->n_packets * sizeof(AqlPacket), NULL);

        return s == HSAKMT_STATUS_SUCCESS ? 0 : negative_errno();
}

static uint64_t queue_read_index(const AqlQueue *q) {
        return __atomic_load_n(&q->indices->read, __ATOMIC_ACQUIRE);
}

/* Adds a dispatch that can no longer be executed to the sums. */
static void queue_fold(AqlQueue *q) {
        uint8_t *seen = q->proof->seen + (q->n_folded + 1) % q->proof->capacity;

        q->n_folded++;
        q->n_lost += __atomic_load_n(seen, __ATOMIC_ACQUIRE) == 0;
        __atomic_store_n(seen, 0, __ATOMIC_RELEASE);
}

static int queue_begin(AqlQueue *q, AqlPacket **ret) {
        if (q->written - queue_read_index(q) >= q->n_packets)
                return -EAGAIN;
        AqlPacket *p = q->ring + q->written % q->n_packets;
        memset((uint8_t *) p + sizeof(p->header), 0, sizeof(*p) - sizeof(p->header));
        *ret = p;
        return 0;
}

static void queue_commit(AqlQueue *q, AqlPacket *p, uint16_t type, AqlCompletion *done) {
        p->completion_signal = done ? (uint64_t) (uintptr_t) done->signal : 0;
        __atomic_store_n(&p->header, (uint16_t) (type | BARRIER_BIT | FENCES), __ATOMIC_RELEASE);
        q->written++;
        __atomic_store_n(&q->indices->write, q->written, __ATOMIC_RELEASE);
}

int aql_dispatch(AqlQueue *q, uint64_t duration_ns, AqlCompletion *done) {
        AqlPacket *p;
        int r = queue_begin(q, &p);
        if (r < 0)
                return r;

        uint64_t slot = q->written % q->n_packets;
        if (q->n_dispatched - q->n_folded >= q->proof->capacity - q->n_packets)
                queue_fold(q);
        q->kernels[slot] = (AqlKernel){.magic = AQL_KERNEL_MAGIC, .duration_ns = duration_ns};
        q->numbers[slot] = ++q->n_dispatched;
        p->setup = 1;
        p->dispatch.workgroup[0] = p->dispatch.workgroup[1] = p->dispatch.workgroup[2] = 1;
        p->dispatch.grid[0] = p->dispatch.grid[1] = p->dispatch.grid[2] = 1;
        p->dispatch.kernel_object = (uint64_t) (uintptr_t) (q->kernels + slot);
        p->dispatch.kernarg = (uint64_t) (uintptr_t) q->proof;
        p->dispatch.reserved2 = q->n_dispatched;
        queue_commit(q, p, AQL_DISPATCH, done);
        return 0;
}

int aql_barrier(AqlQueue *q, bool any, AqlCompletion *const *dependencies, size_t n, AqlCompletion *done) {
        AqlPacket *p;
        int r = n > BARRIER_MAX ? -EINVAL : queue_begin(q, &p);
        if (r < 0)
                return r;

        q->numbers[q->written % q->n_packets] = 0;
        for (size_t i = 0; i < n; i++)
                p->barrier.dependency[i] = (uint64_t) (uintptr_t) dependencies[i]->signal;
        queue_commit(q, p, any ? AQL_BARRIER_OR : AQL_BARRIER_AND, done);
        return 0;
}

void aql_ring(AqlQueue *q) {
        if (q->written > 0)
                __atomic_store_n(q->doorbell, q->written - 1, __ATOMIC_RELEASE);
}

void aql_ring_late(AqlQueue *q) {
        if (q->written > 1)
                __atomic_store_n(q->doorbell, q->written - 2, __ATOMIC_RELEASE);
}

void aql_reserve(AqlQueue *q) {
        __atomic_store_n(&q->indices->write, q->written + 1, __ATOMIC_RELEASE);
}

void aql_ring_unwritten(AqlQueue *q) {
        __atomic_store_n(q->doorbell, q->written, __ATOMIC_RELEASE);
}

AqlPacket *aql_newest(AqlQueue *q) {
        return q->ring + (q->written - 1) % q->n_packets;
}

uint64_t aql_queue_backlog(const AqlQueue *q) {
        return q->written - queue_read_index(q);
}

uint64_t aql_queue_executed(const AqlQueue *q) {
        return __atomic_load_n(&q->proof->n_executed, __ATOMIC_ACQUIRE);
}

int aql_queue_wait(const AqlQueue *q, uint64_t until_ns) {
        while (aql_queue_backlog(q) > 0) {
                if (now_ns() >= until_ns)
                        return -ETIMEDOUT;
                (void) usleep(POLL_US);
        }
        return 0;
}

AqlProof *aql_queue_proof(AqlQueue *q) {
        return q->proof;
}

/* The thunk hands out a pointer to its own record, whose first member is KFD's number. */
uint32_t aql_queue_id(const AqlQueue *q) {
        return *(const uint32_t *) (uintptr_t) q->id;
}

AqlReport aql_queue_report(AqlQueue *q) {
        AqlReport r = {
                        .n_dispatched = q->n_dispatched,
                        .n_executed = aql_queue_executed(q),
                        .n_lost = q->n_lost,
                        .n_doubled = __atomic_load_n(&q->proof->n_doubled, __ATOMIC_ACQUIRE),
                        .n_late = __atomic_load_n(&q->proof->n_late, __ATOMIC_ACQUIRE),
        };
        uint64_t first = q->n_dispatched + 1; /* number of the first dispatch that has not been consumed */
        for (uint64_t i = queue_read_index(q); i < q->written && first > q->n_dispatched; i++)
                if (q->numbers[i % q->n_packets] > 0)
                        first = q->numbers[i % q->n_packets];
        r.n_unfinished = q->n_dispatched + 1 - first;
        for (uint64_t n = q->n_folded + 1; n < first; n++)
                r.n_lost += __atomic_load_n(q->proof->seen + n % q->proof->capacity, __ATOMIC_ACQUIRE) == 0;
        return r;
}

/* --- completions --- */

int aql_completion_create(const AqlDevice *d, int64_t value, bool by_event, AqlCompletion **ret) {
        AqlCompletion *c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->signal = memory_new(PAGE);
        if (!c->signal) {
                free(c);
                return -ENOMEM;
        }
        c->signal->kind = 1;
        aql_completion_set(c, value);
        if (by_event) {
                HsaEventDescriptor e = {.EventType = HSA_EVENTTYPE_SIGNAL, .NodeId = d->node};
                if (hsaKmtCreateEvent(&e, false, false, &c->event) != HSAKMT_STATUS_SUCCESS) {
                        aql_completion_destroy(c);
                        return -EIO;
                }
                c->signal->event_mailbox = c->event->EventData.HWData2;
                c->signal->event_id = c->event->EventId;
        }
        *ret = c;
        return 0;
}

void aql_completion_destroy(AqlCompletion *c) {
        if (!c)
                return;
        if (c->event)
                (void) hsaKmtDestroyEvent(c->event);
        memory_free(c->signal, PAGE);
        free(c);
}

void aql_completion_set(AqlCompletion *c, int64_t value) {
        __atomic_store_n(&c->signal->value, value, __ATOMIC_RELEASE);
}

int64_t aql_completion_value(const AqlCompletion *c) {
        return __atomic_load_n(&c->signal->value, __ATOMIC_ACQUIRE);
}

/* Rounds up, and never returns the value that means "for ever". */
static HSAuint32 timeout_ms(uint64_t ns) {
        return (HSAuint32) MIN(ns / NSEC_PER_MSEC + 1, (uint64_t) UINT32_MAX - 1);
}

int aql_completion_wait(AqlCompletion *c, uint64_t until_ns) {
        while (aql_completion_value(c) > 0) {
                uint64_t now = now_ns();
                if (now >= until_ns)
                        return -ETIMEDOUT;
                if (c->event)
                        (void) hsaKmtWaitOnEvent(c->event, timeout_ms(until_ns - now));
                else
                        (void) usleep(POLL_US);
        }
        return 0;
}
