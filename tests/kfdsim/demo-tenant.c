/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * xsched-demo's tenant on a simulated AMD GPU: Debian's own HSA runtime on kfdsim
 *
 * The same tenant as on a real device (tools/demo/tenant.c), over another kind of work: a kernel is an AQL dispatch
 * whose duration is given in nanoseconds (what the demo calls rounds) and that proves its execution (aql.h). Its
 * doorbells are the runtime's, so the KFD layer gates them.
 *
 * The program starts itself again with the simulator behind the layer. The world is KFDSIM_DIR's, which the demo makes.
 */

#include <hsa/hsa.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "aql.h"
#include "kfdsim.h"
#include "tools/demo/calibrate.h"
#include "tools/demo/tenant.h"
#include "tools/demo/work.h"

#define N_PACKETS       1024U
#define KERNEL_NS       (500 * NSEC_PER_USEC)
#define NAP_USEC        50U
#define SELF_VARIABLE   "XSCHED_DEMO_AMD_SIM_STARTED"
#define WINDOW_VARIABLE "XSCHED_DEMO_WINDOW"
#define DEVICE_NAME                                                                                                    \
        "simulated AMD GPU (kfdsim): kernels are timers, an unmap and map costs 50 us, processes take turns of 1 ms"

struct Work {
        hsa_queue_t *queue;
        hsa_signal_t done;
        AqlKernel kernel;
        AqlProof *proof;
        uint64_t n_dispatched;
        uint32_t window, refill; /* see window_parse(); 0: none */
};

void demo_complain(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        (void) vfprintf(stderr, format, ap);
        va_end(ap);
        (void) fputc('\n', stderr);
}

static const char *const role_table[_ROLE_MAX] = {
                [ROLE_LATENCY] = "latency",
                [ROLE_BATCH] = "batch",
};
DEFINE_STRING_TABLE_LOOKUP(role, Role);

/* XSched's launch configuration, by $XSCHED_DEMO_WINDOW: "16/8" has 16 dispatches in flight at most, and learns of
 * their ends in batches of 8 only: who has filled the window goes on when the batch at its head is done, with a whole
 * batch. The application plays this, because XSched's shim keeps commands that are not launched yet; holds are made by
 * the gate behind it. */
static void window_parse(Work *w) {
        const char *text = getenv(WINDOW_VARIABLE);

        if (text && (sscanf(text, "%" SCNu32 "/%" SCNu32, &w->window, &w->refill) != 2 || w->refill > w->window))
                w->window = w->refill = 0;
}

static void window_wait(const Work *w, uint64_t index) {
        if (w->window == 0 || index - hsa_queue_load_read_index_scacquire(w->queue) < w->window)
                return;
        while (index - hsa_queue_load_read_index_scacquire(w->queue) > w->window - w->refill)
                (void) usleep(NAP_USEC);
}

/* --- work.h --- */

static hsa_status_t take_gpu(hsa_agent_t agent, void *userdata) {
        hsa_device_type_t type;

        hsa_status_t status = hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
        if (status != HSA_STATUS_SUCCESS || type != HSA_DEVICE_TYPE_GPU)
                return status;
        *(hsa_agent_t *) userdata = agent;
        return HSA_STATUS_INFO_BREAK;
}

Work *work_close(Work *w) {
        if (!w)
                return NULL;
        if (w->queue)
                (void) hsa_queue_destroy(w->queue);
        if (w->done.handle)
                (void) hsa_signal_destroy(w->done);
        free(w->proof);
        free(w);
        return NULL;
}

int work_open(const char *device, uint32_t seed, Work **ret) {
        _cleanup_(work_closep)
        Work *w = calloc(1, sizeof(*w));
        hsa_agent_t gpu;

        if (!w)
                return demo_error(-ENOMEM, "out of memory");
        w->kernel.magic = AQL_KERNEL_MAGIC;
        w->proof = calloc(1, sizeof(AqlProof) + 2 * (size_t) WORK_KERNELS_MAX);
        if (!w->proof)
                return demo_error(-ENOMEM, "out of memory");
        w->proof->capacity = 2 * WORK_KERNELS_MAX;
        window_parse(w);
        if (hsa_init() != HSA_STATUS_SUCCESS || hsa_iterate_agents(take_gpu, &gpu) != HSA_STATUS_INFO_BREAK ||
                        hsa_signal_create(1, 0, NULL, &w->done) != HSA_STATUS_SUCCESS ||
                        hsa_queue_create(gpu, N_PACKETS, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX,
                                        &w->queue) != HSA_STATUS_SUCCESS)
                return demo_error(-ENODEV, "the HSA runtime does not start on the simulated GPU");
        *ret = TAKE_PTR(w);
        return 0;
}

