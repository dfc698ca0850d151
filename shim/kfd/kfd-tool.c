/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The second way in: as a tool of the HSA runtime, loaded by HSA_TOOLS_LIB (kfd-onload.c)
 *
 * A runtime hands its table of functions to each tool, and goes by that table from then on, however it was called. So
 * functions that we put there are also called by programs that go past a preloaded library: those that find the
 * runtime's functions by dlsym() on a handle, or load the runtime with RTLD_DEEPBIND (Julia). Each runtime has a table
 * of its own, and each table has functions of its own here, which lead to that runtime.
 *
 * If the layer is preloaded as well, it sees each call twice: from the program to the runtime, and inside of it. The
 * first one counts (kfd-hsa.c). Calls of the kernel's driver are seen by the preloaded layer only, and with
 * RTLD_DEEPBIND not at all. So hsa_queue_create() is intercepted, too: a queue whose driver call was not seen gets a
 * gate, but cannot be taken off the device. From ROCm 7.14 on HIP calls another function, whose place in the table
 * differs: the first reservation asks the runtime about such a queue. Its end is seen where hsa_queue_destroy() makes
 * it, or the release of a counted queue; kfd-poll.c looks whether there is still a queue.
 *
 * The tables are lists of functions that grow at their ends, and say how long they are (hsa_api_trace.h), and by their
 * major version in which order. A table of a version that is not known here is left alone.
 */

#include <stdatomic.h>

#include "common/macro.h"
#include "kfd-hsa.h"
#include "kfd-libc.h"
#include "shim/kfd/kfd-queue.h"
#include "shim/kfd/kfd-tool.h"

typedef void Function(void);
typedef int CreateQueue(uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data, uint32_t private_size,
                uint32_t group_size, HsaQueue **ret);
typedef int DestroyQueue(HsaQueue *queue);
typedef int GetAgentInfo(uint64_t agent, int what, void *ret);
typedef int GetQueueInfo(const HsaQueue *queue, int what, void *ret);

#define AGENT_NODE  0xA004 /* HSA_AMD_AGENT_INFO_DRIVER_NODE_ID */
#define QUEUE_AGENT 0      /* HSA_AMD_QUEUE_INFO_AGENT */

/* The head of each table: two words of two numbers each, and the second number is its size. */
#define HEAD 2U

/* Places in the tables. */
enum {
        TABLE_CORE = HEAD,
        TABLE_AMD = HEAD + 1,
        CORE_AGENT_GET_INFO = HEAD + 6,
        CORE_QUEUE_CREATE = HEAD + 7,
        CORE_QUEUE_DESTROY = HEAD + 9,
        CORE_ADD_FIRST = HEAD + 21, /* scacq_screl, scacquire, relaxed, screlease */
        CORE_STORE_RELAXED = HEAD + 41,
        CORE_STORE_SCRELEASE = HEAD + 42,
        CORE_SILENT_STORE_RELAXED = HEAD + 102,
        CORE_SILENT_STORE_SCRELEASE = HEAD + 103,
        AMD_ASYNC_HANDLER = HEAD + 7,
        AMD_ASYNC_FUNCTION = HEAD + 8,
        AMD_QUEUE_GET_INFO = HEAD + 68, /* ROCm 6.1 */
        AMD_COUNTED_RELEASE = HEAD + 77,
};

/* Other major versions of the table have another order. The first version had no queues that are counted. */
#define MAJOR_MIN 1U
#define MAJOR_MAX 2U

#define N_ADDS 4U

/* The functions that a runtime's tables had before. */
typedef struct Tool {
        _Atomic(Function **) core; /* NULL: free */
        typeof(&hsa_signal_store_relaxed) store_relaxed, store_screlease, silent_relaxed, silent_screlease;
        typeof(&hsa_queue_add_write_index_relaxed) add[N_ADDS];
        typeof(&hsa_amd_signal_async_handler) async_handler;
        typeof(&hsa_amd_async_function) async_function;
        CreateQueue *create;
        DestroyQueue *destroy, *counted_release;
        GetAgentInfo *agent_get_info;
        GetQueueInfo *queue_get_info;
} Tool;

