/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A profiler for HSA runtimes, loaded by HSA_TOOLS_LIB, that stands in front of queues as AMD's do
 *
 * HSA_TOOL=proxy: each queue that is made is an intercept queue of the runtime's, as with rocprof and rocprofiler-sdk
 * where they count. It has a ring, indices and a doorbell of its own, and writes to the real ones when its doorbell is
 * rung.
 *
 * HSA_TOOL=indices: queues are the real ones, and their indices are the tool's, a ring ahead of the real ones, so that
 * packets have their places. The real write index goes on when the doorbell is rung.
 *
 * HSA_TOOL=virtual: the same, in the order of rocprofiler-sdk since ROCm 7.14 where it traces
 * (queue_interposition.cpp): only the write index is the tool's, and begins as the real one. A thread that rings takes
 * the written packets out of the ring, up to the first place without one, and writes them again at the real index,
 * which it then advances. If there are none, it rings for the last announced packet.
 *
 * A queue that a model of a newer runtime (fake-rocr.c) makes by a descriptor is replaced by an intercept queue, or
 * traced, as there.
 *
 * While hsa_tool_stops is set, doorbells are not passed on, and hsa_tool_inside is their number.
 *
 * The tables that a tool gets are lists of functions which grow at their ends (hsa_api_trace.h).
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "common/macro.h"
#include "fake-rocr.h"
#include "shim/kfd/hsa.h"

#define QUEUES_MAX  64U
#define VERSION     2U /* words, at the head of each table */
#define INVALID     1U
#define TYPE_MASK   0xffU
#define PACKET_SIZE 64U

/* While this is set, threads that ring stay inside. */
extern _Atomic bool hsa_tool_stops;
_public_
_Atomic bool hsa_tool_stops;
extern _Atomic unsigned hsa_tool_inside;
_public_
_Atomic unsigned hsa_tool_inside;

/* Places in the tables. */
enum {
        TABLE_CORE = VERSION,
        TABLE_AMD = VERSION + 1,
        CORE_QUEUE_CREATE = VERSION + 7,
        CORE_QUEUE_DESTROY = VERSION + 9,
        CORE_LOAD_READ_SCACQUIRE = VERSION + 11,
        CORE_LOAD_READ_RELAXED = VERSION + 12,
        CORE_LOAD_WRITE_SCACQUIRE = VERSION + 13,
        CORE_LOAD_WRITE_RELAXED = VERSION + 14,
        CORE_STORE_WRITE_FIRST = VERSION + 15, /* relaxed, screlease */
        CORE_CAS_WRITE_FIRST = VERSION + 17,   /* as the additions */
        CORE_ADD_WRITE_FIRST = VERSION + 21,   /* scacq_screl, scacquire, relaxed, screlease */
        CORE_STORE_RELAXED = VERSION + 41,
        CORE_STORE_SCRELEASE = VERSION + 42,
        CORE_SILENT_STORE_RELAXED = VERSION + 102,
        CORE_SILENT_STORE_SCRELEASE = VERSION + 103,
        AMD_INTERCEPT_CREATE = VERSION + 35,
        AMD_INTERCEPT_REGISTER = VERSION + 36,
};

/* ROCm 5.5 has added two functions between others: the table's size tells which it is. */
#define AMD_SIZE_OLD   (50U * sizeof(void *))
#define AMD_N_INSERTED 2U

typedef void Function(void);
typedef int CreateQueue(uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data, uint32_t private_size,
                uint32_t group_size, HsaQueue **ret);
typedef void Writer(const void *packets, uint64_t n);
typedef void Interceptor(const void *packets, uint64_t n, uint64_t index, void *data, Writer *writer);
typedef int Register(HsaQueue *queue, Interceptor *f, void *data);
typedef uint64_t Load(const HsaQueue *queue);
typedef void Store(HsaSignal signal, int64_t value);

static struct {
        CreateQueue *create, *intercept_create;
        FakeQueueCreate *amd_create;
        int (*destroy)(HsaQueue *queue);
        Register *intercept_register;
        Load *load_read, *load_write;
        Store *store;
} next;

/* --- a proxy in front of each queue --- */

static void stop(void) {
        atomic_fetch_add(&hsa_tool_inside, 1);
        while (atomic_load(&hsa_tool_stops))
                (void) sched_yield();
        atomic_fetch_sub(&hsa_tool_inside, 1);
}

static void intercept(const void *packets, uint64_t n, uint64_t index, void *data, Writer *writer) {
        stop();
        writer(packets, n);
}

static int create_proxy(uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data, uint32_t private_size,
                uint32_t group_size, HsaQueue **ret) {
        int r = next.intercept_create(agent, size, type, callback, data, private_size, group_size, ret);

        return r == HSA_SUCCESS ? next.intercept_register(*ret, intercept, NULL) : r;
}

