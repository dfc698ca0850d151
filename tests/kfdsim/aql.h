/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * AQL: packets and signals as the architected queuing language lays them out, the simulator's kernels, and a client
 * that uses them
 *
 * Layouts follow the HSA platform system architecture specification 1.2 (packets) and amd_hsa_signal.h (signals). A
 * kernel here is a duration and a proof: AqlPacket.dispatch.kernel_object points to an AqlKernel, kernarg to an
 * AqlProof, and reserved2 is the number of the dispatch, from 1. The engine proves each execution; a reader tells lost,
 * doubled, reordered and unfinished ones apart.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AQL_KERNEL_MAGIC UINT64_C(0x4c4e524b4d49534b)

enum {
        AQL_VENDOR = 0,
        AQL_INVALID = 1,
        AQL_DISPATCH = 2,
        AQL_BARRIER_AND = 3,
        AQL_AGENT = 4,
        AQL_BARRIER_OR = 5,
};

typedef struct AqlPacket {
        uint16_t header; /* type in the low byte; written last */
        uint16_t setup;
        union {
                struct {
                        uint16_t workgroup[3];
                        uint16_t reserved0;
                        uint32_t grid[3];
                        uint32_t private_size, group_size;
                        uint64_t kernel_object;
                        uint64_t kernarg;
                        uint64_t reserved2;
                } __attribute__((packed)) dispatch;
                struct {
                        uint32_t reserved1;
                        uint64_t dependency[5];
                        uint64_t reserved2;
                } __attribute__((packed)) barrier;
        };
        uint64_t completion_signal;
} AqlPacket;

_Static_assert(sizeof(AqlPacket) == 64, "an AQL packet");
_Static_assert(offsetof(AqlPacket, dispatch.kernel_object) == 32, "kernel_object");
_Static_assert(offsetof(AqlPacket, dispatch.kernarg) == 40, "kernarg");
_Static_assert(offsetof(AqlPacket, barrier.dependency) == 8, "dependencies");
_Static_assert(offsetof(AqlPacket, completion_signal) == 56, "completion_signal");

typedef struct AqlSignal {
        int64_t kind;
        int64_t value;
        uint64_t event_mailbox;
        uint32_t event_id;
        uint32_t reserved1;
        uint64_t start_ts, end_ts; /* of what it completes, by the GPU's clock */
        uint32_t reserved2[4];
} __attribute__((aligned(64))) AqlSignal;

_Static_assert(sizeof(AqlSignal) == 64, "amd_signal_t");

/* The kernel uses this address, which is not mapped; it hangs the GPU; it causes an exception of the queue (KFD_EC_*).
 */
#define AQL_FAULT_MEMORY       INT64_MIN
#define AQL_FAULT_ADDRESS      UINT64_C(0x123456789000)
#define AQL_FAULT_HANG         (INT64_MIN + 1)
#define AQL_FAULT_EXCEPTION(n) (INT64_MIN + 2 + (n))
#define AQL_EXCEPTIONS         64

typedef struct AqlKernel {
        uint64_t magic;
        uint64_t duration_ns;
        /* Of queues of HSA runtimes: what the device writes into the queue's inactive signal, or AQL_FAULT_*; 0: none.
         */
        int64_t fault;
} AqlKernel;

/* Written by the engine, one packet after the other; read by anybody. Entry N % capacity of `seen` counts the
 * executions of dispatch N; the application clears an entry before it uses it again. */
typedef struct AqlProof {
        uint64_t n_executed;
        uint64_t highest;   /* number of a dispatch so far */
        uint64_t n_late;    /* executed after one with a higher number, for the first time */
        uint64_t n_doubled; /* executed again */
        uint32_t capacity;
        uint32_t reserved;
        uint8_t seen[];
} AqlProof;

