/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A tenant of the mix: launches kernels of one length in one pattern, for as long as it is told to
 *
 * mix-tenant calibrate USEC...
 *         How many rounds a kernel takes for each length, by the device's own clock (device-clock.h), else by profiling
 *         events.
 * mix-tenant PATTERN ROUNDS N
 *         Says "ready". Then, for each line "FROM TO" (CLOCK_MONOTONIC, ns) on standard input, works from now until TO,
 *         checks all results, and says what it did between the two.
 *
 *         deep    groups of N launches, four of them in flight: the oldest is waited for, the next is launched
 *         finish  N launches and clFinish(), again and again
 *         churn   N launches to a queue of their own, which is released at once; two such queues have work at any time
 *
 *         Deep, and unusual:
 *         failing     with three launches before each that the runtime refuses
 *         unordered   on a queue that is out of order; each launch waits for the one before
 *         queues      on eight queues in turns; each launch waits for the one before
 *         profiling   on a queue with profiling enabled, an event for each launch, and its time stamps read
 *         callbacks   with a callback on the end of each group
 *         forks       with a child process now and then, which ends at once
 *
 * If MIX_SPANS names a directory, the file there that has the process's number for a name then tells when the device
 * had its launches of the last window: device_stamps_write().
 *
 * What was done is counted by the device: each kernel adds one to a counter in device memory, next to what it computed.
 * The host's own count of completions says only when that was, and has to agree in the end. A unit that is under way
 * when the window begins or ends counts by the part of its time that is in the window.
 *
 * If the device is the CPU, it is the last CPU: all tenants' kernels share it, as they would share a GPU, and the
 * launching threads run on the other CPUs.
 */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cl-test.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "device-clock.h"
#include "tools/demo/recurrence.h"

#define DEPTH          4U /* groups in flight */
#define QUEUES         8U
#define REFUSED        3U
#define FORK_EVERY     32U
#define ROUNDS_MAX     (UINT32_C(1) << 28)
#define WARM_UP_NS     (300 * NSEC_PER_MSEC)
#define N_REFINE       6U
#define N_SAMPLES      25U
#define LENGTHS_MAX    16
#define SPAN_GAP_NS    10000.0               /* between launches that are kept as one span */
#define SAMPLES_NS_MAX (400 * NSEC_PER_MSEC) /* of one calibration step */

/* state[0..n): items, each a chain of dependent steps. Then the order of launches, and how many there were. */
static const char *const source =
                "__kernel void work(__global uint *state, uint n, uint a, uint c, uint rounds, uint launch,\n"
                "                __global ulong *stamps) {\n"
                "        uint i = get_global_id(0);\n"
                "        uint x = state[i];\n"
                "        if (i == 0)\n"
                "                stamps[launch % STAMPS * 2] = device_clock();\n"
                "        for (uint r = 0; r < rounds; r++)\n"
                "                x = a * x + c;\n"
                "        state[i] = x;\n"
                "        if (i == n - 1)\n"
                "                stamps[launch % STAMPS * 2 + 1] = device_clock();\n"
                "        if (i == 0) {\n"
                "                state[n] = state[n] * 31 + launch + 1;\n"
                "                state[n + 1]++;\n"
                "        }\n"
                "}\n";

typedef enum Way {
        WAY_PLAIN,
        WAY_FAILING,
        WAY_UNORDERED,
        WAY_QUEUES,
        WAY_PROFILING,
        WAY_CALLBACKS,
        WAY_FORKS,
        _WAY_MAX,
} Way;

static const char *const way_names[_WAY_MAX] = {
                [WAY_PLAIN] = "deep",
                [WAY_FAILING] = "failing",
                [WAY_UNORDERED] = "unordered",
                [WAY_QUEUES] = "queues",
                [WAY_PROFILING] = "profiling",
                [WAY_CALLBACKS] = "callbacks",
                [WAY_FORKS] = "forks",
};

