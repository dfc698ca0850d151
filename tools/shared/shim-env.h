/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a program needs in its environment to be scheduled, and where the parts of xsched lie
 *
 * Programs of the build tree find the rest of the build tree by their own place in it, so that everything can be tried
 * without an installation and without a variable that says where it is; installed programs use the paths they were
 * configured with.
 */

#include <stdbool.h>

typedef enum ShimMode {
        SHIM_LAYER,   /* OPENCL_LAYERS: the OpenCL loader's own interface */
        SHIM_PRELOAD, /* LD_PRELOAD: for loaders without layers, and programs linked to a driver directly */
        SHIM_NONE,    /* leave the environment alone */
        _SHIM_MODE_MAX,
} ShimMode;

int shim_mode_from_string(const char *s);

/* Each returns a new string, and -ENOENT when there is no such file. */
int find_service(char **ret);
int find_opencl_layer(char **ret);
int find_built_classes(char **ret); /* the shipped class files; in a build tree only */

int find_kfd_shim(char **ret);
int find_library(char **ret); /* libxsched */
int find_oci_hook(char **ret);
int find_hsa_tool(char **ret);

/* Is there an AMD GPU's driver here, so that the KFD shim has something to do? Elsewhere nothing is preloaded: a
 * program of another architecture would say on its standard error that it cannot. */
bool shim_wants_kfd(void);

/* The HSA runtime's list of tools, which spaces separate: the KFD shim has one (shim/kfd/kfd-onload.c). And whether
 * it is the only one in such a list. */
#define SHIM_HSA_TOOLS "HSA_TOOLS_LIB"
bool shim_is_only_tool(const char *tools);

/* The same of CUDA, and NVIDIA's driver. */
int find_cuda_layer(char **ret);
bool shim_wants_cuda(void);

/* Puts what is built or installed of the shim into this process's environment, each part in front of what is there
 * already and in place of another copy of it: the OpenCL layer into OPENCL_LAYERS or LD_PRELOAD, and, where
 * shim_wants_kfd(), the KFD shim into LD_PRELOAD, and into HSA_TOOLS_LIB unless it names another tool already; where
 * shim_wants_cuda(), the CUDA layer. A part that is missing is left out: what speaks libxsched itself is scheduled
 * nevertheless. -EINVAL when such a list cannot contain a path.
 * */
int shim_setenv(ShimMode mode);

/* Puts the directory that this program lies in into PATH, in front, unless it is there: the other tools lie beside
 * it. */
int tools_setenv(void);