static inline void aql_prove(AqlProof *p, uint64_t number) {
        uint8_t *seen = p->seen + number % p->capacity;

        if (number > p->highest)
                __atomic_store_n(&p->highest, number, __ATOMIC_RELAXED);
        else if (*seen > 0)
                __atomic_fetch_add(&p->n_doubled, 1, __ATOMIC_RELAXED);
        else
                __atomic_fetch_add(&p->n_late, 1, __ATOMIC_RELAXED);
        if (*seen < UINT8_MAX)
                __atomic_fetch_add(seen, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&p->n_executed, 1, __ATOMIC_RELEASE);
}

/* --- the client: an application without a runtime, over the real libhsakmt --- */

/* The n-th GPU of the system, and the process's connection to KFD. */
typedef struct AqlDevice {
        uint32_t node;
        uint32_t gpu_id;
        char pci[32]; /* "DDDD:BB:DD.F" */
} AqlDevice;

int aql_device_open(unsigned nth, AqlDevice *ret); /* -ENODEV: no such GPU */
void aql_device_close(AqlDevice *d);

/* One producer at a time, as with any AQL queue. */
typedef struct AqlQueue AqlQueue;

typedef struct AqlOptions {
        uint32_t n_packets;  /* a power of 2, 16 at least; 0: 256 */
        uint32_t percentage; /* as the runtime asks for it; 0: 100 */
        bool created_stopped;
        int priority; /* -3..3 */
} AqlOptions;

int aql_queue_create(const AqlDevice *d, const AqlOptions *o, AqlQueue **ret);
int aql_queue_destroy(AqlQueue *q);
int aql_queue_update(AqlQueue *q, uint32_t percentage); /* through the thunk; a negative errno */

/* Packets are seen by the GPU at the next ring. -EAGAIN: the ring is full. A dispatch returns nothing but its proof. */
typedef struct AqlCompletion AqlCompletion;
int aql_dispatch(AqlQueue *q, uint64_t duration_ns, AqlCompletion *done);
int aql_barrier(AqlQueue *q, bool any, AqlCompletion *const *dependencies, size_t n, AqlCompletion *done);
void aql_ring(AqlQueue *q);
void aql_ring_late(AqlQueue *q); /* as a thread that had no time yet to ring for all but the newest packet */

/* Mistakes and delays of programs. aql_reserve(): takes the place of the next packet, without writing it.
 * aql_ring_unwritten(): rings for that place. aql_newest(): the newest packet, to be changed after it was announced. */
void aql_reserve(AqlQueue *q);
void aql_ring_unwritten(AqlQueue *q);
AqlPacket *aql_newest(AqlQueue *q);

uint64_t aql_queue_backlog(const AqlQueue *q);            /* packets written and not consumed */
uint64_t aql_queue_executed(const AqlQueue *q);           /* dispatches */
int aql_queue_wait(const AqlQueue *q, uint64_t until_ns); /* for an empty queue; -ETIMEDOUT */
AqlProof *aql_queue_proof(AqlQueue *q);
uint32_t aql_queue_id(const AqlQueue *q); /* KFD's */

/* Completion signals; waiting is by polling, or asleep until KFD's event. -ETIMEDOUT. */
int aql_completion_create(const AqlDevice *d, int64_t value, bool by_event, AqlCompletion **ret);
void aql_completion_destroy(AqlCompletion *c);
void aql_completion_set(AqlCompletion *c, int64_t value);
int64_t aql_completion_value(const AqlCompletion *c);
int aql_completion_wait(AqlCompletion *c, uint64_t until_ns); /* until it is 0 or less */

/* The state of a queue's dispatches, by their proofs. */
typedef struct AqlReport {
        uint64_t n_dispatched;
        uint64_t n_executed;
        uint64_t n_lost;       /* consumed, and never executed */
        uint64_t n_doubled;    /* executed again */
        uint64_t n_late;       /* executed after a later one */
        uint64_t n_unfinished; /* not yet consumed */
} AqlReport;

AqlReport aql_queue_report(AqlQueue *q);

/* Everything executed once and in order. */
static inline bool aql_report_is_clean(const AqlReport *r) {
        return r->n_executed == r->n_dispatched && r->n_lost == 0 && r->n_doubled == 0 && r->n_late == 0 &&
                        r->n_unfinished == 0;
}
