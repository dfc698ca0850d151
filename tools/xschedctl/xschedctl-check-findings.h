/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * check: what its steps find, line by line; and the files of the process in which they look
 */

#include "tools/shared/ctl.h"
#include "tools/shared/table.h"

#define CHECK_OPENCL_LAYER "libxsched-opencl.so"
#define CHECK_KFD_LAYER    "libxsched-kfd.so"
#define CHECK_CUDA_LAYER   "libxsched-cuda.so"
#define CHECK_HIP_LAYER    "libxsched-hip.so"
#define CHECK_HSA_TOOL     "libxsched-hsa.so"

typedef enum CheckState {
        CHECK_OK,
        CHECK_WARNING, /* works, but not as well as it could */
        CHECK_FAILED,
} CheckState;

typedef struct Check {
        Ctl *ctl;
        const char *pid; /* NULL: this environment */
        Table table;
        bool failed;
} Check;

void check_add(Check *k, const char *what, CheckState state, const char *format, ...) _printf_(4, 5);

/* Reads a file of a process in /proc as a new string; `pid` may be "self". */
int check_read_proc(const char *pid, const char *file, char **ret, size_t *ret_size);

/* Gets a variable of the checked process: a new string in *ret; NULL when it is not set. */
int check_get_variable(const Check *k, const char *name, char **ret);

/* Returns the file of a library that the process has mapped; `name`: how the file's name begins. The caller frees it.
 */
char *check_find_mapped(const char *maps, const char *name);
