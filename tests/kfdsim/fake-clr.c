/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model of HIP as of ROCm 7.14 and newer: libamdhip64.so.5 for tests, over fake-rocr.c
 *
 * As there: a stream's queue is made by a descriptor; a command takes a place, then writes the packet, its header last,
 * and then rings, under the stream's lock; DEBUG_CLR_DIRECT_DOORBELL=1 rings past the runtime; and a build that loads
 * the runtime itself finds its functions by dlsym() (ROCR_DLL_LOAD), which is a variable of the environment here. ROCm
 * 10 has the rings in the GPU's memory where it can, and writes packets into them in one piece.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "aql.h"
#include "common/macro.h"
#include "fake-rocr.h"

#define SUCCESS      0
#define ERROR        1
#define RING_PACKETS 1024U
#define LOOK_NS      20000
#define RUNTIME      "libhsa-runtime64.so.1"

typedef int AgentCallback(FakeAgent agent, void *userdata);

int hsa_init(void);
int hsa_iterate_agents(AgentCallback *f, void *userdata);
int hsa_agent_get_info(FakeAgent agent, int what, void *ret);
int hsa_amd_queue_create(FakeAgent agent, FakeQueueDesc *descriptors, uint32_t n);
int hsa_queue_destroy(HsaQueue *queue);
uint64_t hsa_queue_load_read_index_scacquire(const HsaQueue *queue);
int hsa_signal_create(int64_t value, uint32_t n, const FakeAgent *consumers, HsaSignal *ret);
int hsa_signal_destroy(HsaSignal signal);
int64_t hsa_signal_load_scacquire(HsaSignal signal);
int hsa_amd_memory_async_copy(void *to, FakeAgent to_agent, const void *from, FakeAgent from_agent, size_t size,
                uint32_t n, const HsaSignal *dependencies, HsaSignal done);

#define FUNCTIONS(X)                                                                                                   \
        X(hsa_init)                                                                                                    \
        X(hsa_iterate_agents)                                                                                          \
        X(hsa_agent_get_info)                                                                                          \
        X(hsa_amd_queue_create)                                                                                        \
        X(hsa_queue_destroy)                                                                                           \
        X(hsa_queue_load_read_index_scacquire)                                                                         \
        X(hsa_queue_add_write_index_screlease)                                                                         \
        X(hsa_signal_create)                                                                                           \
        X(hsa_signal_destroy)                                                                                          \
        X(hsa_signal_load_scacquire)                                                                                   \
        X(hsa_signal_store_relaxed)                                                                                    \
        X(hsa_signal_store_screlease)                                                                                  \
        X(hsa_amd_memory_async_copy)

static struct {
#define DECLARE(name) typeof(&name) name;
        FUNCTIONS(DECLARE)
#undef DECLARE
} hsa;

static FakeAgent host, gpu;
static bool direct_doorbell;

typedef struct Stream {
        HsaQueue *queue;
        pthread_mutex_t lock;
        HsaSignal copy; /* of the last copy */
} Stream;

typedef struct Event {
        HsaSignal done;
} Event;

static int find_agent(FakeAgent agent, void *unused) {
        uint32_t is_gpu = 0;

        (void) hsa.hsa_agent_get_info(agent, 17, &is_gpu);
        FakeAgent *place = is_gpu ? &gpu : &host;
        if (place->handle == 0)
                *place = agent;
        return SUCCESS;
}

