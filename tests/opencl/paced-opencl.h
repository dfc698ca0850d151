/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The objects of the OpenCL runtime for the paced device, and its commands
 */

#include <stdatomic.h>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS

#include <CL/cl.h>
#include <CL/cl_icd.h>

#include "paced-device.h"

#define ARGUMENTS 8

typedef struct Object {
        const cl_icd_dispatch *dispatch;
        _Atomic int refs;
} Object;

struct _cl_platform_id {
        const cl_icd_dispatch *dispatch;
};

struct _cl_device_id {
        const cl_icd_dispatch *dispatch;
};

struct _cl_context {
        Object object;
};

struct _cl_command_queue {
        Object object;
        cl_context context;
        cl_command_queue_properties properties;
};

struct _cl_mem {
        Object object;
        size_t size;
        char data[];
};

struct _cl_program {
        Object object;
};

typedef union Argument {
        cl_mem memory;
        uint32_t word;
} Argument;

typedef enum Function {
        FUNCTION_NONE, /* a marker */
        FUNCTION_WORK,
        FUNCTION_TIMED,
        FUNCTION_TICK,
        _FUNCTION_MAX,
} Function;

struct _cl_kernel {
        Object object;
        Function function;
        Argument arguments[ARGUMENTS];
};

struct _cl_event {
        Object object;
        cl_command_queue queue;
        uint64_t number;
        cl_command_type type;
        _Atomic bool over;
        PacedSpan span;
};

extern const cl_icd_dispatch paced_dispatch;

/* Whether there is a device, with room for this process. */
bool paced_has_device(void);

void *paced_object_new(size_t size);
cl_int paced_object_retain(Object *o);
cl_int paced_object_release(Object *o);

/* Asks the device. */
bool paced_is_over(cl_event e);

/* The runtime's functions of these names. */
cl_int paced_launch(cl_command_queue q, cl_kernel k, cl_uint dim, const size_t *offset, const size_t *global,
                const size_t *local, cl_uint n_waits, const cl_event *waits, cl_event *ret);
cl_int paced_marker(cl_command_queue q, cl_uint n_waits, const cl_event *waits, cl_event *ret);
cl_int paced_finish(cl_command_queue q);
cl_int paced_flush(cl_command_queue q);
cl_int paced_wait_for_events(cl_uint n, const cl_event *events);
cl_int paced_read_buffer(cl_command_queue q, cl_mem memory, cl_bool blocking, size_t offset, size_t size, void *ret,
                cl_uint n_waits, const cl_event *waits, cl_event *event);
cl_int paced_set_callback(cl_event e, cl_int on, void(CL_CALLBACK *function)(cl_event, cl_int, void *), void *data);
