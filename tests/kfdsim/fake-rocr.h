/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Models of the HSA runtime and of HIP as of ROCm 7.14 and newer, which no package has: fake-rocr.c, fake-clr.c
 *
 * They do for a program the same, in the same order, as the sources of those releases (rocr-runtime and clr of
 * rocm-systems), but in their own way. They have the part of the runtime's interface that programs and tools need to
 * make queues, write packets and ring doorbells.
 */

#include "shim/kfd/hsa.h"

/* The descriptor of a queue, for hsa_amd_queue_create(). Only a runtime and its HIP read it, and both are ours: the
 * fields are those of the release, at other offsets. */
typedef enum FakeEngine {
        FAKE_ENGINE_COMPUTE,
        FAKE_ENGINE_SDMA,
} FakeEngine;

typedef struct FakeQueueDesc {
        uint32_t version;
        uint32_t flags; /* FAKE_QUEUE_DEVICE_RING */
        uint8_t engine_type;
        uint32_t queue_size_bytes;
        int32_t priority;
        void *callback, *callback_data;
        HsaQueue *queue; /* out */
        uint32_t type, private_segment_size;
} FakeQueueDesc;

#define FAKE_QUEUE_DESC_VERSION 1U
#define FAKE_QUEUE_DEVICE_RING  1U /* the ring lies in the GPU's memory */

/* At the end of the table of AMD's extensions, which grows with each release. */
#define FAKE_HEAD             2U
#define FAKE_AMD_QUEUE_CREATE (FAKE_HEAD + 86)
#define FAKE_AMD_END          (FAKE_HEAD + 87)

/* The step of each of its tables: no release has it. */
#define FAKE_STEP 0xfa4eU

typedef struct FakeAgent {
        uint64_t handle;
} FakeAgent;

typedef int FakeQueueCreate(FakeAgent agent, FakeQueueDesc *descriptors, uint32_t n);

/* fake-rocr.c, and fake-rocr-thread.c */
int64_t fake_signal_load(HsaSignal s);
int fake_async_handler(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg);
int fake_async_function(HsaFunction *function, void *arg);
