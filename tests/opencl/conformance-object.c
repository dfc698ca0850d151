/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Conformance: errors, references, queries, profiling, sub-devices: what the runtime tells about its objects
 */

#include <time.h>

#include "conformance.h"

static cl_uint queue_references(cl_command_queue q) {
        cl_uint n;
        CHECK_CL(clGetCommandQueueInfo(q, CL_QUEUE_REFERENCE_COUNT, sizeof(n), &n, NULL));
        return n;
}

static cl_uint event_references(cl_event e) {
        cl_uint n;
        CHECK_CL(clGetEventInfo(e, CL_EVENT_REFERENCE_COUNT, sizeof(n), &n, NULL));
        return n;
}

static void nap(void) {
        const struct timespec ts = {.tv_nsec = 1000000};
        (void) nanosleep(&ts, NULL);
}

/* While a user event keeps everything waiting, the counts cannot change by themselves. */
static void references(void) {
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        cl_int r;
        cl_event user = clCreateUserEvent(t.context, &r), e[3];
        CHECK_CL(r);

        printf("new queue %u\n", queue_references(q));
        CHECK_CL(clRetainCommandQueue(q));
        printf("retained %u\n", queue_references(q));
        CHECK_CL(clReleaseCommandQueue(q));
        printf("released %u\n", queue_references(q));

        for (size_t i = 0; i < 3; i++) {
                CHECK_CL(launch_step(q, a, 1, i == 0, i == 0 ? &user : NULL, &e[i]));
                printf("event %zu: %u\n", i, event_references(e[i]));
        }
        CHECK_CL(clRetainEvent(e[1]));
        printf("retained %u\n", event_references(e[1]));
        CHECK_CL(clReleaseEvent(e[1]));
        CHECK_CL(clSetUserEventStatus(user, CL_COMPLETE));
        CHECK_CL(launch_step(q, a, 1, 0, NULL, NULL)); /* the runtime may keep the newest event of a queue */
        CHECK_CL(clFinish(q));
        for (size_t i = 0; i < 3; i++) {
                /* The runtime's own references go at a time of its own. */
                for (int looks = 0; event_references(e[i]) != 1 && looks < 5000; looks++)
                        nap();
                printf("complete %zu: %u\n", i, event_references(e[i]));
                CHECK_CL(clReleaseEvent(e[i]));
        }
        CHECK_CL(clReleaseEvent(user));
        CHECK_CL(clFinish(q));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void queries(void) {
        const cl_queue_properties list[] = {
                        CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
        cl_int r;
        cl_command_queue q = clCreateCommandQueueWithProperties(t.context, t.device, list, &r);
        CHECK_CL(r);
        cl_command_queue_properties properties;
        cl_context context;
        cl_device_id device;
        CHECK_CL(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES, sizeof(properties), &properties, NULL));
        CHECK_CL(clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL));
        CHECK_CL(clGetCommandQueueInfo(q, CL_QUEUE_DEVICE, sizeof(device), &device, NULL));
        printf("properties %lx context %d device %d\n", (unsigned long) properties, context == t.context,
                        device == t.device);
        cl_queue_properties array[8];
        size_t size = 0;
        r = clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES_ARRAY, sizeof(array), array, &size);
        printf("array %d of %zu: %08x\n", r, size, r == CL_SUCCESS ? hash(array, size) : 0);

        cl_event e;
        cl_mem a = buffer_make();
        cl_command_type type;
        cl_command_queue from;
        CHECK_CL(launch_step(q, a, 1, 0, NULL, &e));
        CHECK_CL(clGetEventInfo(e, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL));
        CHECK_CL(clGetEventInfo(e, CL_EVENT_COMMAND_QUEUE, sizeof(from), &from, NULL));
        printf("type %x queue %d\n", type, from == q);
        CHECK_CL(clFinish(q));
        CHECK_CL(clReleaseEvent(e));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void profiling(void) {
        cl_command_queue q = queue_make(CL_QUEUE_PROFILING_ENABLE), plain = queue_make(0);
        cl_mem a = buffer_make();
        cl_event e;
        cl_ulong at[4];

        for (int i = 0; i < 10; i++) {
                CHECK_CL(launch_busy(q, a, 500, &e));
                CHECK_CL(clWaitForEvents(1, &e));
                for (cl_uint k = 0; k < 4; k++)
                        CHECK_CL(clGetEventProfilingInfo(
                                        e, CL_PROFILING_COMMAND_QUEUED + k, sizeof(at[k]), &at[k], NULL));
                CHECK(at[0] > 0 && at[0] <= at[1] && at[1] <= at[2] && at[2] < at[3]);
                CHECK_CL(clReleaseEvent(e));
        }
        CHECK_CL(launch_step(plain, a, 1, 0, NULL, &e));
        CHECK_CL(clFinish(plain));
        printf("without profiling %d\n",
                        clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof(at[0]), &at[0], NULL));
        CHECK_CL(clReleaseEvent(e));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
        CHECK_CL(clReleaseCommandQueue(plain));
}