/* Replaces queues that the call has made: the tool cannot count on these. */
static int create_amd_proxy(FakeAgent agent, FakeQueueDesc *descriptors, uint32_t n) {
        int r = next.amd_create(agent, descriptors, n);

        for (uint32_t i = 0; i < n; i++) {
                FakeQueueDesc *d = descriptors + i;
                if (!d->queue || d->engine_type != FAKE_ENGINE_COMPUTE)
                        continue;
                (void) next.destroy(d->queue);
                int made = create_proxy(agent.handle, d->queue_size_bytes / PACKET_SIZE, d->type, d->callback,
                                d->callback_data, d->private_segment_size, UINT32_MAX, &d->queue);
                r = r ?: made;
        }
        return r;
}

/* --- indices of our own --- */

typedef struct Traced {
        AmdQueue *queue;
        _Atomic uint64_t write;
        uint64_t published; /* the real write index */
        uint64_t scanned;   /* virtual: packets below it were taken out of the ring */
} Traced;

static bool is_virtual; /* or a ring ahead */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Traced traced[QUEUES_MAX];
static _Atomic unsigned n_traced;

static void trace(HsaQueue *queue) {
        (void) pthread_mutex_lock(&lock);
        unsigned n = atomic_load(&n_traced);
        if (n < QUEUES_MAX) {
                traced[n].queue = (AmdQueue *) queue;
                atomic_store(&traced[n].write, is_virtual ? traced[n].queue->write_index : queue->size);
                atomic_store(&n_traced, n + 1);
        }
        (void) pthread_mutex_unlock(&lock);
}

static int create_traced(uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data,
                uint32_t private_size, uint32_t group_size, HsaQueue **ret) {
        int r = next.create(agent, size, type, callback, data, private_size, group_size, ret);

        if (r == HSA_SUCCESS)
                trace(*ret);
        return r;
}

static int create_amd_traced(FakeAgent agent, FakeQueueDesc *descriptors, uint32_t n) {
        int r = next.amd_create(agent, descriptors, n);

        for (uint32_t i = 0; i < n; i++)
                if (descriptors[i].queue && descriptors[i].engine_type == FAKE_ENGINE_COMPUTE)
                        trace(descriptors[i].queue);
        return r;
}

static Traced *find(const HsaQueue *queue) {
        for (unsigned i = 0, n = atomic_load(&n_traced); i < n; i++)
                if (&traced[i].queue->hsa_queue == queue)
                        return traced + i;
        return NULL;
}

static uint64_t load_write(const HsaQueue *queue) {
        Traced *t = find(queue);

        return t ? atomic_load(&t->write) : next.load_write(queue);
}

static uint64_t load_read(const HsaQueue *queue) {
        return next.load_read(queue) + (find(queue) && !is_virtual ? queue->size : 0);
}

static _Atomic uint64_t *write_of(const HsaQueue *queue) {
        Traced *t = find(queue);

        return t ? &t->write : (_Atomic uint64_t *) &((AmdQueue *) (uintptr_t) queue)->write_index;
}

static void store_write(const HsaQueue *queue, uint64_t index) {
        atomic_store(write_of(queue), index);
}

static uint64_t cas_write(const HsaQueue *queue, uint64_t expected, uint64_t index) {
        (void) atomic_compare_exchange_strong(write_of(queue), &expected, index);
        return expected;
}

/* Takes places of a queue that was made before this tool was loaded, or by the runtime for itself. */
static uint64_t add_real(const HsaQueue *queue, uint64_t n) {
        return __atomic_fetch_add(&((AmdQueue *) (uintptr_t) queue)->write_index, n, __ATOMIC_SEQ_CST);
}

static uint64_t add_write(const HsaQueue *queue, uint64_t n) {
        Traced *t = find(queue);

        return t ? atomic_fetch_add(&t->write, n) : add_real(queue, n);
}

static uint16_t header(const Traced *t, uint64_t index) {
        const HsaQueue *q = &t->queue->hsa_queue;

        return __atomic_load_n(
                        (const uint16_t *) ((const char *) q->base_address + index % q->size * 64), __ATOMIC_ACQUIRE);
}

static void publish(Traced *t) {
        uint64_t end = t->published, size = t->queue->hsa_queue.size;

        while (end + size < atomic_load(&t->write) &&
                        end - __atomic_load_n(&t->queue->read_index, __ATOMIC_ACQUIRE) < size &&
                        (header(t, end) & TYPE_MASK) != INVALID)
                end++;
        if (end == t->published)
                return;
        t->published = end;
        __atomic_store_n(&t->queue->write_index, end, __ATOMIC_RELEASE);
        next.store(t->queue->hsa_queue.doorbell_signal, (int64_t) end - 1);
}

static void *place(const Traced *t, uint64_t index) {
        const HsaQueue *q = &t->queue->hsa_queue;

        return (char *) q->base_address + index % q->size * PACKET_SIZE;
}

