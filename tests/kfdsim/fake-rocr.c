/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model of the HSA runtime as of ROCm 7.14 and newer: libhsa-runtime64.so.1 for tests
 *
 * As there: every exported function goes through a table, which tools change (HSA_TOOLS_LIB); queues are made by
 * descriptors, too (hsa_amd_queue_create()), and the runtime asks the kernel itself, by libc's functions; the doorbell
 * is a signal of the queue's, which the runtime has made before; a profiler's intercept queue has another ring, other
 * indices, and a doorbell that is software; one thread of the runtime's calls back for signals (fake-rocr-thread.c).
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include "aql.h"
#include "common/macro.h"
#include "fake-rocr.h"
#include "hal/kfd-abi.h"
#include "hal/kfd-topology.h"

#define SUCCESS          0
#define INFO_BREAK       1
#define ERROR            0x1000
#define INVALID_ARGUMENT 0x1001
#define GPUS_MAX         8U
#define NODES_MAX        32U
#define DOORBELL_PAGE    8192U
#define SDMA_SIZE        65536U
#define SAVE_SIZE        4096U
#define LOOK_NS          20000
#define MAJOR            2U

typedef void Function(void);
typedef int AgentCallback(FakeAgent agent, void *userdata);
typedef void Writer(const void *packets, uint64_t n);
typedef void Interceptor(const void *packets, uint64_t n, uint64_t index, void *data, Writer *writer);

typedef struct Queue Queue;

typedef struct Signal {
        union {
                AmdSignal doorbell;
                AqlSignal value;
        };
        Queue *proxy; /* whose doorbell it is; NULL: no proxy's */
} __attribute__((aligned(64))) Signal;

typedef struct Gpu {
        uint32_t node, gpu_id; /* 0: the host */
        Queue *sdma;
} Gpu;

/* The alignment is the firmware's; the first member is what applications get. */
struct Queue {
        AmdQueue amd;
        Signal doorbell, inactive;
        Gpu *gpu;
        size_t ring_size;
        void *save;
        uint32_t id;

        /* Of a proxy. */
        Queue *real;
        pthread_mutex_t lock;
        uint64_t next;
        Interceptor *interceptor;
        void *data;
} __attribute__((aligned(256)));

static int kfd = -1;
static Gpu gpus[GPUS_MAX + 1]; /* the first is the host */
static unsigned n_gpus;
static void *tool;
static uint8_t *doorbell_pages[GPUS_MAX + 1];
static pthread_mutex_t runtime_lock = PTHREAD_MUTEX_INITIALIZER;

static Signal *signal_of(HsaSignal s) {
        return (Signal *) (uintptr_t) s.handle;
}

static Queue *queue_of(const HsaQueue *q) {
        return (Queue *) (uintptr_t) q;
}

/* --- queues, and the thunk, which is linked into the runtime --- */

static uint64_t *map_doorbell(const Gpu *g, uint64_t offset) {
        uint8_t **page = doorbell_pages + (g - gpus);

        if (!*page) {
                void *p = mmap(NULL, DOORBELL_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
                                (off_t) (offset & ~(uint64_t) (DOORBELL_PAGE - 1)));
                if (p == MAP_FAILED)
                        return NULL;
                *page = p;
        }
        return (uint64_t *) (void *) (*page + (offset & (DOORBELL_PAGE - 1)));
}