typedef struct Tenant {
        Way way;
        cl_kernel kernel;
        cl_command_queue queue;
        cl_command_queue more[QUEUES]; /* WAY_QUEUES: all but the first */
        cl_event last;                 /* of the launch that the next one waits for */
        unsigned n_groups;             /* launched */
        _Atomic unsigned n_called;     /* of these, where they have callbacks */
        cl_mem state;
        DeviceClock clock;
        size_t n_items, local;
        uint32_t rounds;
        uint32_t n_launches; /* ever */
        uint32_t order;
        uint64_t n_rounds; /* by each item, ever */
        bool gpu;
        int cpu; /* that is the device, or -1 */
} Tenant;

/* A group of launches that is waited for as one. */
typedef struct Group {
        cl_event event;
        uint64_t launched_ns;
        unsigned n;
} Group;

/* What was done between two times. */
typedef struct Window {
        uint64_t from_ns, to_ns;
        uint64_t last_ns; /* when the last completion was heard of */
        uint64_t completed;
        double units, busy_ns;
} Window;

/* Every thread but ours that exists by now is the driver's; those made from here on inherit our own mask. */
static int claim_cpu(void) {
        cpu_set_t all, device;
        int cpu = -1;

        CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
        for (int i = 0; i < CPU_SETSIZE; i++)
                if (CPU_ISSET(i, &all))
                        cpu = i;
        CPU_ZERO(&device);
        CPU_SET(cpu, &device);

        DIR *d = opendir("/proc/self/task");
        CHECK(d);
        for (struct dirent *entry; (entry = readdir(d));) {
                pid_t tid = (pid_t) atoi(entry->d_name);

                if (tid > 0 && tid != gettid())
                        CHECK(sched_setaffinity(tid, sizeof(device), &device) == 0 || errno == ESRCH);
        }
        CHECK(closedir(d) == 0);

        CPU_CLR(cpu, &all);
        if (CPU_COUNT(&all) > 0)
                CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
        return cpu;
}

static void kernel_make(Tenant *tenant) {
        const Affine step_of = AFFINE_STEP;
        const cl_uint words[] = {(cl_uint) tenant->n_items, step_of.a, step_of.c, 0, 0};
        cl_int r;

        cl_program program = device_clock_build(&tenant->clock, source);
        tenant->kernel = clCreateKernel(program, "work", &r);
        CHECK_CL(r);
        CHECK_CL(clReleaseProgram(program));
        CHECK_CL(clSetKernelArg(tenant->kernel, 0, sizeof(cl_mem), &tenant->state));
        CHECK_CL(clSetKernelArg(tenant->kernel, 6, sizeof(cl_mem), &tenant->clock.stamps));
        for (cl_uint i = 0; i < ELEMENTSOF(words); i++)
                CHECK_CL(clSetKernelArg(tenant->kernel, i + 1, sizeof(words[i]), &words[i]));
}

static void set_rounds(Tenant *tenant, uint32_t rounds) {
        tenant->rounds = rounds;
        CHECK_CL(clSetKernelArg(tenant->kernel, 4, sizeof(rounds), &rounds));
}

static void tenant_open(Tenant *tenant, cl_command_queue_properties properties) {
        cl_device_type type = 0;
        cl_uint units = 1;
        cl_int r;

        test_open();
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_TYPE, sizeof(type), &type, NULL));
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL));
        *tenant = (Tenant){.gpu = type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR), .cpu = -1};
        if (!tenant->gpu)
                tenant->cpu = claim_cpu();
        tenant->local = tenant->gpu ? 256 : 64;
        tenant->n_items = CLAMP(units, 1U, 1024U) * tenant->local;

        size_t size = (tenant->n_items + 2) * sizeof(uint32_t);
        uint32_t *start = calloc(1, size);
        CHECK(start);
        for (uint32_t i = 0; i < tenant->n_items; i++)
                start[i] = recurrence_start(0, i);
        tenant->state = clCreateBuffer(t.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, start, &r);
        CHECK_CL(r);
        free(start);
        kernel_make(tenant);
        tenant->queue = clCreateCommandQueue(t.context, t.device, properties, &r);
        CHECK_CL(r);
}

