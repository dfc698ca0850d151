/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sets the shim's environment, and finds the parts of xsched
 *
 * The layer goes to the front of OPENCL_LAYERS: loaders stack layers in the order of the list, the first one closest to
 * the driver. There the gate sees what really goes to the device, including what other layers add.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/macro.h"
#include "common/shim-list.h"
#include "config.h"
#include "tools/shared/shim-env.h"

#define LIBRARY_NAME    "libxsched.so.0"
#define LAYER_NAME      "libxsched-opencl.so"
#define KFD_SHIM_NAME   "libxsched-kfd.so"
#define HSA_TOOL_NAME   "libxsched-hsa.so"
#define KFD_DEVICE      "/dev/kfd"
#define CUDA_LAYER_NAME "libxsched-cuda.so"
#define CUDA_DEVICE     "/dev/nvidiactl"

static const char *const shim_mode_table[_SHIM_MODE_MAX] = {
                [SHIM_LAYER] = "layer",
                [SHIM_PRELOAD] = "preload",
                [SHIM_NONE] = "none",
};
DEFINE_STRING_TABLE_FROM_STRING(shim_mode);

/* build/tools/PROGRAM -> build/RELATIVE. A copied or installed program has no such neighbour. */
static int find_in_build_tree(const char *relative, char **ret) {
        _cleanup_free_ char *path = NULL;
        char self[4096], *slash;
        ssize_t n;

        n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n < 0)
                return negative_errno();
        self[n] = '\0';

        for (int up = 0; up < 2; up++) {
                slash = strrchr(self, '/');
                if (!slash)
                        return -ENOENT;
                if (up == 0 && !streq(slash, "/xsched-session") && !streq(slash, "/xschedctl"))
                        return -ENOENT;
                *slash = '\0';
                if (up == 0) {
                        slash = strrchr(self, '/');
                        if (!slash || !streq(slash, "/tools"))
                                return -ENOENT;
                }
        }

        if (asprintf(&path, "%s/%s", self, relative) < 0)
                return -ENOMEM;
        if (access(path, F_OK) < 0)
                return negative_errno();
        *ret = TAKE_PTR(path);
        return 0;
}

static int find_file(const char *relative, const char *installed, char **ret) {
        char *path;
        int r;

        r = find_in_build_tree(relative, ret);
        if (r >= 0 || r == -ENOMEM)
                return r;

        if (access(installed, F_OK) < 0)
                return negative_errno();
        path = strdup(installed);
        if (!path)
                return -ENOMEM;
        *ret = path;
        return 0;
}

int find_service(char **ret) {
        return find_file("service/xschedd", XSCHED_LIBEXECDIR "/xschedd", ret);
}

int find_built_classes(char **ret) {
        return find_in_build_tree("units/classes.d", ret);
}

int find_opencl_layer(char **ret) {
        return find_file("shim/" LAYER_NAME, XSCHED_PKGLIBDIR "/" LAYER_NAME, ret);
}

int find_library(char **ret) {
        return find_file("shim/" LIBRARY_NAME, XSCHED_LIBDIR "/" LIBRARY_NAME, ret);
}

int find_oci_hook(char **ret) {
        return find_file("oci/xsched-oci-hook", XSCHED_LIBEXECDIR "/xsched-oci-hook", ret);
}

/* Puts `path` into the list `variable`. */
static int list_setenv(const char *variable, const char *path) {
        _cleanup_free_ char *value = NULL;

        int r = shim_list_prepend(getenv(variable), path, &value);
        if (r < 0)
                return r;
        return setenv(variable, value, 1) < 0 ? negative_errno() : 0;
}

static bool path_has(const char *path, const char *directory) {
        size_t n_directory = strlen(directory);

        for (const char *p = path; *p; p += *p == ':') {
                size_t n = strcspn(p, ":");

                if (n == n_directory && memcmp(p, directory, n) == 0)
                        return true;
                p += n;
        }
        return false;
}

int tools_setenv(void) {
        _cleanup_free_ char *value = NULL;
        const char *path = getenv("PATH");
        char self[4096], usual[256];

        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n < 0)
                return negative_errno();
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        if (!slash || slash == self)
                return 0;
        *slash = '\0';
        if (!path) {
                size_t size = confstr(_CS_PATH, usual, sizeof(usual));
                path = size > 0 && size <= sizeof(usual) ? usual : "/usr/bin:/bin";
        }
        /* A path with a colon cannot be in the list. */
        if (strchr(self, ':') || path_has(path, self))
                return 0;
        if (asprintf(&value, "%s%s%s", self, isempty(path) ? "" : ":", path) < 0)
                return -ENOMEM;
        return setenv("PATH", value, 1) < 0 ? negative_errno() : 0;
}

int find_kfd_shim(char **ret) {
        return find_file("shim/" KFD_SHIM_NAME, XSCHED_PKGLIBDIR "/" KFD_SHIM_NAME, ret);
}

bool shim_is_only_tool(const char *tools) {
        return tools && shim_list_find(tools, HSA_TOOL_NAME) == tools && !strchr(tools, ' ');
}

bool shim_wants_kfd(void) {
        return access(KFD_DEVICE, F_OK) == 0;
}

int find_cuda_layer(char **ret) {
        return find_file("shim/" CUDA_LAYER_NAME, XSCHED_PKGLIBDIR "/" CUDA_LAYER_NAME, ret);
}

bool shim_wants_cuda(void) {
        return access(CUDA_DEVICE, F_OK) == 0;
}

/* Missing libraries are left out. */
static int preload(int (*find)(char **ret)) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = find(&path);
        if (r >= 0)
                r = list_setenv("LD_PRELOAD", path);
        return r == -ENOENT ? 0 : r;
}

int find_hsa_tool(char **ret) {
        return find_file("shim/" HSA_TOOL_NAME, XSCHED_PKGLIBDIR "/" HSA_TOOL_NAME, ret);
}

/* The KFD shim is a tool of the HSA runtime, too. If the user has set a tool, only that one stays: both depend on which
 * comes first. */
static int set_hsa_tool(void) {
        _cleanup_free_ char *path = NULL;
        const char *tools = getenv(SHIM_HSA_TOOLS);

        if (!isempty(tools) && !shim_is_only_tool(tools))
                return 0;
        int r = find_hsa_tool(&path);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        return setenv(SHIM_HSA_TOOLS, path, 1) < 0 ? negative_errno() : 0;
}

int shim_setenv(ShimMode mode) {
        _cleanup_free_ char *layer = NULL;
        int r;

        if (mode == SHIM_NONE)
                return 0;
        r = find_opencl_layer(&layer);
        if (r >= 0)
                r = list_setenv(mode == SHIM_PRELOAD ? "LD_PRELOAD" : "OPENCL_LAYERS", layer);
        if (r < 0 && r != -ENOENT)
                return r;
        r = shim_wants_kfd() ? preload(find_kfd_shim) : 0;
        if (r >= 0 && shim_wants_kfd())
                r = set_hsa_tool();
        if (r >= 0 && shim_wants_cuda())
                r = preload(find_cuda_layer);
        return r < 0 ? r : 0;
}
