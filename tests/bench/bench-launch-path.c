/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Instructions that the OpenCL layer adds to a launch with an open gate, counted by valgrind
 *
 *     bench-launch-path LAYER
 *
 * The layer sits on a runtime that does nothing, as a loader would put it there, so that nothing else is counted.
 */

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

#include "callgrind.h"
#include "common/macro.h"

#define INSTRUCTIONS_MAX 100U

static int queues[8]; /* handles are addresses */

static cl_command_queue CL_API_CALL create_queue(
                cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *errcode) {
        static size_t n;
        return (cl_command_queue) (void *) &queues[n++ % ELEMENTSOF(queues)];
}

static cl_int CL_API_CALL release_queue(cl_command_queue q) {
        return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id d, cl_device_info what, size_t size, void *value, size_t *size_ret) {
        return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL device_ids(
                cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id *devices, cl_uint *n_ret) {
        return CL_DEVICE_NOT_FOUND;
}

static _noinline_ cl_int CL_API_CALL launch(cl_command_queue q, cl_kernel kernel, cl_uint dim, const size_t *offset,
                const size_t *global, const size_t *local, cl_uint n, const cl_event *waits, cl_event *event) {
        __asm__ volatile("");
        return CL_SUCCESS;
}

static const cl_icd_dispatch runtime = {
                .clCreateCommandQueue = create_queue,
                .clReleaseCommandQueue = release_queue,
                .clGetDeviceInfo = device_info,
                .clGetDeviceIDs = device_ids,
                .clEnqueueNDRangeKernel = launch,
};

static void run(const cl_icd_dispatch *volatile d, uint64_t n) {
        const size_t one = 1;
        cl_command_queue q[4];
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                q[i] = d->clCreateCommandQueue(NULL, NULL, 0, NULL);
        for (uint64_t i = 0; i < n; i++)
                (void) d->clEnqueueNDRangeKernel(q[i % ELEMENTSOF(q)], NULL, 1, NULL, &one, NULL, 0, NULL, NULL);
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                (void) d->clReleaseCommandQueue(q[i]);
}

static const cl_icd_dispatch *load(const char *path) {
        const cl_icd_dispatch *d = NULL;
        cl_uint n = 0;
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        pfn_clInitLayer init = library ? (pfn_clInitLayer) (uintptr_t) dlsym(library, "clInitLayer") : NULL;
        if (!init || init(sizeof(runtime) / sizeof(void *), &runtime, &n, &d) != CL_SUCCESS)
                return NULL;
        return d;
}

/* Counts the instructions of a whole run of this program; 0 when there is no valgrind. */
static uint64_t count(const char *layer, const char *what, uint64_t n) {
        char command[4096];

        (void) snprintf(command, sizeof(command),
                        "valgrind --tool=callgrind --callgrind-out-file=/dev/null /proc/%d/exe '%s' %s %" PRIu64
                        " 2>&1",
                        (int) getpid(), layer, what, n);
        return callgrind_count(command, false);
}

static double per_launch(const char *layer, const char *what) {
        const uint64_t few = 1000, many = 201000;
        uint64_t base = count(layer, what, few), all = count(layer, what, many);
        return base > 0 && all > base ? (double) (all - base) / (double) (many - few) : 0;
}

int main(int argc, char **argv) {
        /* There is no service at this address, so the gate stays open. */
        (void) setenv("XSCHED_BUS_ADDRESS", "unix:path=/nonexistent/bus", true);
        if (argc < 2)
                return 2;
        if (argc == 4) {
                const cl_icd_dispatch *d = streq(argv[2], "layer") ? load(argv[1]) : &runtime;
                if (!d)
                        return EXIT_FAILURE;
                run(d, strtoull(argv[3], NULL, 10));
                return EXIT_SUCCESS;
        }

        double native = per_launch(argv[1], "native"), layer = per_launch(argv[1], "layer");
        if (native == 0 || layer == 0) {
                puts("instructions: not counted, there is no valgrind");
                return EXIT_SUCCESS;
        }
        printf("instructions that the layer adds to a launch with an open gate: %.1f\n", layer - native);
        return layer - native > 0 && layer - native <= INSTRUCTIONS_MAX ? EXIT_SUCCESS : EXIT_FAILURE;
}