static void sub_devices(void) {
        const cl_device_partition_property by_one[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
        cl_device_id sub[64];
        cl_uint n = 0;
        cl_int r = clCreateSubDevices(t.device, by_one, 64, sub, &n);
        printf("sub-devices %d\n", r);
        if (r != CL_SUCCESS)
                return;

        cl_context context = clCreateContext(NULL, n, sub, NULL, NULL, &r);
        CHECK_CL(r);
        for (cl_uint i = 0; i < n; i++) {
                cl_command_queue q = clCreateCommandQueue(context, sub[i], 0, &r);
                CHECK_CL(r);
                const cl_int pattern = (cl_int) i + 1;
                cl_int out[N];
                cl_mem m = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(out), NULL, &r);
                CHECK_CL(r);
                CHECK_CL(clEnqueueFillBuffer(q, m, &pattern, sizeof(pattern), 0, sizeof(out), 0, NULL, NULL));
                CHECK_CL(clEnqueueReadBuffer(q, m, CL_TRUE, 0, sizeof(out), out, 0, NULL, NULL));
                CHECK(out[0] == pattern && out[N - 1] == pattern);
                CHECK_CL(clReleaseMemObject(m));
                CHECK_CL(clReleaseCommandQueue(q));
        }
        /* The sub-devices stay: PoCL 3.1 crashes, now and then, in queues that are made after they were released. */
        CHECK_CL(clReleaseContext(context));
}