static void announce(Traced *t, uint64_t end) {
        if (end <= t->published)
                return;
        t->published = end;
        __atomic_store_n(&t->queue->write_index, end, __ATOMIC_RELEASE);
        next.store(t->queue->hsa_queue.doorbell_signal, (int64_t) end - 1);
}

static void write_again(Traced *t, const char *packet, uint64_t index) {
        uint16_t *to = place(t, index), head;

        while (index - __atomic_load_n(&t->queue->read_index, __ATOMIC_ACQUIRE) >= t->queue->hsa_queue.size) {
                announce(t, index);
                (void) sched_yield();
        }
        memcpy(&head, packet, sizeof(head));
        memcpy(to + 1, packet + sizeof(head), PACKET_SIZE - sizeof(head));
        __atomic_store_n(to, head, __ATOMIC_RELEASE);
}

static void publish_virtual(Traced *t, int64_t value) {
        uint64_t end = atomic_load(&t->write), index = t->published;
        char packet[PACKET_SIZE];
        bool any = false;

        if (t->scanned >= end) {
                next.store(t->queue->hsa_queue.doorbell_signal, value);
                return;
        }
        for (; t->scanned < end && (header(t, t->scanned) & TYPE_MASK) != INVALID; any = true) {
                memcpy(packet, place(t, t->scanned), sizeof(packet));
                __atomic_store_n((uint16_t *) place(t, t->scanned++), INVALID, __ATOMIC_RELEASE);
                write_again(t, packet, index++);
        }
        if (any)
                announce(t, index);
        else if (t->published > 0)
                next.store(t->queue->hsa_queue.doorbell_signal, (int64_t) t->published - 1);
}

static void store(HsaSignal signal, int64_t value) {
        for (unsigned i = 0, n = atomic_load(&n_traced); i < n; i++)
                if (traced[i].queue->hsa_queue.doorbell_signal.handle == signal.handle) {
                        stop();
                        (void) pthread_mutex_lock(&lock);
                        if (is_virtual)
                                publish_virtual(traced + i, value);
                        else
                                publish(traced + i);
                        (void) pthread_mutex_unlock(&lock);
                        return;
                }
        next.store(signal, value);
}

/* --- the runtime's side --- */

bool OnLoad(void *table, uint64_t version, uint64_t n_failed, const char *const *failed);
void OnUnload(void);

static void take_model(Function **core, Function **amd, bool proxy) {
        next.amd_create = (FakeQueueCreate *) amd[FAKE_AMD_QUEUE_CREATE];
        next.destroy = (int (*)(HsaQueue *)) core[CORE_QUEUE_DESTROY];
        amd[FAKE_AMD_QUEUE_CREATE] = (Function *) (proxy ? create_amd_proxy : create_amd_traced);
}

_public_
bool OnLoad(void *table, uint64_t version, uint64_t n_failed, const char *const *failed) {
        Function **core = ((Function ***) table)[TABLE_CORE], **amd = ((Function ***) table)[TABLE_AMD];
        const char *kind = strempty(getenv("HSA_TOOL"));
        bool proxy = streq(kind, "proxy");

        is_virtual = streq(kind, "virtual");
        if (((const uint32_t *) amd)[2] == FAKE_STEP)
                take_model(core, amd, proxy);
        if (((const uint32_t *) amd)[1] > AMD_SIZE_OLD)
                amd += AMD_N_INSERTED;
        next.create = (CreateQueue *) core[CORE_QUEUE_CREATE];
        next.intercept_create = (CreateQueue *) amd[AMD_INTERCEPT_CREATE];
        next.intercept_register = (Register *) amd[AMD_INTERCEPT_REGISTER];
        next.load_read = (Load *) core[CORE_LOAD_READ_RELAXED];
        next.load_write = (Load *) core[CORE_LOAD_WRITE_RELAXED];
        next.store = (Store *) core[CORE_STORE_SCRELEASE];
        core[CORE_QUEUE_CREATE] = (Function *) (proxy ? create_proxy : create_traced);
        if (proxy)
                return true;
        core[CORE_LOAD_WRITE_RELAXED] = core[CORE_LOAD_WRITE_SCACQUIRE] = (Function *) load_write;
        core[CORE_LOAD_READ_RELAXED] = core[CORE_LOAD_READ_SCACQUIRE] = (Function *) load_read;
        for (unsigned i = 0; i < 2; i++)
                core[CORE_STORE_WRITE_FIRST + i] = (Function *) store_write;
        for (unsigned i = 0; i < 4; i++) {
                core[CORE_CAS_WRITE_FIRST + i] = (Function *) cas_write;
                core[CORE_ADD_WRITE_FIRST + i] = (Function *) add_write;
        }
        core[CORE_STORE_RELAXED] = core[CORE_STORE_SCRELEASE] = (Function *) store;
        core[CORE_SILENT_STORE_RELAXED] = core[CORE_SILENT_STORE_SCRELEASE] = (Function *) store;
        return true;
}

_public_
void OnUnload(void) {
}