static bool load_runtime(void) {
        void *handle = getenv("FAKE_ROCR_DLL_LOAD") ? dlopen(RUNTIME, RTLD_LAZY) : NULL;
        bool all = true;

#define FIND(name)                                                                                                     \
        if (handle)                                                                                                    \
                *(void **) &hsa.name = dlsym(handle, #name);                                                           \
        else                                                                                                           \
                hsa.name = name;                                                                                       \
        all &= hsa.name != NULL;
        FUNCTIONS(FIND)
#undef FIND
        return all;
}

/* --- commands --- */

static void wait_for(HsaSignal s) {
        while (hsa.hsa_signal_load_scacquire(s) > 0)
                (void) nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

static void ring(const Stream *s, uint64_t index) {
        const AmdSignal *doorbell = (const AmdSignal *) (uintptr_t) s->queue->doorbell_signal.handle;

        if (direct_doorbell)
                __atomic_store_n(doorbell->hardware_doorbell, index, __ATOMIC_RELEASE);
        else
                hsa.hsa_signal_store_screlease(s->queue->doorbell_signal, (int64_t) index);
}

/* The header last: with the rest of its word, as 10.x writes 64 bytes at once and the head again. */
static void write_packet(AqlPacket *to, const AqlPacket *from) {
        uint32_t head = from->header | (uint32_t) from->setup << 16;
        AqlPacket copy = *from;

        copy.header = AQL_INVALID;
        if (GENERATION >= 1000)
                memcpy(to, &copy, sizeof(copy));
        else
                memcpy((char *) to + sizeof(head), (const char *) from + sizeof(head), sizeof(*to) - sizeof(head));
        __atomic_store_n((uint32_t *) (void *) to, head, __ATOMIC_RELEASE);
}

static void submit(Stream *s, const AqlPacket *packet) {
        (void) pthread_mutex_lock(&s->lock);
        uint64_t index = hsa.hsa_queue_add_write_index_screlease(s->queue, 1);
        while (index - hsa.hsa_queue_load_read_index_scacquire(s->queue) >= s->queue->size)
                (void) sched_yield();
        write_packet((AqlPacket *) s->queue->base_address + index % s->queue->size, packet);
        ring(s, index);
        (void) pthread_mutex_unlock(&s->lock);
}

static void submit_marker(Stream *s, HsaSignal done) {
        AqlPacket p = {.header = AQL_BARRIER_AND | 1U << 8, .completion_signal = done.handle};

        hsa.hsa_signal_store_relaxed(done, 1);
        submit(s, &p);
}

/* --- what programs call --- */

#define HIP(name, params)                                                                                              \
        int name params;                                                                                               \
        _public_                                                                                                       \
        int name params

HIP(hipInit, (unsigned flags)) {
        const char *direct = getenv("DEBUG_CLR_DIRECT_DOORBELL");

        if (gpu.handle != 0)
                return SUCCESS;
        direct_doorbell = direct && streq(direct, "1");
        if (!load_runtime() || hsa.hsa_init() != SUCCESS)
                return ERROR;
        (void) hsa.hsa_iterate_agents(find_agent, NULL);
        return gpu.handle != 0 ? SUCCESS : ERROR;
}

HIP(hipSetDevice, (int device)) {
        return hipInit(0);
}

HIP(hipStreamCreate, (Stream * *ret)) {
        FakeQueueDesc d = {
                        .version = FAKE_QUEUE_DESC_VERSION,
                        .flags = GENERATION >= 1000 ? FAKE_QUEUE_DEVICE_RING : 0,
                        .engine_type = FAKE_ENGINE_COMPUTE,
                        .queue_size_bytes = RING_PACKETS * (uint32_t) sizeof(AqlPacket),
        };
        Stream *s = hipInit(0) == SUCCESS ? calloc(1, sizeof(Stream)) : NULL;

        if (!s || hsa.hsa_amd_queue_create(gpu, &d, 1) != SUCCESS || !d.queue) {
                free(s);
                return ERROR;
        }
        s->queue = d.queue;
        (void) pthread_mutex_init(&s->lock, NULL);
        *ret = s;
        return SUCCESS;
}

HIP(hipStreamSynchronize, (Stream * s)) {
        HsaSignal done;

        if (hsa.hsa_signal_create(0, 0, NULL, &done) != SUCCESS)
                return ERROR;
        submit_marker(s, done);
        wait_for(done);
        if (s->copy.handle)
                wait_for(s->copy);
        return hsa.hsa_signal_destroy(done) == SUCCESS ? SUCCESS : ERROR;
}

HIP(hipStreamDestroy, (Stream * s)) {
        int r = hipStreamSynchronize(s);

        if (s->copy.handle)
                (void) hsa.hsa_signal_destroy(s->copy);
        (void) hsa.hsa_queue_destroy(s->queue);
        free(s);
        return r;
}

HIP(hipEventCreateWithFlags, (Event * *ret, unsigned flags)) {
        Event *e = calloc(1, sizeof(Event));

        if (!e || hsa.hsa_signal_create(0, 0, NULL, &e->done) != SUCCESS) {
                free(e);
                return ERROR;
        }
        *ret = e;
        return SUCCESS;
}

HIP(hipEventRecord, (Event * e, Stream *s)) {
        submit_marker(s, e->done);
        return SUCCESS;
}

HIP(hipEventSynchronize, (Event * e)) {
        wait_for(e->done);
        return SUCCESS;
}

HIP(hipEventDestroy, (Event * e)) {
        (void) hsa.hsa_signal_destroy(e->done);
        free(e);
        return SUCCESS;
}

HIP(hipMalloc, (void **ret, size_t size)) {
        *ret = malloc(size);
        return *ret ? SUCCESS : ERROR;
}

HIP(hipFree, (void *p)) {
        free(p);
        return SUCCESS;
}

HIP(hipMemcpyAsync, (void *to, const void *from, size_t size, int kind, Stream *s)) {
        if (hipStreamSynchronize(s) != SUCCESS ||
                        (!s->copy.handle && hsa.hsa_signal_create(0, 0, NULL, &s->copy) != SUCCESS))
                return ERROR;
        hsa.hsa_signal_store_relaxed(s->copy, 1);
        return hsa.hsa_amd_memory_async_copy(to, kind == 1 ? gpu : host, from, kind == 1 ? host : gpu, size, 0, NULL,
                               s->copy) == SUCCESS
                        ? SUCCESS
                        : ERROR;
}
