/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Shim environment: the variables with which a program is scheduled, and the places of the parts of xsched
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

/* Whether this machine has the driver of AMD GPUs, so that the KFD shim is of use. Elsewhere it is not preloaded: a
 * program of another architecture would complain on standard error that it cannot load it. */
bool shim_wants_kfd(void);

/* The HSA runtime's list of tools, separated by spaces, to which the KFD shim adds one (shim/kfd/kfd-onload.c). The
 * function says whether that is the only one in a list. */
#define SHIM_HSA_TOOLS "HSA_TOOLS_LIB"
bool shim_is_only_tool(const char *tools);

/* The same for CUDA and NVIDIA's driver. */
int find_cuda_layer(char **ret);
bool shim_wants_cuda(void);

/* Puts the built or installed parts of the shim into this process's environment. Each part goes in front of the
 * variable's value, and replaces another copy of itself: the OpenCL layer into OPENCL_LAYERS or LD_PRELOAD, and, where
 * shim_wants_kfd(), the KFD shim into LD_PRELOAD, and into HSA_TOOLS_LIB unless it names another tool already; where
 * shim_wants_cuda(), the CUDA layer. A missing part is left out: programs that use libxsched themselves are scheduled
 * nevertheless. -EINVAL when such a list cannot contain a path. */
int shim_setenv(ShimMode mode);

/* Puts the directory that this program lies in into PATH, in front, unless it is there: the other tools lie beside
 * it. */
int tools_setenv(void);
