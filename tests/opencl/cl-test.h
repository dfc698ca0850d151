/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * CL test: a device, three kernels whose order shows in the result, and checks, for the OpenCL test programs
 *
 * The programs print what they compute and what the runtime tells them, nothing else: the same program run natively and
 * with the layer in force has to print the same.
 */

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 1024U /* elements of a vector */

#define CHECK(expression)                                                                                              \
        do {                                                                                                           \
                if (!(expression)) {                                                                                   \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expression);                               \
                        exit(1);                                                                                       \
                }                                                                                                      \
        } while (0)

#define CHECK_CL(call)                                                                                                 \
        do {                                                                                                           \
                cl_int _r = (call);                                                                                    \
                if (_r != CL_SUCCESS) {                                                                                \
                        fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, _r);                       \
                        exit(1);                                                                                       \
                }                                                                                                      \
        } while (0)

typedef struct Test {
        cl_platform_id platform;
        cl_device_id device;
        cl_context context;
        cl_program program;
} Test;

extern Test t;

void test_open(void);
bool test_has_waited(void); /* a launch has waited at the gate */
void test_close(void);      /* writes the library's counters to the file that TEST_COUNTERS names */

/* In order: CL_QUEUE_* bits, or 0. */
cl_command_queue queue_make(cl_command_queue_properties properties);
cl_mem buffer_make(void); /* N zeros */
cl_mem buffer_make_with(const cl_int values[N]);

/* a[i] = a[i] * 3 + k: the order of two of them shows. Returns what the runtime returned. */
cl_int launch_step(cl_command_queue q, cl_mem a, cl_int k, cl_uint n_waits, const cl_event *waits, cl_event *event);

/* dst[i] += src[i] */
cl_int launch_add(cl_command_queue q, cl_mem dst, cl_mem src, cl_uint n_waits, const cl_event *waits, cl_event *event);

/* `rounds` dependent steps in one kernel: takes a while, and says how often it ran. */
cl_int launch_busy(cl_command_queue q, cl_mem a, cl_int rounds, cl_event *event);

/* The same on the host. */
cl_int step(cl_int value, cl_int k);

/* Reads blocking, and checks that all elements have this value. */
void buffer_expect(cl_command_queue q, cl_mem a, cl_int value);

cl_int event_status(cl_event e);
uint32_t hash(const void *data, size_t size);
