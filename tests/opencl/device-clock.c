/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device-clock.h"

#if defined(__x86_64__)
#        include <x86intrin.h>
#endif

#include "common/macro.h"
#include "common/time-util.h"

#define MOMENTS 10U

static const char *const preamble = "#if DEVICE_CLOCK == 1\n"
                                    "ulong device_clock(void) {\n"
                                    "        ulong t;\n"
                                    "        asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(t) : : \"memory\");\n"
                                    "        return t;\n"
                                    "}\n"
                                    "#elif DEVICE_CLOCK == 2\n"
                                    "ulong device_clock(void) { return __builtin_readcyclecounter(); }\n"
                                    "#else\n"
                                    "ulong device_clock(void) { return 0; }\n"
                                    "#endif\n"
                                    "__kernel void tick(__global ulong *now) { *now = device_clock(); }\n";

static DeviceClockKind kind_of_device(void) {
        cl_device_type type = 0;
        char vendor[256] = "";

        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_TYPE, sizeof(type), &type, NULL));
        CHECK_CL(clGetDeviceInfo(t.device, CL_DEVICE_VENDOR, sizeof(vendor), vendor, NULL));
        return strstr(vendor, "NVIDIA")             ? DEVICE_CLOCK_NVIDIA
                        : strstr(vendor, "xsched")  ? DEVICE_CLOCK_HOST
                        : type & CL_DEVICE_TYPE_CPU ? DEVICE_CLOCK_TSC
                                                    : DEVICE_CLOCK_NONE;
}

cl_program device_clock_build(DeviceClock *clock, const char *source) {
        const char *parts[] = {preamble, source};
        cl_program program;
        cl_int r;

        for (DeviceClockKind kind = kind_of_device();; kind = DEVICE_CLOCK_NONE) {
                char options[128];

                snprintf(options, sizeof(options), "-DDEVICE_CLOCK=%d -DSTAMPS=%u", (int) kind, DEVICE_STAMPS);
                program = clCreateProgramWithSource(t.context, 2, parts, NULL, &r);
                CHECK_CL(r);
                clock->kind = kind;
                r = clBuildProgram(program, 1, &t.device, options, NULL, NULL);
                if (r == CL_SUCCESS || kind == DEVICE_CLOCK_NONE)
                        break;
                CHECK_CL(clReleaseProgram(program));
        }
        CHECK_CL(r);
        clock->stamps = clCreateBuffer(t.context, CL_MEM_READ_WRITE, DEVICE_STAMPS * sizeof(DeviceStamp), NULL, &r);
        CHECK_CL(r);
        clock->now = clCreateBuffer(t.context, CL_MEM_READ_WRITE, sizeof(uint64_t), NULL, &r);
        CHECK_CL(r);
        clock->tick = clCreateKernel(program, "tick", &r);
        CHECK_CL(r);
        CHECK_CL(clSetKernelArg(clock->tick, 0, sizeof(cl_mem), &clock->now));
        return program;
}

void device_clock_close(DeviceClock *clock) {
        CHECK_CL(clReleaseKernel(clock->tick));
        CHECK_CL(clReleaseMemObject(clock->now));
        CHECK_CL(clReleaseMemObject(clock->stamps));
}

/* The kernel's moment is between the launch and its end, in the middle of the shortest of several such spans. */
static DeviceMoment moment_by_kernel(DeviceClock *clock, cl_command_queue queue) {
        DeviceMoment best = {};
        uint64_t shortest = UINT64_MAX;
        const size_t one = 1;

        for (unsigned i = 0; i < MOMENTS; i++) {
                uint64_t device, began = now_ns();
                CHECK_CL(clEnqueueNDRangeKernel(queue, clock->tick, 1, NULL, &one, &one, 0, NULL, NULL));
                CHECK_CL(clFinish(queue));
                uint64_t ended = now_ns();

                if (ended - began >= shortest)
                        continue;
                shortest = ended - began;
                CHECK_CL(clEnqueueReadBuffer(queue, clock->now, CL_TRUE, 0, sizeof(device), &device, 0, NULL, NULL));
                best = (DeviceMoment){.device = device, .host_ns = began + shortest / 2};
        }
        return best;
}

DeviceMoment device_clock_moment(DeviceClock *clock, cl_command_queue queue) {
#if defined(__x86_64__)
        if (clock->kind == DEVICE_CLOCK_TSC)
                return (DeviceMoment){.device = __rdtsc(), .host_ns = now_ns()};
#endif
        if (clock->kind == DEVICE_CLOCK_HOST)
                return (DeviceMoment){.device = now_ns(), .host_ns = now_ns()};
        return clock->kind == DEVICE_CLOCK_NVIDIA ? moment_by_kernel(clock, queue) : (DeviceMoment){};
}

double device_clock_unit(const DeviceClock *clock, DeviceMoment before, DeviceMoment after) {
        if (clock->kind != DEVICE_CLOCK_TSC)
                return 1;
        return (double) (after.host_ns - before.host_ns) / (double) (after.device - before.device);
}

uint64_t device_clock_at(DeviceMoment before, DeviceMoment after, uint64_t host_ns) {
        double speed = (double) (after.device - before.device) / (double) (after.host_ns - before.host_ns);

        return before.device + (uint64_t) (int64_t) ((double) (int64_t) (host_ns - before.host_ns) * speed);
}

DeviceStamp *device_clock_read(DeviceClock *clock, cl_command_queue queue, uint32_t from, uint32_t to) {
        uint32_t n = to - from, first = from % DEVICE_STAMPS, head = MIN(n, DEVICE_STAMPS - first);

        if (clock->kind == DEVICE_CLOCK_NONE || n == 0 || n > DEVICE_STAMPS)
                return NULL;
        DeviceStamp *stamps = calloc(n, sizeof(DeviceStamp));
        CHECK(stamps);
        CHECK_CL(clEnqueueReadBuffer(queue, clock->stamps, CL_TRUE, first * sizeof(DeviceStamp),
                        head * sizeof(DeviceStamp), stamps, 0, NULL, NULL));
        if (n > head)
                CHECK_CL(clEnqueueReadBuffer(queue, clock->stamps, CL_TRUE, 0, (n - head) * sizeof(DeviceStamp),
                                stamps + head, 0, NULL, NULL));
        return stamps;
}

uint64_t device_stamps_sum(const DeviceStamp *stamps, uint32_t n, uint64_t from, uint64_t to) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < n; i++) {
                uint64_t a = MAX(stamps[i].begin, from), b = MIN(stamps[i].end, to);
                sum += a < b ? b - a : 0;
        }
        return sum;
}

void device_stamps_write(const DeviceStamp *stamps, uint32_t n, DeviceStamp window, uint64_t soon, const char *path) {
        FILE *f = fopen(path, "we");

        CHECK(f);
        CHECK(fwrite(&window, sizeof(window), 1, f) == 1);
        for (uint32_t i = 0; i < n;) {
                DeviceStamp span = stamps[i++];

                for (; i < n && stamps[i].begin <= span.end + soon; i++)
                        span.end = MAX(span.end, stamps[i].end);
                CHECK(fwrite(&span, sizeof(span), 1, f) == 1);
        }
        CHECK(fclose(f) == 0);
}