/* Further runtimes are intercepted by the preloaded functions only. */
#define TOOLS_MAX 8U

static Tool tools[TOOLS_MAX];

static int create_queue(const Tool *t, uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data,
                uint32_t private_size, uint32_t group_size, HsaQueue **ret) {
        uint32_t node;
        int r = t->create(agent, size, type, callback, data, private_size, group_size, ret);

        if (r == HSA_SUCCESS && ret && t->agent_get_info(agent, AGENT_NODE, &node) == HSA_SUCCESS)
                kfd_queue_adopt(node, *ret);
        return r;
}

static int destroy_queue(DestroyQueue *next, HsaQueue *queue) {
        if (queue)
                kfd_queue_abandon(queue);
        return next(queue);
}

/* Finds the node of a queue that was made by another function than hsa_queue_create(): from ROCm 7.14 on there are
 * several. */
static bool find_node(const void *userdata, const HsaQueue *queue, uint32_t *ret) {
        const Tool *t = userdata;
        uint64_t agent;

        return t->queue_get_info && t->agent_get_info && t->queue_get_info(queue, QUEUE_AGENT, &agent) == HSA_SUCCESS &&
                        t->agent_get_info(agent, AGENT_NODE, ret) == HSA_SUCCESS;
}

/* --- a set of functions for each table --- */

#define EACH_TOOL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define DEFINE_ADD(i, k)                                                                                               \
        static uint64_t add_##i##_##k(const HsaQueue *queue, uint64_t n) {                                             \
                return kfd_hsa_reserve(queue, n, tools[i].add[k], find_node, tools + i);                               \
        }
#define DEFINE_SET(i)                                                                                                  \
        static void store_relaxed_##i(HsaSignal signal, int64_t value) {                                               \
                kfd_hsa_store(signal, value, tools[i].store_relaxed);                                                  \
        }                                                                                                              \
        static void store_screlease_##i(HsaSignal signal, int64_t value) {                                             \
                kfd_hsa_store(signal, value, tools[i].store_screlease);                                                \
        }                                                                                                              \
        static void silent_relaxed_##i(HsaSignal signal, int64_t value) {                                              \
                kfd_hsa_store(signal, value, tools[i].silent_relaxed);                                                 \
        }                                                                                                              \
        static void silent_screlease_##i(HsaSignal signal, int64_t value) {                                            \
                kfd_hsa_store(signal, value, tools[i].silent_screlease);                                               \
        }                                                                                                              \
        static int async_handler_##i(HsaSignal signal, int condition, int64_t value, HsaHandler *handler, void *arg) { \
                return kfd_hsa_async_handler(signal, condition, value, handler, arg, tools[i].async_handler);          \
        }                                                                                                              \
        static int async_function_##i(HsaFunction *function, void *arg) {                                              \
                return kfd_hsa_async_function(function, arg, tools[i].async_function);                                 \
        }                                                                                                              \
        static int create_##i(uint64_t agent, uint32_t size, uint32_t type, void *callback, void *data,                \
                        uint32_t private_size, uint32_t group_size, HsaQueue **ret) {                                  \
                return create_queue(tools + i, agent, size, type, callback, data, private_size, group_size, ret);      \
        }                                                                                                              \
        static int destroy_##i(HsaQueue *queue) {                                                                      \
                return destroy_queue(tools[i].destroy, queue);                                                         \
        }                                                                                                              \
        static int counted_release_##i(HsaQueue *queue) {                                                              \
                return destroy_queue(tools[i].counted_release, queue);                                                 \
        }
#define DEFINE_ADDS(i) DEFINE_ADD(i, 0) DEFINE_ADD(i, 1) DEFINE_ADD(i, 2) DEFINE_ADD(i, 3)

EACH_TOOL(DEFINE_ADDS)
EACH_TOOL(DEFINE_SET)

