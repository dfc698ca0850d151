/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the device's own time stamps cost a program: bench-stamps [--seconds=N]; prints JSON
 *
 * Time per launch, without any layer, of kernels of several lengths, one at a time ("sync") and many at a time
 * ("deep"): on a plain queue and on one with profiling enabled, without events, with an event for each launch, and with
 * the stamps of each event read. All ways take turns, so that other work of the machine affects all of them alike. The
 * median of each way's turns is printed.
 */

#include <inttypes.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "tests/opencl/cl-test.h"

#define TURNS     9U
#define TOGETHER  256U /* deep: launches between two waits, at most */
#define GROUP_NS  (4 * NSEC_PER_MSEC)
#define N_REFINE  5U
#define N_SAMPLES 9U

typedef enum Way {
        WAY_PLAIN,
        WAY_PLAIN_EVENTS,
        WAY_PROFILING,
        WAY_PROFILING_EVENTS,
        WAY_PROFILING_STAMPS,
        _WAY_MAX,
} Way;

static const char *const way_names[_WAY_MAX] = {
                [WAY_PLAIN] = "plain",
                [WAY_PLAIN_EVENTS] = "plain, events",
                [WAY_PROFILING] = "profiling",
                [WAY_PROFILING_EVENTS] = "profiling, events",
                [WAY_PROFILING_STAMPS] = "profiling, stamps",
};

static cl_command_queue queues[2]; /* plain, with profiling */
static cl_mem buffer;
static cl_kernel kernel;
static uint64_t turn_ns;

static void set_rounds(cl_int rounds) {
        CHECK_CL(clSetKernelArg(kernel, 1, sizeof(rounds), &rounds));
}

static void launch(cl_command_queue q, cl_event *event) {
        const size_t items = N;

        CHECK_CL(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &items, NULL, 0, NULL, event));
}

static uint64_t stamps_of(cl_event e) {
        cl_ulong start, end;

        CHECK_CL(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL));
        CHECK_CL(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL));
        CHECK(end >= start);
        return end - start;
}

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
        qsort(values, n, sizeof(values[0]), compare);
        return values[n / 2];
}

static double kernel_ns(cl_int rounds) {
        double ns[N_SAMPLES];

        set_rounds(rounds);
        for (unsigned i = 0; i < N_SAMPLES; i++) {
                cl_event e;

                launch(queues[1], &e);
                CHECK_CL(clWaitForEvents(1, &e));
                ns[i] = (double) stamps_of(e);
                CHECK_CL(clReleaseEvent(e));
        }
        return median(ns, N_SAMPLES);
}

static cl_int rounds_of(double wanted_ns) {
        double rounds = 2000;

        for (unsigned i = 0; i < N_REFINE; i++) {
                double factor = wanted_ns / kernel_ns((cl_int) rounds);

                factor = CLAMP(factor, 0.05, 20.0);
                rounds = CLAMP(rounds * factor, 1.0, 1e9);
        }
        return (cl_int) rounds;
}

/* Returns microseconds per launch. */
static double take_turn(Way way, unsigned together) {
        bool events = way != WAY_PLAIN && way != WAY_PROFILING, profiling = way >= WAY_PROFILING;
        cl_command_queue q = queues[profiling];
        cl_event e[TOGETHER];
        uint64_t begin = now_ns(), end, n = 0;

        do {
                for (unsigned i = 0; i < together; i++)
                        launch(q, events ? &e[i] : NULL);
                CHECK_CL(clFinish(q));
                for (unsigned i = 0; events && i < together; i++) {
                        if (way == WAY_PROFILING_STAMPS)
                                (void) stamps_of(e[i]);
                        CHECK_CL(clReleaseEvent(e[i]));
                }
                n += together;
                end = now_ns();
        } while (end - begin < turn_ns);
        return (double) (end - begin) / (double) n / 1000;
}

static void measure(unsigned usec, bool deep, bool first) {
        unsigned together = deep ? (unsigned) CLAMP(GROUP_NS / (usec * NSEC_PER_USEC), 8U, TOGETHER) : 1;
        double us[_WAY_MAX][TURNS];

        set_rounds(rounds_of(usec * 1000.0));
        for (unsigned turn = 0; turn < TURNS; turn++)
                for (Way way = 0; way < _WAY_MAX; way++)
                        us[way][turn] = take_turn(way, together);
        printf("%s{\"usec\": %u, \"how\": \"%s\", \"us\": {", first ? "" : ", ", usec, deep ? "deep" : "sync");
        for (Way way = 0; way < _WAY_MAX; way++)
                printf("%s\"%s\": %.3f", way == 0 ? "" : ", ", way_names[way], median(us[way], TURNS));
        printf("}}");
}

int main(int argc, char *argv[]) {
        static const unsigned lengths[] = {5, 20, 100, 1000};
        char name[256] = "", driver[256] = "";
        cl_device_type type = 0;
        double seconds = 0.05;
        cl_int r;

        if (argc > 1)
                CHECK(sscanf(argv[1], "--seconds=%lf", &seconds) == 1);
        turn_ns = (uint64_t) (seconds * 1e9);
        test_open();
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL));
        CHECK_CL(clGetDeviceInfo(t.device, CL_DRIVER_VERSION, sizeof(driver) - 1, driver, NULL));
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_TYPE, sizeof(type), &type, NULL));
        queues[0] = queue_make(0);
        queues[1] = queue_make(CL_QUEUE_PROFILING_ENABLE);
        buffer = buffer_make();
        kernel = clCreateKernel(t.program, "busy", &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer));
        printf("{\"device\": \"%s\", \"driver\": \"%s\", \"gpu\": %s, \"rows\": [", name, driver,
                        type & CL_DEVICE_TYPE_CPU ? "false" : "true");
        for (unsigned i = 0; i < 2 * ELEMENTSOF(lengths); i++)
                measure(lengths[i / 2], i % 2, i == 0);
        printf("]}\n");
        CHECK_CL(clReleaseKernel(kernel));
        CHECK_CL(clReleaseMemObject(buffer));
        for (unsigned i = 0; i < 2; i++)
                CHECK_CL(clReleaseCommandQueue(queues[i]));
        test_close();
        return 0;
}
