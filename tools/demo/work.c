/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Work: OpenCL, as an ordinary application uses it
 */

#define CL_TARGET_OPENCL_VERSION 120

#include <CL/cl.h>
#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>

#include "tools/demo/work.h"

/* state[0..n): the items. Then one word for the order, and one for each kernel of a task that counts its runs. */
static const char work_source[] =
                "__kernel void work(__global uint *state, uint n, uint launch, uint slot, uint rounds, uint "
                "a, uint c) {\n"
                "        uint i = get_global_id(0);\n"
                "        uint x = state[i];\n"
                "        for (uint r = 0; r < rounds; r++)\n"
                "                x = a * x + c;\n"
                "        state[i] = x;\n"
                "        if (i == 0) {\n"
                "                state[n] = state[n] * 31 + launch + 1;\n"
                "                state[n + 1 + slot]++;\n"
                "        }\n"
                "}\n";

struct Work {
        cl_device_id device;
        cl_context context;
        cl_command_queue queue;
        cl_program program;
        cl_kernel kernel;
        cl_mem buffer;
        char name[128], driver[128];
        bool gpu;
        int cpu;

        uint32_t n_items, n_words;
        uint32_t local;
        uint32_t n_launches;
        Affine pending;     /* what was launched since the last check does to an item */
        uint32_t *expected; /* what the buffer must hold once the queue is empty; the items: before `pending` */
        uint32_t *found;
};

#define DEVICES_MAX 64U

static int find_devices(cl_device_id ret[DEVICES_MAX]) {
        cl_platform_id platforms[16] = {};
        cl_uint n_platforms = 0;
        int n = 0;

        cl_int e = clGetPlatformIDs(ELEMENTSOF(platforms), platforms, &n_platforms);
        if (e != CL_SUCCESS || n_platforms == 0)
                return demo_error(-ENODEV,
                                "OpenCL finds no platform (error %d). Install a GPU's OpenCL driver, or "
                                "pocl-opencl-icd to compute on the CPU; /etc/OpenCL/vendors lists the drivers",
                                e);

        for (cl_uint i = 0; i < MIN(n_platforms, (cl_uint) ELEMENTSOF(platforms)); i++) {
                cl_uint found = 0;

                if (n < (int) DEVICES_MAX &&
                                clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, DEVICES_MAX - (cl_uint) n, ret + n,
                                                &found) == CL_SUCCESS)
                        n += (int) MIN(found, DEVICES_MAX - (cl_uint) n);
        }
        if (n == 0)
                return demo_error(-ENODEV, "the OpenCL platforms here have no device");
        return n;
}

/* One line of printable ASCII, whatever the driver says. */
static void device_text(cl_device_id d, cl_device_info what, char ret[static 128]) {
        char raw[128] = "";
        size_t j = 0;

        (void) clGetDeviceInfo(d, what, sizeof(raw) - 1, raw, NULL);
        for (size_t i = 0; raw[i] && i < sizeof(raw); i++)
                if (!isspace((unsigned char) raw[i]) || (j > 0 && ret[j - 1] != ' '))
                        ret[j++] = isprint((unsigned char) raw[i]) ? raw[i] : ' ';
        while (j > 0 && ret[j - 1] == ' ')
                j--;
        if (j == 0)
                ret[j++] = '?';
        ret[j] = '\0';
}

static bool device_is_gpu(cl_device_id d) {
        cl_device_type type = 0;

        (void) clGetDeviceInfo(d, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
        return type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR);
}

int work_list_devices(void) {
        cl_device_id devices[DEVICES_MAX] = {};
        int n = find_devices(devices);

        for (int i = 0; i < n; i++) {
                char name[128];

                device_text(devices[i], CL_DEVICE_NAME, name);
                printf("%d  %s  %s\n", i, device_is_gpu(devices[i]) ? "GPU" : "CPU", name);
        }
        return n;
}

static int pick_device(const char *wanted, cl_device_id *ret) {
        cl_device_id devices[DEVICES_MAX] = {};
        int n = find_devices(devices);
        if (n < 0)
                return n;

        char *end = NULL;
        unsigned long index = isempty(wanted) ? 0 : strtoul(wanted, &end, 10);
        bool by_index = end && end != wanted && *end == '\0';

        if (by_index && index >= (unsigned long) n)
                return demo_error(-ENODEV, "there is no device %lu: --list-devices shows those that are", index);

        for (int i = 0; i < n; i++) {
                char name[128];

                device_text(devices[i], CL_DEVICE_NAME, name);
                if (isempty(wanted)                        ? device_is_gpu(devices[i])
                                                : by_index ? (unsigned long) i == index
                                                           : strcasestr(name, wanted) != NULL) {
                        *ret = devices[i];
                        return 0;
                }
        }
        if (!isempty(wanted))
                return demo_error(-ENODEV, "no device's name has '%s' in it: --list-devices shows them", wanted);
        *ret = devices[0];
        return 0;
}