/* Each of these is wrong in one way; the runtime says which. */
static void errors(void) {
        cl_command_queue q = queue_make(0);
        cl_mem a = buffer_make();
        const size_t global = N, odd = 7, huge = (size_t) 1 << 40;
        cl_int r, bytes[N] = {}, value = 1;
        cl_event e = NULL;
        cl_kernel k = clCreateKernel(t.program, "next", &r);
        CHECK_CL(r);

        printf("no queue %d\n", clEnqueueNDRangeKernel(NULL, k, 1, NULL, &global, NULL, 0, NULL, NULL));
        printf("no arguments %d\n", clEnqueueNDRangeKernel(q, k, 1, NULL, &global, NULL, 0, NULL, &e));
        CHECK_CL(clSetKernelArg(k, 0, sizeof(a), &a));
        CHECK_CL(clSetKernelArg(k, 1, sizeof(value), &value));
        printf("dimension 4 %d\n", clEnqueueNDRangeKernel(q, k, 4, NULL, &global, NULL, 0, NULL, NULL));
        printf("odd group %d\n", clEnqueueNDRangeKernel(q, k, 1, NULL, &global, &odd, 0, NULL, NULL));
        printf("huge group %d\n", clEnqueueNDRangeKernel(q, k, 1, NULL, &huge, &huge, 0, NULL, NULL));
        cl_int loose[2] = {
                        clEnqueueNDRangeKernel(q, k, 1, NULL, &global, NULL, 0, &e, NULL),
                        clEnqueueNDRangeKernel(q, k, 1, NULL, &global, NULL, 1, &e, NULL),
        };
        printf("list without length %d, no event in list %d\n", loose[0], loose[1]); /* some runtimes take these */
        printf("read too far %d\n", clEnqueueReadBuffer(q, a, CL_TRUE, 0, 2 * sizeof(bytes), bytes, 0, NULL, NULL));
        printf("read to nowhere %d\n", clEnqueueReadBuffer(q, a, CL_FALSE, 0, 4, NULL, 0, NULL, NULL));
        printf("write without buffer %d\n", clEnqueueWriteBuffer(q, NULL, CL_TRUE, 0, 4, bytes, 0, NULL, NULL));
        printf("overlap %d\n", clEnqueueCopyBuffer(q, a, a, 0, 4, 64, 0, NULL, NULL));
        printf("pattern of 3 %d\n", clEnqueueFillBuffer(q, a, bytes, 3, 0, 12, 0, NULL, NULL));
        printf("map %d\n",
                        clEnqueueMapBuffer(q, a, CL_TRUE, CL_MAP_READ, 0, 2 * sizeof(bytes), 0, NULL, NULL, &r) !=
                                        NULL);
        printf("map error %d\n", r);
        printf("unmap %d\n", clEnqueueUnmapMemObject(q, a, bytes, 0, NULL, NULL));
        printf("finish nothing %d\n", clFinish(NULL));
        printf("wait for nothing %d\n", clWaitForEvents(0, NULL));
        printf("marker %d\n", clEnqueueMarkerWithWaitList(NULL, 0, NULL, NULL));
        printf("retain nothing %d\n", clRetainCommandQueue(NULL));
        printf("release nothing %d\n", clReleaseCommandQueue(NULL));
        printf("callback of nothing %d\n", clSetEventCallback(NULL, CL_COMPLETE, NULL, NULL));
        printf("event was touched %d\n", e != NULL);

        const cl_queue_properties wrong[] = {CL_QUEUE_PROPERTIES, 1UL << 40, 0};
        printf("wrong queue %d", clCreateCommandQueueWithProperties(t.context, t.device, wrong, &r) != NULL);
        printf(" %d\n", r);
        printf("queue without context %d", clCreateCommandQueue(NULL, t.device, 0, &r) != NULL);
        printf(" %d\n", r);

        /* And the queue still works. */
        CHECK_CL(clEnqueueNDRangeKernel(q, k, 1, NULL, &global, NULL, 0, NULL, NULL));
        cl_int expected = step(0, 1);
        for (size_t i = 0; i < 2; i++)
                expected = loose[i] == CL_SUCCESS ? step(expected, 1) : expected;
        buffer_expect(q, a, expected);
        CHECK_CL(clReleaseKernel(k));
        CHECK_CL(clReleaseMemObject(a));
        CHECK_CL(clReleaseCommandQueue(q));
}

static void many_queues(void) {
        enum { QUEUES = 100 };
        cl_command_queue q[QUEUES];
        cl_mem a[4];

        for (size_t i = 0; i < 4; i++)
                a[i] = buffer_make();
        for (int round = 0; round < 3; round++) {
                for (size_t i = 0; i < QUEUES; i++)
                        q[i] = queue_make(i % 2 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
                for (size_t i = 0; i < QUEUES; i++) {
                        CHECK_CL(launch_step(q[i], a[i % 4], 1, 0, NULL, NULL));
                        CHECK_CL(clFinish(q[i]));
                }
                for (size_t i = 0; i < QUEUES; i++)
                        CHECK_CL(clReleaseCommandQueue(q[(i * 37) % QUEUES]));
        }
        cl_int expected = 0;
        for (int i = 0; i < 3 * QUEUES / 4; i++)
                expected = step(expected, 1);
        cl_command_queue last = queue_make(0);
        for (size_t i = 0; i < 4; i++) {
                buffer_expect(last, a[i], expected);
                CHECK_CL(clReleaseMemObject(a[i]));
        }
        CHECK_CL(clReleaseCommandQueue(last));
}

static void priority_hints(void) {
        const cl_queue_properties low[] = {CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_LOW_KHR, 0};
        cl_int r;
        cl_command_queue q = clCreateCommandQueueWithProperties(t.context, t.device, low, &r);
        printf("low priority %d %d\n", q != NULL, r);
        if (q) {
                cl_mem a = buffer_make();
                CHECK_CL(launch_step(q, a, 4, 0, NULL, NULL));
                buffer_expect(q, a, 4);
                CHECK_CL(clReleaseMemObject(a));
                CHECK_CL(clReleaseCommandQueue(q));
        }
}

const Case object_cases[] = {
                {"references", references},
                {"queries", queries},
                {"profiling", profiling},
                {"sub-devices", sub_devices},
                {"errors", errors},
                {"many-queues", many_queues},
                {"priority-hints", priority_hints},
                {},
};
