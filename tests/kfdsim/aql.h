/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * AQL: packets and signals as the architected queuing language lays them out, and the simulator's kernels
 *
 * Layouts follow the HSA platform system architecture specification 1.2 (packets) and amd_hsa_signal.h (signals). A kernel here is a
 * duration and a proof: AqlPacket.dispatch.kernel_object points to an AqlKernel, kernarg to an AqlProof, and reserved2 is the number of
 * the dispatch, from 1. The engine proves each execution; a reader tells lost, doubled and reordered ones apart.
 */

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
        uint32_t reserved[9];
} __attribute__((aligned(64))) AqlSignal;

_Static_assert(sizeof(AqlSignal) == 64, "amd_signal_t");

typedef struct AqlKernel {
        uint64_t magic;
        uint64_t duration_ns;
} AqlKernel;

/* Written by the engine, one packet after the other; read by anybody. */
typedef struct AqlProof {
        uint64_t n_executed;
        uint64_t last;         /* number of the dispatch executed last */
        uint64_t n_disordered; /* dispatches whose number was not last + 1 */
} AqlProof;

static inline void aql_prove(AqlProof *p, uint64_t number) {
        if (number != __atomic_load_n(&p->last, __ATOMIC_RELAXED) + 1)
                __atomic_fetch_add(&p->n_disordered, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&p->last, number, __ATOMIC_RELAXED);
        __atomic_fetch_add(&p->n_executed, 1, __ATOMIC_RELEASE);
}