#define SET(i)                                                                                                         \
        [i] = {                                                                                                        \
                        .store_relaxed = store_relaxed_##i,                                                            \
                        .store_screlease = store_screlease_##i,                                                        \
                        .silent_relaxed = silent_relaxed_##i,                                                          \
                        .silent_screlease = silent_screlease_##i,                                                      \
                        .add = {add_##i##_0, add_##i##_1, add_##i##_2, add_##i##_3},                                   \
                        .async_handler = async_handler_##i,                                                            \
                        .async_function = async_function_##i,                                                          \
                        .create = create_##i,                                                                          \
                        .destroy = destroy_##i,                                                                        \
                        .counted_release = counted_release_##i,                                                        \
        },
static const Tool ours[TOOLS_MAX] = {EACH_TOOL(SET)};

/* --- tables --- */

/* The place of a function, where the table is as long as that. */
static Function **place(Function **table, size_t i) {
        return table && ((const uint32_t *) table)[1] >= (i + 1) * sizeof(Function *) ? table + i : NULL;
}

/* A table whose order is known; else NULL. */
static Function **table_at(Function **parent, size_t i) {
        Function **cell = place(parent, i), **table = cell ? (Function **) *cell : NULL;
        uint32_t major = table ? ((const uint32_t *) table)[0] : 0;

        return major >= MAJOR_MIN && major <= MAJOR_MAX ? table : NULL;
}

/* Puts our function in. A table that comes again, after hsa_shut_down(), may have the runtime's function, or still
 * ours. */
#define TAKE(table, i, member)                                                                                         \
        do {                                                                                                           \
                Function **_place = place(table, i);                                                                   \
                if (_place && *_place && *_place != (Function *) ours[n].member) {                                     \
                        tools[n].member = (typeof(tools[n].member)) *_place;                                           \
                        *_place = (Function *) ours[n].member;                                                         \
                }                                                                                                      \
        } while (false)

static void take_core(Function **core, size_t n) {
        TAKE(core, CORE_STORE_RELAXED, store_relaxed);
        TAKE(core, CORE_STORE_SCRELEASE, store_screlease);
        TAKE(core, CORE_SILENT_STORE_RELAXED, silent_relaxed);
        TAKE(core, CORE_SILENT_STORE_SCRELEASE, silent_screlease);
        for (size_t k = 0; k < N_ADDS; k++)
                TAKE(core, CORE_ADD_FIRST + k, add[k]);
        Function **info = place(core, CORE_AGENT_GET_INFO);
        tools[n].agent_get_info = info ? (GetAgentInfo *) *info : NULL;
        if (!tools[n].agent_get_info)
                return;
        TAKE(core, CORE_QUEUE_DESTROY, destroy);
        TAKE(core, CORE_QUEUE_CREATE, create);
}

/* The number of a table's set; TOOLS_MAX: there is none left. */
static size_t tool_of(Function **core) {
        for (size_t n = 0; n < TOOLS_MAX; n++) {
                Function **known = NULL;
                if (atomic_compare_exchange_strong(&tools[n].core, &known, core) || known == core)
                        return n;
        }
        return TOOLS_MAX;
}

static void take_amd(Function **amd, size_t n) {
        TAKE(amd, AMD_ASYNC_HANDLER, async_handler);
        TAKE(amd, AMD_ASYNC_FUNCTION, async_function);
        if (((const uint32_t *) amd)[0] < MAJOR_MAX)
                return;
        Function **info = place(amd, AMD_QUEUE_GET_INFO);
        tools[n].queue_get_info = info ? (GetQueueInfo *) *info : NULL;
        TAKE(amd, AMD_COUNTED_RELEASE, counted_release);
}

_public_
void xsched_kfd_tool_load(void *table) {
        Function **core = table_at(table, TABLE_CORE), **amd = table_at(table, TABLE_AMD);

        if (!core || !kfd_start())
                return;
        size_t n = tool_of(core);
        if (n == TOOLS_MAX)
                return;
        take_core(core, n);
        if (amd)
                take_amd(amd, n);
}

_public_
void xsched_kfd_tool_unload(void) {
        kfd_queue_abandon(NULL);
}
