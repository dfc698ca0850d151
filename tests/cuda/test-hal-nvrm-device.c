/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HAL's conformance suite over the backend for NVIDIA's driver, on a real GPU
 *
 * A queue is a CUDA context with all its channels, found by hal/nvrm-find.h on the program's own files. Its work are
 * kernels of one thread, which count in memory that the host sees, at each step and at their ends. Skipped where there
 * is no libcuda, no GPU, or a version of the driver that xsched does not know.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "hal/nvrm-find.h"
#include "hal/nvrm.h"
#include "shim/cuda/cuda-abi.h"
#include "tests/lib/hal-suite.h"
#include "tests/lib/unit.h"

#define SKIPPED  77
#define WORK_MAX 65536U /* of one queue; a number that has been done long ago is used again */
#define STEP_NS  500U   /* about */
#define FILES    8U

/* Each step takes about 0.5 us, and is seen by the host. */
static const char program[] = ".version 7.0\n"
                              ".target sm_70\n"
                              ".address_size 64\n"
                              ".visible .entry work(.param .u64 steps_at, .param .u64 done_at, .param .u64 steps) {\n"
                              "    .reg .u64 %at, %done, %n, %k; .reg .u32 %d; .reg .pred %more;\n"
                              "    ld.param.u64 %at, [steps_at];\n"
                              "    ld.param.u64 %done, [done_at];\n"
                              "    ld.param.u64 %n, [steps];\n"
                              "    ld.volatile.global.u64 %k, [%at];\n"
                              "again:\n"
                              "    nanosleep.u32 300;\n"
                              "    add.u64 %k, %k, 1;\n"
                              "    st.volatile.global.u64 [%at], %k;\n"
                              "    sub.u64 %n, %n, 1;\n"
                              "    setp.ne.u64 %more, %n, 0;\n"
                              "    @%more bra again;\n"
                              "    ld.volatile.global.u32 %d, [%done];\n"
                              "    add.u32 %d, %d, 1;\n"
                              "    st.volatile.global.u32 [%done], %d;\n"
                              "    membar.sys;\n"
                              "    ret;\n"
                              "}\n";

/* --- libcuda --- */

static struct {
        CudaResult (*init)(unsigned flags);
        CudaResult (*context_new)(CudaContext *ret, unsigned flags, CudaDevice device);
        CudaResult (*context_free)(CudaContext c);
        CudaResult (*context_set)(CudaContext c);
        CudaResult (*module_load)(void **ret, const void *image);
        CudaResult (*module_function)(CudaFunction *ret, void *module, const char *name);
        CudaResult (*host_alloc)(void **ret, size_t size, unsigned flags);
        CudaResult (*primary_retain)(CudaContext *ret, CudaDevice device);
        CudaResult (*launch)(CudaFunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CudaStream s, void **params, void **extra);
} cuda;

static bool cuda_load(void) {
        static const struct {
                void *at;
                const char *name;
        } names[] = {
                        {&cuda.init, "cuInit"},
                        {&cuda.context_new, "cuCtxCreate_v2"},
                        {&cuda.context_free, "cuCtxDestroy_v2"},
                        {&cuda.context_set, "cuCtxSetCurrent"},
                        {&cuda.module_load, "cuModuleLoadData"},
                        {&cuda.module_function, "cuModuleGetFunction"},
                        {&cuda.host_alloc, "cuMemHostAlloc"},
                        {&cuda.primary_retain, "cuDevicePrimaryCtxRetain"},
                        {&cuda.launch, "cuLaunchKernel"},
        };
        void *library = dlopen("libcuda.so.1", RTLD_NOW);

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                void *f = library ? dlsym(library, names[i].name) : NULL;
                if (!f)
                        return false;
                memcpy(names[i].at, &f, sizeof(f));
        }
        return true;
}

#define HOST_ALLOC_PORTABLE 1U
#define HOST_ALLOC_MAPPED   2U

#define MUST(call) assert_int_equal(call, CUDA_RESULT_SUCCESS)

/* --- the driver --- */

typedef struct File {
        int fd;
        NvrmFound found;
} File;

static File files[FILES];
static size_t n_files;
static uint32_t clients_seen; /* up to this number */
static NvrmHalDevice hal_device;

static bool is_control(int fd) {
        struct stat st;

        return fstat(fd, &st) >= 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(195, 255);
}

