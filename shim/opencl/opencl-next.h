/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The OpenCL runtime below us
 *
 * One table of the functions that our own code calls: as a layer, the loader's target dispatch; as a preload, the
 * functions of the real libOpenCL. It is filled once, before the first queue can exist, and does not change while
 * queues exist (of several loaders one may end, but their functions lead to the same runtime). So reading it needs no
 * lock and no ordering.
 */

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <stdbool.h>

#include "common/macro.h"

/* NULL entries: the runtime lacks the function. A hook is only installed over an existing entry. */
extern _hidden_ cl_icd_dispatch opencl_next;

/* Functions by position, because the table's length differs between loader versions. */
typedef void (*OpenclFunction)(void);

#define OPENCL_N_ENTRIES   (sizeof(cl_icd_dispatch) / sizeof(OpenclFunction))
#define OPENCL_ENTRY(name) (offsetof(cl_icd_dispatch, name) / sizeof(OpenclFunction))

typedef struct OpenclHook {
        const char *name;
        size_t entry;
        OpenclFunction function;
} OpenclHook;
