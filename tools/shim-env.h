/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a program needs in its environment to be scheduled, and where the parts of xsched lie
 *
 * Programs of the build tree find the rest of the build tree by their own place in it, so that everything can be tried without
 * an installation and without a variable that says where it is; installed programs use the paths they were configured with.
 */

typedef enum ShimMode {
        SHIM_LAYER,   /* OPENCL_LAYERS: the OpenCL loader's own interface */
        SHIM_PRELOAD, /* LD_PRELOAD: for loaders without layers, and programs linked to a driver directly */
        SHIM_NONE,    /* leave the environment alone */
        _SHIM_MODE_MAX,
} ShimMode;

const char *shim_mode_to_string(ShimMode v);
int shim_mode_from_string(const char *s);

/* Each returns a new string, and -ENOENT when there is no such file. */
int find_service(char **ret);
int find_opencl_layer(char **ret);
int find_built_classes(char **ret); /* the shipped class files; in a build tree only */

/* Puts `layer` into this process's OPENCL_LAYERS or LD_PRELOAD, in front of what is there already and in place of another copy
 * of it: two copies would make one process two clients. -EINVAL when the path cannot stand in such a list. */
int shim_setenv(ShimMode mode, const char *layer);

/* Is `path`, or another file of the same name, named in a list of this kind? Returns a pointer into the list, or NULL. */
const char *shim_list_find(const char *list, const char *path);