static void find_files(void) {
        for (int fd = 0; fd < 1024; fd++) {
                bool known = false;
                for (size_t i = 0; i < n_files; i++)
                        known |= files[i].fd == fd;
                if (known || !is_control(fd))
                        continue;
                assert_in_range(n_files, 0, FILES - 1);
                files[n_files++] = (File){.fd = fd};
        }
}

static void find_objects(void) {
        uint32_t newest;

        find_files();
        int own = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
        assert_true(own >= 0);
        assert_int_equal(nvrm_newest_client(&(NvrmFile){.ioctl = ioctl, .fd = own}, &newest), 0);
        (void) close(own);
        for (size_t i = 0; i < n_files; i++) {
                const NvrmFile f = {.ioctl = ioctl, .fd = files[i].fd};
                assert_true(nvrm_find_clients(&f, files[i].found.n_clients > 0 ? clients_seen : NVRM_CLIENT_FIRST,
                                            newest, &files[i].found) >= 0);
                assert_int_equal(nvrm_find_objects(&f, &files[i].found), 0);
        }
        clients_seen = newest;
}

static bool version_is_known(void) {
        NvrmVersion v = {.command = NVRM_VERSION_QUERY};
        int fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);

        bool known = fd >= 0 && ioctl(fd, NVRM_IOC(NVRM_NR_VERSION, NvrmVersion), &v) >= 0 &&
                        nvrm_version_known(v.text) != NVRM_UNKNOWN;
        safe_close(fd);
        return known;
}

/* --- queues --- */

#define QUEUES_MAX 32U

typedef struct TestQueue {
        NvrmHalQueue q;
        CudaContext context;
        CudaFunction function;
        uint64_t n;
        volatile uint64_t *steps;
        volatile uint32_t *done;
        struct TestQueue *next;
} TestQueue;

static TestQueue *queues[QUEUES_MAX];
static TestQueue *gone; /* freed by the suite; their contexts are still there */

/* What queues count in, by their places: memory of a context that stays. libcuda waits for the work of all contexts
 * before it frees memory that all can reach. */
typedef struct Counts {
        volatile uint64_t steps;
        volatile uint32_t done[WORK_MAX];
} Counts;

static Counts *counts;
static NvrmChannel *channels_of_it; /* of that context, which is never held */

static TestQueue *test_queue(const HalQueue *q) {
        NvrmHalQueue *n = container_of((HalQueue *) q, NvrmHalQueue, hal);
        return container_of(n, TestQueue, q);
}

static bool is_in(const NvrmChannel *c, uint32_t client, uint32_t id) {
        for (; c; c = c->next)
                if (c->client == client && c->object == id)
                        return true;
        return false;
}

static bool is_taken(uint32_t client, uint32_t id) {
        bool taken = is_in(channels_of_it, client, id);

        for (size_t i = 0; i < QUEUES_MAX; i++)
                taken |= queues[i] && is_in(queues[i]->q.channels, client, id);
        for (const TestQueue *t = gone; t; t = t->next)
                taken |= is_in(t->q.channels, client, id);
        return taken;
}

static NvrmChannel *channel_new(const NvrmFoundObject *o, NvrmChannel *next) {
        NvrmChannel *c = calloc(1, sizeof(*c));

        assert_non_null(c);
        *c = (NvrmChannel){.client = o->client, .object = o->id, .next = next};
        return c;
}

static uint32_t subdevice_of(const File *file, const NvrmFoundObject *channel) {
        const NvrmFoundObject *device = nvrm_found_above(&file->found, channel, NVRM_CLASS_DEVICE);

        assert_non_null(device);
        for (size_t i = 0; i < file->found.n_objects; i++) {
                const NvrmFoundObject *s = &file->found.objects[i];
                if (s->class == NVRM_CLASS_SUBDEVICE && s->client == channel->client && s->parent == device->id)
                        return s->id;
        }
        fail();
        return 0;
}

/* Adds the channels that no queue has. */
static void channels_take(NvrmHalQueue *q) {
        find_objects();
        for (size_t i = 0; i < n_files; i++)
                for (size_t k = 0; k < files[i].found.n_objects; k++) {
                        const NvrmFoundObject *o = &files[i].found.objects[k];
                        if (!nvrm_class_is_channel(o->class) || is_taken(o->client, o->id))
                                continue;
                        q->channels = channel_new(o, q->channels);
                        q->ioctl = ioctl;
                        q->fd = files[i].fd;
                        q->client = o->client;
                        q->subdevice = subdevice_of(&files[i], o);
                }
        assert_non_null(q->channels);
}