/* The last CPU: interrupts and boot-time daemons prefer the first. Every thread but ours that exists by now was made by
 * the device's driver and works for it; threads made from here on inherit our own mask. */
static int claim_cpu(void) {
        cpu_set_t all, device;
        int cpu = -1;

        if (sched_getaffinity(0, sizeof(all), &all) < 0)
                return -1;
        for (int i = 0; i < CPU_SETSIZE; i++)
                if (CPU_ISSET(i, &all))
                        cpu = i;
        if (cpu < 0)
                return -1;
        CPU_ZERO(&device);
        CPU_SET(cpu, &device);

        DIR *d = opendir("/proc/self/task");
        if (!d)
                return -1;
        for (struct dirent *entry; (entry = readdir(d));) {
                pid_t tid = (pid_t) atoi(entry->d_name);

                if (tid > 0 && tid != gettid())
                        (void) sched_setaffinity(tid, sizeof(device), &device);
        }
        closedir(d);

        CPU_CLR(cpu, &all);
        if (CPU_COUNT(&all) > 0)
                (void) sched_setaffinity(0, sizeof(all), &all);
        return cpu;
}

static int build(Work *w) {
        const char *source = work_source;
        cl_int e = CL_SUCCESS;

        w->program = clCreateProgramWithSource(w->context, 1, &source, NULL, &e);
        if (e == CL_SUCCESS)
                e = clBuildProgram(w->program, 1, &w->device, "", NULL, NULL);
        if (e != CL_SUCCESS) {
                char log[1024] = "";

                if (w->program)
                        (void) clGetProgramBuildInfo(
                                        w->program, w->device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log, NULL);
                return demo_error(-EIO, "OpenCL cannot build the kernel (error %d) %s", e, log);
        }
        w->kernel = clCreateKernel(w->program, "work", &e);
        if (e != CL_SUCCESS)
                return demo_error(-EIO, "clCreateKernel: error %d", e);
        return 0;
}