static void tenant_close(Tenant *tenant) {
        if (tenant->last)
                CHECK_CL(clReleaseEvent(tenant->last));
        for (unsigned i = 0; i < QUEUES; i++)
                if (tenant->more[i])
                        CHECK_CL(clReleaseCommandQueue(tenant->more[i]));
        CHECK_CL(clReleaseCommandQueue(tenant->queue));
        CHECK_CL(clReleaseKernel(tenant->kernel));
        CHECK_CL(clReleaseMemObject(tenant->state));
        device_clock_close(&tenant->clock);
        test_close();
}

static void launch_on(Tenant *tenant, cl_command_queue queue, const cl_event *after, cl_event *event) {
        cl_uint number = tenant->n_launches++;

        CHECK_CL(clSetKernelArg(tenant->kernel, 5, sizeof(number), &number));
        CHECK_CL(clEnqueueNDRangeKernel(
                        queue, tenant->kernel, 1, NULL, &tenant->n_items, &tenant->local, after ? 1 : 0, after, event));
        tenant->order = recurrence_order(tenant->order, number);
        tenant->n_rounds += tenant->rounds;
}

static void launch(Tenant *tenant, cl_event *event) {
        launch_on(tenant, tenant->queue, NULL, event);
}

static void launch_refused(Tenant *tenant) {
        for (unsigned i = 0; i < REFUSED; i++)
                CHECK(clEnqueueNDRangeKernel(tenant->queue, tenant->kernel, 0, NULL, &tenant->n_items, &tenant->local,
                                      0, NULL, NULL) == CL_INVALID_WORK_DIMENSION);
}

static void launch_chained(Tenant *tenant, cl_event *event) {
        cl_command_queue queue = tenant->more[tenant->n_launches % QUEUES] ?: tenant->queue;
        cl_event last = tenant->last;

        launch_on(tenant, queue, last ? &last : NULL, &tenant->last);
        CHECK_CL(clFlush(queue)); /* others wait for it */
        if (last)
                CHECK_CL(clReleaseEvent(last));
        if (!event)
                return;
        *event = tenant->last;
        CHECK_CL(clRetainEvent(*event));
}

/* The time stamps of the launch before are there, or they are not yet. */
static void launch_profiled(Tenant *tenant, cl_event *event) {
        cl_ulong end;

        if (tenant->last) {
                cl_int r = clGetEventProfilingInfo(tenant->last, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL);
                CHECK(r == CL_SUCCESS || r == CL_PROFILING_INFO_NOT_AVAILABLE);
                CHECK_CL(clReleaseEvent(tenant->last));
        }
        launch_on(tenant, tenant->queue, NULL, &tenant->last);
        if (!event)
                return;
        *event = tenant->last;
        CHECK_CL(clRetainEvent(*event));
}

static void CL_CALLBACK called(cl_event event, cl_int status, void *userdata) {
        Tenant *tenant = userdata;

        CHECK(status == CL_COMPLETE);
        tenant->n_called++;
}

/* Launches as the tenant does. `after`: the event of a launch in another queue that it waits for. */
static void launch_after(Tenant *tenant, const cl_event *after, cl_event *event) {
        if (tenant->way == WAY_FAILING)
                launch_refused(tenant);
        if (tenant->way == WAY_UNORDERED || tenant->way == WAY_QUEUES)
                launch_chained(tenant, event);
        else if (tenant->way == WAY_PROFILING)
                launch_profiled(tenant, event);
        else
                launch_on(tenant, tenant->queue, after, event);
}

/* All that was ever launched has run, once each, in order, and computed what it should. Returns the device's count. */
static uint32_t check(Tenant *tenant) {
        size_t n = tenant->n_items, size = (n + 2) * sizeof(uint32_t);
        Affine all = affine_power(AFFINE_STEP, tenant->n_rounds);
        uint32_t *got = malloc(size);

        CHECK(got);
        CHECK_CL(clEnqueueReadBuffer(tenant->queue, tenant->state, CL_TRUE, 0, size, got, 0, NULL, NULL));
        for (uint32_t i = 0; i < n; i++)
                CHECK(got[i] == affine_apply(all, recurrence_start(0, i)));
        CHECK(got[n] == tenant->order);
        CHECK(got[n + 1] == tenant->n_launches);
        uint32_t count = got[n + 1];
        free(got);
        return count;
}