static void *device_new(void) {
        CudaContext context;
        void *p;

        hal_device = (NvrmHalDevice){.level = LEVEL_INTERRUPT};
        if (counts)
                return &hal_device;
        assert_true(cuda_load());
        MUST(cuda.init(0));
        MUST(cuda.primary_retain(&context, 0));
        MUST(cuda.context_set(context));
        MUST(cuda.host_alloc(&p, QUEUES_MAX * sizeof(Counts), HOST_ALLOC_PORTABLE | HOST_ALLOC_MAPPED));
        counts = p;
        NvrmHalQueue q = {};
        channels_take(&q);
        channels_of_it = q.channels;
        return &hal_device;
}

static HalQueue *queue_new(void *unused) {
        TestQueue *t = calloc(1, sizeof(*t));
        size_t at = 0;
        void *module;

        assert_non_null(t);
        nvrm_hal_init(&t->q, &hal_device);
        MUST(cuda.context_new(&t->context, 0, 0));
        MUST(cuda.module_load(&module, program));
        MUST(cuda.module_function(&t->function, module, "work"));
        while (queues[at])
                assert_in_range(++at, 0, QUEUES_MAX - 1);
        counts[at] = (Counts){};
        t->steps = &counts[at].steps;
        t->done = counts[at].done;
        channels_take(&t->q);
        queues[at] = t;
        return &t->q.hal;
}

static void run(void *unused, uint64_t ns) {
        const struct timespec ts = ns_to_timespec(ns);

        (void) nanosleep(&ts, NULL); /* the GPU works by itself */
}

/* As libcuda does before it frees a context's channels, waits for the work in it. The context itself goes with the
 * device: libcuda's cuCtxDestroy() also waits for the work of other contexts of the process, which may be held. */
static void queue_free(HalQueue *q) {
        TestQueue *t = test_queue(q);

        assert_int_equal(nvrm_hal_let_go(&t->q), 0);
        while (t->n > 0 && !t->done[(t->n - 1) % WORK_MAX])
                run(NULL, NSEC_PER_MSEC);
        for (size_t i = 0; i < QUEUES_MAX; i++)
                if (queues[i] == t)
                        queues[i] = NULL;
        t->next = gone;
        gone = t;
}

static void device_free(void *unused) {
        assert_false(hal_device.degraded);
        for (TestQueue *t; (t = gone);) {
                gone = t->next;
                MUST(cuda.context_set(t->context));
                MUST(cuda.context_free(t->context));
                for (NvrmChannel *c = t->q.channels, *next; c; c = next) {
                        next = c->next;
                        free(c);
                }
                free(t);
        }
}

static uint64_t submit(HalQueue *q, uint64_t ns) {
        TestQueue *t = test_queue(q);
        uint64_t steps = DIV_ROUND_UP(ns, STEP_NS);
        volatile void *steps_at = t->steps, *done_at = &t->done[t->n % WORK_MAX];
        void *params[] = {&steps_at, &done_at, &steps};

        if (t->n >= WORK_MAX) {
                assert_int_equal(t->done[t->n % WORK_MAX], 1);
                t->done[t->n % WORK_MAX] = 0;
        }
        MUST(cuda.context_set(t->context));
        MUST(cuda.launch(t->function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        return t->n++;
}

static unsigned times_done(HalQueue *q, uint64_t n) {
        const TestQueue *t = test_queue(q);

        return n + WORK_MAX <= t->n ? 1 : t->done[n % WORK_MAX];
}

static uint64_t progress(HalQueue *q) {
        return *test_queue(q)->steps * STEP_NS;
}

static const HalDriver nvrm_driver = {
                .ops = &hal_nvrm_ops,
                .max_level = LEVEL_INTERRUPT,
                .inherit = HAL_INHERIT_RUN,
                .device_new = device_new,
                .device_free = device_free,
                .queue_new = queue_new,
                .queue_free = queue_free,
                .submit = submit,
                .run = run,
                .times_done = times_done,
                .progress = progress,
};

int main(int argc, char *argv[]) {
        static const HalDriver *const drivers[] = {&nvrm_driver, NULL};

        if (!version_is_known()) {
                (void) fputs("skipped: no NVIDIA driver that xsched knows\n", stderr);
                return SKIPPED;
        }
        return hal_suite_main(drivers, argc, argv);
}