static Queue *queue_lay_out(Gpu *g, size_t ring_size, uint32_t type) {
        Queue *q = aligned_alloc(256, sizeof(Queue));
        void *ring = mmap(NULL, ring_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (!q || ring == MAP_FAILED)
                abort();

        memset(q, 0, sizeof(*q));
        for (size_t i = 0; i < ring_size / KFD_AQL_PACKET_SIZE; i++)
                ((AqlPacket *) ring)[i].header = AQL_INVALID;
        q->amd.hsa_queue = (HsaQueue){
                        .type = type,
                        .features = 1,
                        .base_address = ring,
                        .doorbell_signal.handle = (uintptr_t) &q->doorbell,
                        .size = (uint32_t) (ring_size / KFD_AQL_PACKET_SIZE),
        };
        q->doorbell.doorbell = (AmdSignal){.kind = AMD_SIGNAL_DOORBELL, .queue = &q->amd};
        q->inactive.value.kind = 1;
        q->amd.inactive_signal.handle = (uintptr_t) &q->inactive;
        q->amd.caps = AMD_QUEUE_CAPS_SW;
        q->amd.scratch_index = q->amd.alt_scratch_index = UINT64_MAX;
        q->gpu = g;
        q->ring_size = ring_size;
        (void) pthread_mutex_init(&q->lock, NULL);
        return q;
}

static void queue_free(Queue *q) {
        (void) munmap(q->amd.hsa_queue.base_address, q->ring_size);
        if (q->save)
                (void) munmap(q->save, SAVE_SIZE);
        free(q);
}

static Queue *queue_make(Gpu *g, size_t ring_size, uint32_t type, uint32_t kfd_type) {
        Queue *q = queue_lay_out(g, ring_size, type);

        q->save = mmap(NULL, SAVE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        KfdCreateQueue a = {
                        .ring_base_address = (uintptr_t) q->amd.hsa_queue.base_address,
                        .ring_size = (uint32_t) ring_size,
                        .write_pointer_address = (uintptr_t) &q->amd.write_index,
                        .read_pointer_address = (uintptr_t) &q->amd.read_index,
                        .gpu_id = g->gpu_id,
                        .queue_type = kfd_type,
                        .queue_percentage = 100,
                        .queue_priority = 7,
                        .ctx_save_restore_address = (uintptr_t) q->save,
                        .ctx_save_restore_size = SAVE_SIZE,
        };
        if (q->save == MAP_FAILED ||
                        ioctl(kfd, _IOC(_IOC_READ | _IOC_WRITE, KFD_IOCTL_BASE, KFD_NR_CREATE_QUEUE, sizeof(a)), &a) <
                                        0) {
                q->save = NULL;
                queue_free(q);
                return NULL;
        }
        q->id = a.queue_id;
        q->amd.hsa_queue.id = a.queue_id;
        q->doorbell.doorbell.hardware_doorbell = map_doorbell(g, a.doorbell_offset);
        return q;
}

static int real_queue_destroy(HsaQueue *queue) {
        Queue *q = queue_of(queue);

        if (!queue)
                return INVALID_ARGUMENT;
        if (q->real)
                (void) real_queue_destroy(&q->real->amd.hsa_queue);
        else {
                KfdDestroyQueue a = {.queue_id = q->id};
                (void) ioctl(kfd, KFD_IOC_DESTROY_QUEUE, &a);
        }
        queue_free(q);
        return SUCCESS;
}

static int real_queue_create(FakeAgent agent, uint32_t size, uint32_t type, void *callback, void *data,
                uint32_t private_size, uint32_t group_size, HsaQueue **ret) {
        Gpu *g = (Gpu *) (uintptr_t) agent.handle;
        Queue *q = g->gpu_id ? queue_make(g, (size_t) size * KFD_AQL_PACKET_SIZE, type, KFD_QUEUE_COMPUTE_AQL) : NULL;

        *ret = q ? &q->amd.hsa_queue : NULL;
        return q ? SUCCESS : ERROR;
}

/* Queues that could be made stay, and the first error is returned. */
static int real_amd_queue_create(FakeAgent agent, FakeQueueDesc *descriptors, uint32_t n) {
        Gpu *g = (Gpu *) (uintptr_t) agent.handle;
        int r = SUCCESS;

        for (uint32_t i = 0; i < n; i++) {
                FakeQueueDesc *d = descriptors + i;
                bool sdma = d->engine_type == FAKE_ENGINE_SDMA;
                Queue *q = g->gpu_id && d->version == FAKE_QUEUE_DESC_VERSION
                                ? queue_make(g, d->queue_size_bytes, d->type,
                                                  sdma ? KFD_QUEUE_SDMA : KFD_QUEUE_COMPUTE_AQL)
                                : NULL;
                d->queue = q ? &q->amd.hsa_queue : NULL;
                r = r ?: q ? SUCCESS : ERROR;
        }
        return r;
}

static int real_amd_queue_get_info(HsaQueue *queue, int what, void *ret) {
        if (what != 0)
                return INVALID_ARGUMENT;
        memcpy(ret, &(FakeAgent){(uintptr_t) queue_of(queue)->gpu}, sizeof(FakeAgent));
        return SUCCESS;
}

/* --- indices --- */

static uint64_t real_load_read(const HsaQueue *q) {
        return __atomic_load_n(&queue_of(q)->amd.read_index, __ATOMIC_ACQUIRE);
}

static uint64_t real_load_write(const HsaQueue *q) {
        return __atomic_load_n(&queue_of(q)->amd.write_index, __ATOMIC_ACQUIRE);
}

static void real_store_write(const HsaQueue *q, uint64_t index) {
        __atomic_store_n(&queue_of(q)->amd.write_index, index, __ATOMIC_RELEASE);
}

static uint64_t real_cas_write(const HsaQueue *q, uint64_t expected, uint64_t index) {
        (void) __atomic_compare_exchange_n(
                        &queue_of(q)->amd.write_index, &expected, index, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return expected;
}

static uint64_t real_add_write(const HsaQueue *q, uint64_t n) {
        return __atomic_fetch_add(&queue_of(q)->amd.write_index, n, __ATOMIC_ACQ_REL);
}

/* --- intercept queues --- */

static _Thread_local Queue *writes_behind;

/* The tool's packets, into the real queue. */
static void write_real(const void *packets, uint64_t n) {
        Queue *real = writes_behind->real;
        AqlPacket *ring = real->amd.hsa_queue.base_address;
        const AqlPacket *from = packets;
        uint64_t index = real_add_write(&real->amd.hsa_queue, n);

        for (uint64_t i = index; i < index + n; i++) {
                AqlPacket *p = ring + i % real->amd.hsa_queue.size;
                while (i - real_load_read(&real->amd.hsa_queue) >= real->amd.hsa_queue.size)
                        (void) nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
                memcpy((char *) p + sizeof(p->header), (const char *) &from[i - index] + sizeof(p->header),
                                sizeof(*p) - sizeof(p->header));
                __atomic_store_n(&p->header, from[i - index].header, __ATOMIC_RELEASE);
        }
        __atomic_store_n(real->doorbell.doorbell.hardware_doorbell, index + n - 1, __ATOMIC_SEQ_CST);
}

static void proxy_rung(Queue *q) {
        AqlPacket *ring = q->amd.hsa_queue.base_address;

        (void) pthread_mutex_lock(&q->lock);
        for (; q->next < real_load_write(&q->amd.hsa_queue); q->next++) {
                AqlPacket *p = ring + q->next % q->amd.hsa_queue.size, copy;
                if ((__atomic_load_n(&p->header, __ATOMIC_ACQUIRE) & 0xff) == AQL_INVALID)
                        break; /* who writes it rings later */
                copy = *p;
                __atomic_store_n(&p->header, AQL_INVALID, __ATOMIC_RELEASE);
                __atomic_store_n(&q->amd.read_index, q->next + 1, __ATOMIC_RELEASE);
                writes_behind = q;
                if (q->interceptor)
                        q->interceptor(&copy, 1, q->next, q->data, write_real);
                else
                        write_real(&copy, 1);
        }
        (void) pthread_mutex_unlock(&q->lock);
}

static int real_intercept_create(FakeAgent agent, uint32_t size, uint32_t type, void *callback, void *data,
                uint32_t private_size, uint32_t group_size, HsaQueue **ret) {
        HsaQueue *real;
        int r = real_queue_create(agent, size, type, callback, data, private_size, group_size, &real);
        if (r != SUCCESS)
                return r;

        Queue *q = queue_lay_out(queue_of(real)->gpu, queue_of(real)->ring_size, type);
        q->real = queue_of(real);
        q->amd.inactive_signal = q->real->amd.inactive_signal;
        q->amd.hsa_queue.id = real->id;
        q->doorbell.value = (AqlSignal){.kind = 1};
        q->doorbell.proxy = q;
        *ret = &q->amd.hsa_queue;
        return SUCCESS;
}

static int real_intercept_register(HsaQueue *queue, Interceptor *f, void *data) {
        Queue *q = queue_of(queue);

        if (!q->real)
                return INVALID_ARGUMENT;
        q->interceptor = f;
        q->data = data;
        return SUCCESS;
}

/* --- signals --- */

static int real_signal_create(int64_t value, uint32_t n, const FakeAgent *consumers, HsaSignal *ret) {
        Signal *s = aligned_alloc(64, sizeof(Signal));
        if (!s)
                return ERROR;
        memset(s, 0, sizeof(*s));
        s->value.kind = 1;
        s->value.value = value;
        ret->handle = (uintptr_t) s;
        return SUCCESS;
}

static int real_signal_destroy(HsaSignal s) {
        free(signal_of(s));
        return SUCCESS;
}

int64_t fake_signal_load(HsaSignal s) {
        return __atomic_load_n(&signal_of(s)->value.value, __ATOMIC_ACQUIRE);
}

static void real_signal_store(HsaSignal signal, int64_t value) {
        Signal *s = signal_of(signal);

        if (s->proxy)
                proxy_rung(s->proxy);
        else if (s->doorbell.kind == AMD_SIGNAL_DOORBELL)
                __atomic_store_n(s->doorbell.hardware_doorbell, (uint64_t) value, __ATOMIC_RELEASE);
        else
                __atomic_store_n(&s->value.value, value, __ATOMIC_RELEASE);
}

/* --- copies, by a queue of the runtime's own, which rings past every signal --- */

#define SDMA_COPY       1U
#define SDMA_ATOMIC_ADD (10U | 47U << 25)

static void sdma_write(Queue *q, const uint32_t *words, size_t n) {
        uint32_t *ring = q->amd.hsa_queue.base_address;
        uint64_t at = q->next / sizeof(uint32_t);

        for (size_t i = 0; i < n; i++)
                ring[(at + i) % (q->ring_size / sizeof(uint32_t))] = words[i];
        q->next += n * sizeof(uint32_t);
}

static int real_memory_async_copy(void *to, FakeAgent to_agent, const void *from, FakeAgent from_agent, size_t size,
                uint32_t n, const HsaSignal *dependencies, HsaSignal done) {
        uintptr_t a = (uintptr_t) from, b = (uintptr_t) to, s = (uintptr_t) &signal_of(done)->value.value;
        Gpu *g = (Gpu *) (uintptr_t) to_agent.handle;

        (void) pthread_mutex_lock(&runtime_lock);
        if (!g->gpu_id)
                g = (Gpu *) (uintptr_t) from_agent.handle;
        if (!g->sdma)
                g->sdma = queue_make(g, SDMA_SIZE, 0, KFD_QUEUE_SDMA);
        if (g->sdma) {
                sdma_write(g->sdma,
                                (uint32_t[]){SDMA_COPY, (uint32_t) size - 1, 0, (uint32_t) a, (uint32_t) (a >> 32),
                                                (uint32_t) b, (uint32_t) (b >> 32)},
                                7);
                sdma_write(g->sdma,
                                (uint32_t[]){SDMA_ATOMIC_ADD, (uint32_t) s, (uint32_t) (s >> 32), UINT32_MAX,
                                                UINT32_MAX, 0, 0, 0},
                                8);
                __atomic_store_n(&g->sdma->amd.write_index, g->sdma->next, __ATOMIC_RELEASE);
                __atomic_store_n(g->sdma->doorbell.doorbell.hardware_doorbell, g->sdma->next, __ATOMIC_SEQ_CST);
        }
        int r = g->sdma ? SUCCESS : ERROR;
        (void) pthread_mutex_unlock(&runtime_lock);
        return r;
}

/* --- agents --- */

static int real_iterate_agents(AgentCallback *callback, void *userdata) {
        int r = SUCCESS;

        for (unsigned i = 0; i <= n_gpus && r == SUCCESS; i++)
                r = callback((FakeAgent){(uintptr_t) (gpus + i)}, userdata);
        return r;
}

static int real_agent_get_info(FakeAgent agent, int what, void *ret) {
        const Gpu *g = (const Gpu *) (uintptr_t) agent.handle;
        uint32_t v = what == 17 ? g->gpu_id != 0 : g->node; /* HSA_AGENT_INFO_DEVICE; the node in the topology */

        if (what != 17 && what != 0xA004)
                return INVALID_ARGUMENT;
        memcpy(ret, &v, sizeof(v));
        return SUCCESS;
}

/* --- the tables, and what goes through them --- */

static int real_init(void);
static int real_shut_down(void);

#define CORE(X)                                                                                                        \
        X(int, hsa_init, (void), (), 0, real_init)                                                                     \
        X(int, hsa_shut_down, (void), (), 1, real_shut_down)                                                           \
        X(int, hsa_iterate_agents, (AgentCallback * f, void *u), (f, u), 5, real_iterate_agents)                       \
        X(int, hsa_agent_get_info, (FakeAgent a, int what, void *r), (a, what, r), 6, real_agent_get_info)             \
        X(int, hsa_queue_create,                                                                                       \
                        (FakeAgent a, uint32_t n, uint32_t type, void *f, void *u, uint32_t p, uint32_t g,             \
                                        HsaQueue **ret),                                                               \
                        (a, n, type, f, u, p, g, ret), 7, real_queue_create)                                           \
        X(int, hsa_queue_destroy, (HsaQueue * q), (q), 9, real_queue_destroy)                                          \
        X(uint64_t, hsa_queue_load_read_index_scacquire, (const HsaQueue *q), (q), 11, real_load_read)                 \
        X(uint64_t, hsa_queue_load_read_index_relaxed, (const HsaQueue *q), (q), 12, real_load_read)                   \
        X(uint64_t, hsa_queue_load_write_index_scacquire, (const HsaQueue *q), (q), 13, real_load_write)               \
        X(uint64_t, hsa_queue_load_write_index_relaxed, (const HsaQueue *q), (q), 14, real_load_write)                 \
        X(void, hsa_queue_store_write_index_relaxed, (const HsaQueue *q, uint64_t i), (q, i), 15, real_store_write)    \
        X(void, hsa_queue_store_write_index_screlease, (const HsaQueue *q, uint64_t i), (q, i), 16, real_store_write)  \
        X(uint64_t, hsa_queue_cas_write_index_scacq_screl, (const HsaQueue *q, uint64_t e, uint64_t i), (q, e, i), 17, \
                        real_cas_write)                                                                                \
        X(uint64_t, hsa_queue_cas_write_index_scacquire, (const HsaQueue *q, uint64_t e, uint64_t i), (q, e, i), 18,   \
                        real_cas_write)                                                                                \
        X(uint64_t, hsa_queue_cas_write_index_relaxed, (const HsaQueue *q, uint64_t e, uint64_t i), (q, e, i), 19,     \
                        real_cas_write)                                                                                \
        X(uint64_t, hsa_queue_cas_write_index_screlease, (const HsaQueue *q, uint64_t e, uint64_t i), (q, e, i), 20,   \
                        real_cas_write)                                                                                \
        X(uint64_t, hsa_queue_add_write_index_scacq_screl, (const HsaQueue *q, uint64_t n), (q, n), 21,                \
                        real_add_write)                                                                                \
        X(uint64_t, hsa_queue_add_write_index_scacquire, (const HsaQueue *q, uint64_t n), (q, n), 22, real_add_write)  \
        X(uint64_t, hsa_queue_add_write_index_relaxed, (const HsaQueue *q, uint64_t n), (q, n), 23, real_add_write)    \
        X(uint64_t, hsa_queue_add_write_index_screlease, (const HsaQueue *q, uint64_t n), (q, n), 24, real_add_write)  \
        X(int, hsa_signal_create, (int64_t v, uint32_t n, const FakeAgent *c, HsaSignal *r), (v, n, c, r), 37,         \
                        real_signal_create)                                                                            \
        X(int, hsa_signal_destroy, (HsaSignal s), (s), 38, real_signal_destroy)                                        \
        X(int64_t, hsa_signal_load_relaxed, (HsaSignal s), (s), 39, fake_signal_load)                                  \
        X(int64_t, hsa_signal_load_scacquire, (HsaSignal s), (s), 40, fake_signal_load)                                \
        X(void, hsa_signal_store_relaxed, (HsaSignal s, int64_t v), (s, v), 41, real_signal_store)                     \
        X(void, hsa_signal_store_screlease, (HsaSignal s, int64_t v), (s, v), 42, real_signal_store)                   \
        X(void, hsa_signal_silent_store_relaxed, (HsaSignal s, int64_t v), (s, v), 102, real_signal_store)             \
        X(void, hsa_signal_silent_store_screlease, (HsaSignal s, int64_t v), (s, v), 103, real_signal_store)

#define AMD(X)                                                                                                         \
        X(int, hsa_amd_signal_async_handler,                                                                           \
                        (HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg),              \
                        (signal, condition, value, handler, arg), 7, fake_async_handler)                               \
        X(int, hsa_amd_async_function, (HsaFunction * function, void *arg), (function, arg), 8, fake_async_function)   \
        X(int, hsa_amd_memory_async_copy,                                                                              \
                        (void *to, FakeAgent ta, const void *from, FakeAgent fa, size_t size, uint32_t n,              \
                                        const HsaSignal *d, HsaSignal s),                                              \
                        (to, ta, from, fa, size, n, d, s), 15, real_memory_async_copy)                                 \
        X(int, hsa_amd_queue_get_info, (HsaQueue * q, int what, void *r), (q, what, r), 68, real_amd_queue_get_info)   \
        X(int, hsa_amd_queue_create, (FakeAgent a, FakeQueueDesc * d, uint32_t n), (a, d, n),                          \
                        FAKE_AMD_QUEUE_CREATE - FAKE_HEAD, real_amd_queue_create)

#define CORE_END (FAKE_HEAD + 125)

#define PLACE(ret, name, params, args, i, real) [FAKE_HEAD + (i)] = (Function *) (real),
static Function *core_table[CORE_END] = {CORE(PLACE)};
static Function *amd_table[FAKE_AMD_END] = {
                AMD(PLACE)[FAKE_HEAD + 37] = (Function *) real_intercept_create,
                [FAKE_HEAD + 38] = (Function *) real_intercept_register,
};
#undef PLACE
static Function *root_table[FAKE_HEAD + 2] = {
                [FAKE_HEAD] = (Function *) core_table,
                [FAKE_HEAD + 1] = (Function *) amd_table,
};

/* Some are declared by what the layer intercepts. */
#pragma GCC diagnostic ignored "-Wredundant-decls"

#define EXPORT(table, ret, name, params, args, i)                                                                      \
        ret name params;                                                                                               \
        _public_                                                                                                       \
        ret name params {                                                                                              \
                return ((ret(*) params) table[FAKE_HEAD + (i)]) args;                                                  \
        }
#define EXPORT_CORE(ret, name, params, args, i, real) EXPORT(core_table, ret, name, params, args, i)
#define EXPORT_AMD(ret, name, params, args, i, real)  EXPORT(amd_table, ret, name, params, args, i)
CORE(EXPORT_CORE)
AMD(EXPORT_AMD)

/* Old names. */
EXPORT(core_table, void, hsa_signal_store_release, (HsaSignal s, int64_t v), (s, v), 42)
EXPORT(core_table, uint64_t, hsa_queue_add_write_index_acq_rel, (const HsaQueue *q, uint64_t n), (q, n), 21)

static void table_say(Function **table, size_t n, uint32_t major) {
        uint32_t head[] = {major, (uint32_t) (n * sizeof(Function *)), FAKE_STEP, 0};

        memcpy(table, head, sizeof(head));
}

/* --- the runtime comes and goes --- */

static unsigned n_inits;

static void find_gpus(void) {
        KfdNode n;

        n_gpus = 0;
        for (uint32_t node = 0; node < NODES_MAX && n_gpus < GPUS_MAX; node++)
                if (kfd_topology_read(KFD_TOPOLOGY_PATH, node, &n) >= 0 && n.gpu_id != 0)
                        gpus[++n_gpus] = (Gpu){.node = node, .gpu_id = n.gpu_id};
}

/* A tool that does not load only causes a message. */
static void load_tool(void) {
        const char *name = getenv("HSA_TOOLS_LIB"), *major = getenv("FAKE_HSA_MAJOR");
        bool (*load)(void *table, uint64_t version, uint64_t n, const char *const *failed);
        uint32_t v = major ? (uint32_t) strtoul(major, NULL, 10) : MAJOR;

        table_say(core_table, ELEMENTSOF(core_table), v);
        table_say(amd_table, ELEMENTSOF(amd_table), v);
        table_say(root_table, ELEMENTSOF(root_table), v);
        if (isempty(name))
                return;
        tool = dlopen(name, RTLD_LAZY);
        *(void **) &load = tool ? dlsym(tool, "OnLoad") : NULL;
        if (!load || !load(root_table, v, 0, NULL))
                (void) fprintf(stderr, "HSA: the tool %s cannot be loaded\n", name);
}

static int real_init(void) {
        if (n_inits++ > 0)
                return SUCCESS;
        kfd = open(KFD_DEVICE_PATH, O_RDWR | O_CLOEXEC);
        if (kfd < 0) {
                n_inits = 0;
                return ERROR;
        }
        find_gpus();
        load_tool();
        return SUCCESS;
}

static int real_shut_down(void) {
        void (*unload)(void);

        if (n_inits == 0 || --n_inits > 0)
                return SUCCESS;
        *(void **) &unload = tool ? dlsym(tool, "OnUnload") : NULL;
        if (unload)
                unload();
        (void) close(kfd);
        kfd = -1;
        return SUCCESS;
}