/* --- calibration --- */

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;
        return (x > y) - (x < y);
}

static double profiled_ns(cl_event e) {
        cl_ulong start, end;

        CHECK_CL(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL));
        CHECK_CL(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL));
        return (double) (end - start);
}

/* The median length of single kernels, in nanoseconds of the device: by their own stamps, if they have any. A GPU's
 * profiling events are made around a kernel, and add some 5 us to it. */
static double measure(Tenant *tenant) {
        double ns[N_SAMPLES];
        unsigned n = 0;
        uint64_t began = now_ns();
        DeviceMoment before = device_clock_moment(&tenant->clock, tenant->queue);

        while (n < N_SAMPLES && (n < 5 || now_ns() - began < SAMPLES_NS_MAX)) {
                cl_event e;

                launch(tenant, &e);
                CHECK_CL(clWaitForEvents(1, &e));
                ns[n++] = profiled_ns(e);
                CHECK_CL(clReleaseEvent(e));
        }
        DeviceMoment after = device_clock_moment(&tenant->clock, tenant->queue);
        DeviceStamp *stamps =
                        device_clock_read(&tenant->clock, tenant->queue, tenant->n_launches - n, tenant->n_launches);
        for (unsigned i = 0; i < n && stamps; i++)
                ns[i] = (double) (stamps[i].end - stamps[i].begin) * device_clock_unit(&tenant->clock, before, after);
        free(stamps);
        qsort(ns, n, sizeof(double), compare);
        return ns[n / 2];
}

/* An empty kernel takes time, too: the length of a round is what it adds. */
static void calibrate_one(Tenant *tenant, double want_ns) {
        double have_ns, none_ns;
        uint32_t rounds = 1000;

        set_rounds(tenant, 1);
        none_ns = measure(tenant);
        for (unsigned i = 0;; i++) {
                set_rounds(tenant, rounds);
                have_ns = measure(tenant);
                if (i == N_REFINE || (have_ns > 0.99 * want_ns && have_ns < 1.01 * want_ns))
                        break;
                double factor = CLAMP((want_ns - none_ns) / MAX(have_ns - none_ns, 1.0), 0.02, 50.0);
                rounds = (uint32_t) CLAMP(factor * (double) rounds, 1.0, (double) ROUNDS_MAX);
        }
        printf("{\"usec\": %.0f, \"rounds\": %" PRIu32 ", \"ns\": %.0f}", want_ns / 1000, rounds, have_ns);
}

static int calibrate(int n, char *const lengths[]) {
        char name[256], driver[256];
        Tenant tenant;

        tenant_open(&tenant, CL_QUEUE_PROFILING_ENABLE);
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_NAME, sizeof(name), name, NULL));
        CHECK_CL(clGetDeviceInfo(t.device, CL_DRIVER_VERSION, sizeof(driver), driver, NULL));
        set_rounds(&tenant, 1000);
        for (uint64_t began = now_ns(); now_ns() - began < WARM_UP_NS;)
                (void) measure(&tenant);

        printf("{\"device\": \"%s\", \"driver\": \"%s\", \"gpu\": %s, \"cpu\": %d, \"kernels\": [", name, driver,
                        tenant.gpu ? "true" : "false", tenant.cpu);
        for (int i = 0; i < n; i++) {
                printf("%s", i ? ", " : "");
                calibrate_one(&tenant, atof(lengths[i]) * 1000);
        }
        puts("]}");
        (void) check(&tenant);
        tenant_close(&tenant);
        return 0;
}

/* --- work --- */

