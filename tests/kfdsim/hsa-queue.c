/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A queue of the first GPU
 */

#include "hsa-queue.h"

#include <dlfcn.h>

#include "common/macro.h"
#include "fake-rocr.h"
#include "hal/kfd-abi.h"
#include "tests/lib/bus-cases.h"

#define INFO_BREAK   1
#define AGENT_DEVICE 17
#define DEVICE_GPU   1

typedef int AgentCallback(FakeAgent agent, void *userdata);

/* hsa/hsa.h */
int hsa_init(void);
int hsa_iterate_agents(AgentCallback *f, void *userdata);
int hsa_agent_get_info(FakeAgent agent, int what, void *ret);
int hsa_queue_create(FakeAgent agent, uint32_t size, uint32_t type, HsaQueueError *callback, void *data,
                uint32_t private_size, uint32_t group_size, void **ret);

static int take_gpu(FakeAgent agent, void *userdata) {
        uint32_t type;

        CHECK(hsa_agent_get_info(agent, AGENT_DEVICE, &type) == HSA_SUCCESS);
        if (type != DEVICE_GPU)
                return HSA_SUCCESS;
        *(FakeAgent *) userdata = agent;
        return INFO_BREAK;
}

static void *make_by_descriptor(FakeAgent gpu, uint32_t n_packets) {
        FakeQueueDesc d = {
                        .version = FAKE_QUEUE_DESC_VERSION,
                        .engine_type = FAKE_ENGINE_COMPUTE,
                        .queue_size_bytes = n_packets * KFD_AQL_PACKET_SIZE,
        };
        FakeQueueCreate *create = (FakeQueueCreate *) (uintptr_t) dlsym(RTLD_DEFAULT, "hsa_amd_queue_create");

        CHECK(create && create(gpu, &d, 1) == HSA_SUCCESS && d.queue);
        return d.queue;
}

void *hsa_queue_make(uint32_t n_packets) {
        return hsa_queue_make_with(n_packets, NULL, NULL);
}

void *hsa_queue_make_with(uint32_t n_packets, HsaQueueError *callback, void *userdata) {
        FakeAgent gpu = {0};
        void *queue;

        CHECK(hsa_init() == HSA_SUCCESS);
        CHECK(hsa_iterate_agents(take_gpu, &gpu) == INFO_BREAK);
        if (streq(strempty(getenv("HSA_CREATE")), "descriptor"))
                return make_by_descriptor(gpu, n_packets);
        CHECK(hsa_queue_create(gpu, n_packets, 0, callback, userdata, UINT32_MAX, UINT32_MAX, &queue) == HSA_SUCCESS);
        return queue;
}