static void dispatch(Work *w, bool last) {
        uint64_t index = hsa_queue_add_write_index_relaxed(w->queue, 1);

        while (index - hsa_queue_load_read_index_scacquire(w->queue) >= w->queue->size)
                (void) usleep(NAP_USEC);
        window_wait(w, index);
        AqlPacket *p = (AqlPacket *) w->queue->base_address + index % w->queue->size;
        uint64_t number = ++w->n_dispatched;
        w->proof->seen[number % w->proof->capacity] = 0;
        p->setup = 1;
        p->dispatch.workgroup[0] = p->dispatch.workgroup[1] = p->dispatch.workgroup[2] = 1;
        p->dispatch.grid[0] = p->dispatch.grid[1] = p->dispatch.grid[2] = 1;
        p->dispatch.kernel_object = (uintptr_t) &w->kernel;
        p->dispatch.kernarg = (uintptr_t) w->proof;
        p->dispatch.reserved2 = number;
        p->completion_signal = last ? w->done.handle : 0;
        __atomic_store_n(&p->header, (uint16_t) (AQL_DISPATCH | 1U << 8), __ATOMIC_RELEASE);
        hsa_signal_store_screlease(w->queue->doorbell_signal, (hsa_signal_value_t) index);
}

int work_run(Work *w, uint32_t n_kernels, uint32_t rounds, const char **ret_error) {
        w->kernel.duration_ns = rounds;
        hsa_signal_store_screlease(w->done, 1);
        for (uint32_t i = 0; i < n_kernels; i++)
                dispatch(w, i + 1 == n_kernels);
        if (hsa_signal_wait_scacquire(w->done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) == 0)
                return 0;
        *ret_error = "the completion signal has another value";
        return -EIO;
}

int work_check(Work *w, const char **ret_error) {
        const AqlProof *p = w->proof;

        if (__atomic_load_n(&p->n_executed, __ATOMIC_ACQUIRE) == w->n_dispatched && p->highest == w->n_dispatched &&
                        p->n_late == 0 && p->n_doubled == 0)
                return 0;
        *ret_error = "a dispatch was lost, doubled or late";
        return -EIO;
}

/* --- being started --- */

/* build/tests/kfdsim/US: the simulator beside us, the layer in build/shim. */
static int start_again(char *argv[], bool xsched) {
        char self[3072], text[12288];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (n < 0)
                return demo_error(negative_errno(), "/proc/self/exe: %s", strerror(errno));
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        if (!slash || getenv(SELF_VARIABLE))
                return demo_error(-ENOENT, "the simulator cannot be loaded");
        *slash = '\0';
        const char *before = strempty(getenv("LD_PRELOAD")), *space = *before ? " " : "";
        if (xsched)
                (void) snprintf(text, sizeof(text), "%s%s%s/../../shim/libxsched-kfd.so %s/libkfdsim.so", before, space,
                                self, self);
        else
                (void) snprintf(text, sizeof(text), "%s%s%s/libkfdsim.so", before, space, self);
        (void) setenv("LD_PRELOAD", text, 1);
        (void) setenv(SELF_VARIABLE, "1", 1);
        (void) execv("/proc/self/exe", argv);
        return demo_error(negative_errno(), "cannot start again: %s", strerror(errno));
}

static int calibrated(const char *kernel_ns) {
        uint64_t ns = strtoull(kernel_ns, NULL, 10);

        if (ns == 0)
                ns = KERNEL_NS;
        printf("calibrated %" PRIu64 " %" PRIu64 " 1 -1 %s\tkfdsim\n", ns, ns, DEVICE_NAME);
        return fflush(stdout) == 0 ? 0 : -EIO;
}

int main(int argc, char *argv[]) {
        TenantPlan plan;

        if (argc == 4 && streq(argv[1], "--calibrator"))
                return calibrated(argv[3]) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        if (argc < 2 || !streq(argv[1], "--tenant") || tenant_parse(argv + 2, &plan) < 0)
                return EXIT_FAILURE;
        if (!kfdsim_maps)
                return start_again(argv, plan.xsched) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        return tenant_main(&plan) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