/* Adds the part of units that ran between `from` and `to` that is in the window. */
static void window_add(Window *w, uint64_t from, uint64_t to, unsigned n) {
        from = MAX(from, w->last_ns);
        w->last_ns = to;
        w->completed += n;

        uint64_t a = MAX(from, w->from_ns), b = MIN(to, w->to_ns);
        if (a >= b)
                return;
        w->busy_ns += (double) (b - a);
        w->units += n * (double) (b - a) / (double) (to - from);
}

static void fork_once(void) {
        pid_t pid = fork();
        int status;

        CHECK(pid >= 0);
        if (pid == 0)
                _exit(0);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* `after`: what it comes after, where that is in another queue. */
static void group_launch(Tenant *tenant, Group *g, const Group *after, unsigned n) {
        g->n = n;
        g->launched_ns = now_ns();
        for (unsigned i = 0; i < n; i++)
                launch_after(tenant, i == 0 && after && after->event ? &after->event : NULL,
                                i + 1 == n ? &g->event : NULL);
        CHECK_CL(clFlush(tenant->queue));
        tenant->n_groups++;
        if (tenant->way == WAY_CALLBACKS)
                CHECK_CL(clSetEventCallback(g->event, CL_COMPLETE, called, tenant));
        if (tenant->way == WAY_FORKS && tenant->n_groups % FORK_EVERY == 0)
                fork_once();
}

static void group_wait(Group *g, Window *w) {
        if (!g->event)
                return;
        CHECK_CL(clWaitForEvents(1, &g->event));
        CHECK_CL(clReleaseEvent(g->event));
        g->event = NULL;
        window_add(w, g->launched_ns, now_ns(), g->n);
}

static void work_deep(Tenant *tenant, unsigned n, Window *w) {
        Group groups[DEPTH] = {};

        for (unsigned i = 0; now_ns() < w->to_ns; i++) {
                group_wait(&groups[i % DEPTH], w);
                group_launch(tenant, &groups[i % DEPTH], NULL, n);
        }
        /* The queue is in order, so all remaining launches came after the one that was waited for. */
        for (bool left = true; left;) {
                Group *oldest = NULL;

                for (unsigned i = 0; i < DEPTH; i++)
                        if (groups[i].event && (!oldest || groups[i].launched_ns < oldest->launched_ns))
                                oldest = &groups[i];
                left = oldest;
                if (oldest)
                        group_wait(oldest, w);
        }
}

static void work_churn(Tenant *tenant, unsigned n, Window *w) {
        cl_command_queue own = tenant->queue;
        Group groups[2] = {};
        cl_int r;

        for (unsigned i = 0; now_ns() < w->to_ns; i++) {
                tenant->queue = clCreateCommandQueue(t.context, t.device, 0, &r);
                CHECK_CL(r);
                group_launch(tenant, &groups[i % 2], &groups[1 - i % 2], n);
                CHECK_CL(clReleaseCommandQueue(tenant->queue));
                group_wait(&groups[1 - i % 2], w);
        }
        tenant->queue = own;
        for (unsigned i = 0; i < 2; i++)
                group_wait(&groups[i], w);
}

static void work_finish(Tenant *tenant, unsigned n, Window *w) {
        while (now_ns() < w->to_ns) {
                uint64_t began = now_ns();

                for (unsigned i = 0; i < n; i++)
                        launch(tenant, NULL);
                CHECK_CL(clFinish(tenant->queue));
                window_add(w, began, now_ns(), n);
        }
}

/* Each callback comes once, though perhaps a little later than the wait for its event returns. */
static void wait_called(Tenant *tenant) {
        uint64_t end = now_ns() + 10 * NSEC_PER_SEC;
        unsigned n = tenant->way == WAY_CALLBACKS ? tenant->n_groups : 0;

        while (tenant->n_called < n && now_ns() < end)
                (void) sched_yield();
        CHECK(tenant->n_called == n);
}

/* How long the device ran these launches in the window, by its own clock, in nanoseconds; -1 if that is not known. If
 * MIX_SPANS names a directory, keeps there when it did. */
static double window_device_ns(Tenant *tenant, const Window *w, uint32_t first, DeviceMoment before) {
        DeviceMoment after = device_clock_moment(&tenant->clock, tenant->queue);
        uint32_t n = tenant->n_launches - first;
        DeviceStamp *stamps = device_clock_read(&tenant->clock, tenant->queue, first, tenant->n_launches);
        const char *directory = getenv("MIX_SPANS");

        if (!stamps)
                return -1;
        DeviceStamp window = {device_clock_at(before, after, w->from_ns), device_clock_at(before, after, w->to_ns)};
        double unit = device_clock_unit(&tenant->clock, before, after);
        double sum = (double) device_stamps_sum(stamps, n, window.begin, window.end);

        if (directory) {
                char path[4096];

                snprintf(path, sizeof(path), "%s/%d", directory, getpid());
                device_stamps_write(stamps, n, window, (uint64_t) (SPAN_GAP_NS / unit), path);
        }
        free(stamps);
        return sum * unit;
}

static void work(Tenant *tenant, const char *pattern, unsigned n, Window *w) {
        DeviceMoment moment = device_clock_moment(&tenant->clock, tenant->queue);
        uint32_t before = tenant->n_launches;

        w->last_ns = now_ns();
        if (streq(pattern, "churn"))
                work_churn(tenant, n, w);
        else if (streq(pattern, "finish"))
                work_finish(tenant, n, w);
        else
                work_deep(tenant, n, w);
        uint32_t count = check(tenant) - before;
        CHECK(count == w->completed);
        wait_called(tenant);
        printf("{\"units\": %.3f, \"busy_ns\": %.0f, \"device_ns\": %.0f, \"counted\": %" PRIu32 "}\n", w->units,
                        w->busy_ns, window_device_ns(tenant, w, before, moment), count);
        CHECK(fflush(stdout) == 0);
}

/* Deep patterns are named by their way. */
static bool pattern_parse(const char *s, Way *ret) {
        *ret = WAY_PLAIN;
        if (streq(s, "finish") || streq(s, "churn"))
                return true;
        for (Way way = 0; way < _WAY_MAX; way++)
                if (streq(s, way_names[way])) {
                        *ret = way;
                        return true;
                }
        return false;
}

static cl_command_queue_properties way_properties(Way way) {
        return way == WAY_UNORDERED            ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
                        : way == WAY_PROFILING ? CL_QUEUE_PROFILING_ENABLE
                                               : 0;
}

int main(int argc, char *argv[]) {
        Tenant tenant;
        char line[128];
        Way way;

        if (argc > 2 && argc <= 2 + LENGTHS_MAX && streq(argv[1], "calibrate"))
                return calibrate(argc - 2, argv + 2);
        if (argc != 4 || !pattern_parse(argv[1], &way)) {
                fprintf(stderr, "usage: mix-tenant calibrate USEC... | PATTERN ROUNDS N\n");
                return 2;
        }
        tenant_open(&tenant, way_properties(way));
        tenant.way = way;
        for (unsigned i = 1; way == WAY_QUEUES && i < QUEUES; i++) {
                cl_int r;

                tenant.more[i] = clCreateCommandQueue(t.context, t.device, 0, &r);
                CHECK_CL(r);
        }
        set_rounds(&tenant, (uint32_t) strtoul(argv[2], NULL, 10));
        unsigned n = (unsigned) strtoul(argv[3], NULL, 10);
        CHECK(tenant.rounds > 0 && n > 0);

        /* The first launch of a process makes the driver do what it does once. */
        launch(&tenant, NULL);
        (void) check(&tenant);
        puts("ready");
        CHECK(fflush(stdout) == 0);
        while (fgets(line, sizeof(line), stdin)) {
                Window w = {};

                CHECK(sscanf(line, "%" SCNu64 " %" SCNu64, &w.from_ns, &w.to_ns) == 2);
                work(&tenant, argv[1], n, &w);
        }
        tenant_close(&tenant);
        return 0;
}
