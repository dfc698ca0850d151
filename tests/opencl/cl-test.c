/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Functions that the OpenCL test programs share
 */

#include <dlfcn.h>

#include "cl-test.h"
#include "xsched/xsched.h"

static const char *const source =
                "__kernel void next(__global int *a, int k) { size_t i = get_global_id(0); a[i] = a[i] * 3 + k; }\n"
                "__kernel void add(__global int *d, __global const int *s) { size_t i = get_global_id(0); "
                "d[i] += s[i]; }\n"
                "__kernel void busy(__global int *a, int n) {\n"
                "        size_t i = get_global_id(0); int v = a[i];\n"
                "        for (int k = 0; k < n; k++) v = v * 3 + k;\n"
                "        a[i] = v;\n"
                "}\n";

Test t;

void test_open(void) {
        CHECK_CL(clGetPlatformIDs(1, &t.platform, NULL));
        CHECK_CL(clGetDeviceIDs(t.platform, CL_DEVICE_TYPE_ALL, 1, &t.device, NULL));
        cl_int r;
        t.context = clCreateContext(NULL, 1, &t.device, NULL, NULL, &r);
        CHECK_CL(r);
        t.program = clCreateProgramWithSource(t.context, 1, (const char **) (uintptr_t) &source, NULL, &r);
        CHECK_CL(r);
        CHECK_CL(clBuildProgram(t.program, 1, &t.device, "", NULL, NULL));
}

/* Returns whether the library is there. */
static bool read_counters(XschedCounters *ret) {
        int (*get)(XschedCounters *) = NULL;
        void *library = dlopen("libxsched.so.0", RTLD_LAZY | RTLD_NOLOAD);

        *ret = (XschedCounters){.size = sizeof(*ret)};
        if (library)
                *(void **) &get = dlsym(library, "xsched_get_counters");
        if (get)
                CHECK(get(ret) >= 0);
        if (library)
                (void) dlclose(library);
        return get != NULL;
}

bool test_has_waited(void) {
        XschedCounters c;

        return read_counters(&c) && c.waited > 0;
}

/* Not written to standard output, which must be the same as without the library. */
static void write_counters(void) {
        const char *path = getenv("TEST_COUNTERS");
        FILE *f = path ? fopen(path, "we") : NULL;
        XschedCounters c;

        if (!f)
                return;
        bool library = read_counters(&c);
        fprintf(f, "library %d\nstate %u\nlaunches %lu\ntracked %lu\nwaited %lu\nlease_expired %lu\n", library, c.state,
                        c.launches, c.tracked, c.waited, c.lease_expired);
        (void) fclose(f);
}

void test_close(void) {
        CHECK_CL(clReleaseProgram(t.program));
        CHECK_CL(clReleaseContext(t.context));
        write_counters();
}

cl_command_queue queue_make(cl_command_queue_properties properties) {
        cl_int r;
        const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, properties, 0};
        cl_command_queue q = clCreateCommandQueueWithProperties(t.context, t.device, list, &r);
        CHECK_CL(r);
        return q;
}

cl_mem buffer_make_with(const cl_int values[N]) {
        cl_int r;
        cl_mem m = clCreateBuffer(t.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, N * sizeof(cl_int),
                        (void *) (uintptr_t) values, &r);
        CHECK_CL(r);
        return m;
}

cl_mem buffer_make(void) {
        static const cl_int zeros[N];
        return buffer_make_with(zeros);
}

/* A kernel object for each launch: the tests launch from several threads, and arguments are the object's. */
static cl_int launch(cl_command_queue q, const char *name, cl_mem a, const void *argument, size_t size, cl_uint n_waits,
                const cl_event *waits, cl_event *event) {
        const size_t global = N;
        cl_int r;
        cl_kernel k = clCreateKernel(t.program, name, &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(k, 0, sizeof(a), &a));
        CHECK_CL(clSetKernelArg(k, 1, size, argument));
        r = clEnqueueNDRangeKernel(q, k, 1, NULL, &global, NULL, n_waits, waits, event);
        CHECK_CL(clReleaseKernel(k));
        return r;
}

cl_int launch_step(cl_command_queue q, cl_mem a, cl_int k, cl_uint n_waits, const cl_event *waits, cl_event *event) {
        return launch(q, "next", a, &k, sizeof(k), n_waits, waits, event);
}

cl_int launch_add(cl_command_queue q, cl_mem dst, cl_mem src, cl_uint n_waits, const cl_event *waits, cl_event *event) {
        return launch(q, "add", dst, &src, sizeof(src), n_waits, waits, event);
}

cl_int launch_busy(cl_command_queue q, cl_mem a, cl_int rounds, cl_event *event) {
        return launch(q, "busy", a, &rounds, sizeof(rounds), 0, NULL, event);
}

cl_int step(cl_int value, cl_int k) {
        return (cl_int) ((cl_uint) value * 3 + (cl_uint) k);
}

void buffer_expect(cl_command_queue q, cl_mem a, cl_int value) {
        cl_int got[N];
        CHECK_CL(clEnqueueReadBuffer(q, a, CL_TRUE, 0, sizeof(got), got, 0, NULL, NULL));
        for (size_t i = 0; i < N; i++)
                if (got[i] != value) {
                        fprintf(stderr, "element %zu is %d, expected %d\n", i, got[i], value);
                        exit(1);
                }
}

cl_int event_status(cl_event e) {
        cl_int status;
        CHECK_CL(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL));
        return status;
}

/* FNV-1a */
uint32_t hash(const void *data, size_t size) {
        uint32_t h = UINT32_C(2166136261);
        for (size_t i = 0; i < size; i++)
                h = (h ^ ((const uint8_t *) data)[i]) * UINT32_C(16777619);
        return h;
}