static int make_buffer(Work *w, uint32_t seed) {
        cl_uint units = 1;
        cl_int e;

        (void) clGetDeviceInfo(w->device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
        w->local = w->gpu ? 256 : 64;
        w->n_items = CLAMP(units, 1U, 1024U) * w->local;
        w->n_words = w->n_items + 1 + WORK_KERNELS_MAX;

        w->expected = calloc(w->n_words, sizeof(uint32_t));
        w->found = calloc(w->n_words, sizeof(uint32_t));
        if (!w->expected || !w->found)
                return demo_error(-ENOMEM, "out of memory");
        for (uint32_t i = 0; i < w->n_items; i++)
                w->expected[i] = recurrence_start(seed, i);

        w->buffer = clCreateBuffer(w->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, w->n_words * sizeof(uint32_t),
                        w->expected, &e);
        if (e != CL_SUCCESS)
                return demo_error(-EIO, "clCreateBuffer: error %d", e);
        return 0;
}

int work_open(const char *device, uint32_t seed, Work **ret) {
        cl_int e;

        _cleanup_(work_closep)
        Work *w = calloc(1, sizeof(Work));
        if (!w)
                return demo_error(-ENOMEM, "out of memory");
        w->pending = AFFINE_IDENTITY;

        int r = pick_device(device, &w->device);
        if (r < 0)
                return r;
        device_text(w->device, CL_DEVICE_NAME, w->name);
        device_text(w->device, CL_DRIVER_VERSION, w->driver);
        w->gpu = device_is_gpu(w->device);
        w->cpu = w->gpu ? -1 : claim_cpu();

        w->context = clCreateContext(NULL, 1, &w->device, NULL, NULL, &e);
        if (e != CL_SUCCESS)
                return demo_error(-EIO, "clCreateContext on %s: error %d", w->name, e);
        w->queue = clCreateCommandQueue(w->context, w->device, 0, &e);
        if (e != CL_SUCCESS)
                return demo_error(-EIO, "clCreateCommandQueue on %s: error %d", w->name, e);

        r = build(w);
        if (r < 0)
                return r;
        r = make_buffer(w, seed);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(w);
        return 0;
}

Work *work_close(Work *w) {
        if (!w)
                return NULL;
        if (w->queue)
                (void) clFinish(w->queue);
        if (w->buffer)
                (void) clReleaseMemObject(w->buffer);
        if (w->kernel)
                (void) clReleaseKernel(w->kernel);
        if (w->program)
                (void) clReleaseProgram(w->program);
        if (w->queue)
                (void) clReleaseCommandQueue(w->queue);
        if (w->context)
                (void) clReleaseContext(w->context);
        free(w->expected);
        free(w->found);
        free(w);
        return NULL;
}

const char *work_device_name(const Work *w) {
        return w->name;
}

const char *work_driver_version(const Work *w) {
        return w->driver;
}

bool work_is_gpu(const Work *w) {
        return w->gpu;
}

int work_cpu(const Work *w) {
        return w->cpu;
}

static cl_int launch(Work *w, uint32_t slot, uint32_t rounds) {
        const Affine step = AFFINE_STEP;
        const cl_uint words[] = {w->n_items, w->n_launches, slot, rounds, step.a, step.c};
        size_t global = w->n_items, local = w->local;

        cl_int e = clSetKernelArg(w->kernel, 0, sizeof(cl_mem), &w->buffer);
        for (cl_uint i = 0; i < ELEMENTSOF(words) && e == CL_SUCCESS; i++)
                e = clSetKernelArg(w->kernel, i + 1, sizeof(words[i]), &words[i]);
        if (e == CL_SUCCESS)
                e = clEnqueueNDRangeKernel(w->queue, w->kernel, 1, NULL, &global, &local, 0, NULL, NULL);
        if (e != CL_SUCCESS)
                return e;

        uint32_t *order = w->expected + w->n_items;
        *order = recurrence_order(*order, w->n_launches);
        order[1 + slot]++;
        w->n_launches++;
        return CL_SUCCESS;
}

static const char *cl_failure(const char *call, cl_int e) {
        static char text[96];

        (void) snprintf(text, sizeof(text), "%s failed with error %d", call, e);
        return text;
}

int work_run(Work *w, uint32_t n_kernels, uint32_t rounds, const char **ret_error) {
        for (uint32_t i = 0; i < n_kernels; i++) {
                cl_int e = launch(w, i, rounds);
                if (e != CL_SUCCESS) {
                        *ret_error = cl_failure("clEnqueueNDRangeKernel", e);
                        return -EIO;
                }
        }
        cl_int e = clFinish(w->queue);
        if (e != CL_SUCCESS) {
                *ret_error = cl_failure("clFinish", e);
                return -EIO;
        }
        w->pending = affine_then(w->pending, affine_power(AFFINE_STEP, (uint64_t) n_kernels * rounds));
        return 0;
}

static const char *describe_difference(const Work *w, uint32_t at) {
        static char text[160];
        uint32_t found = w->found[at], expected = w->expected[at];

        if (at < w->n_items)
                (void) snprintf(text, sizeof(text), "wrong result: item %u is %#x and should be %#x", at, found,
                                expected);
        else if (at == w->n_items)
                (void) snprintf(text, sizeof(text),
                                "wrong order: the kernels did not run in the order of their launch");
        else
                (void) snprintf(text, sizeof(text), "kernel %u of the task ran %u times and was launched %u times",
                                at - w->n_items - 1, found, expected);
        return text;
}

int work_check(Work *w, const char **ret_error) {
        size_t size = w->n_words * sizeof(uint32_t);

        for (uint32_t i = 0; i < w->n_items; i++)
                w->expected[i] = affine_apply(w->pending, w->expected[i]);
        w->pending = AFFINE_IDENTITY;

        cl_int e = clEnqueueReadBuffer(w->queue, w->buffer, CL_TRUE, 0, size, w->found, 0, NULL, NULL);
        if (e != CL_SUCCESS) {
                *ret_error = cl_failure("clEnqueueReadBuffer", e);
                return -EIO;
        }
        if (memcmp(w->found, w->expected, size) == 0)
                return 0;

        /* A wrong counter explains wrong items: look at the counters first. */
        for (uint32_t i = w->n_items + 1; i < w->n_words; i++)
                if (w->found[i] != w->expected[i]) {
                        *ret_error = describe_difference(w, i);
                        return -EIO;
                }
        for (uint32_t i = w->n_items + 1; i-- > 0;)
                if (w->found[i] != w->expected[i])
                        *ret_error = describe_difference(w, i);
        return -EIO;
}
