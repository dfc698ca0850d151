/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched-hsa.so: the tool that HSA_TOOLS_LIB names
 *
 * The HSA runtime looks for OnLoad() and OnUnload() in each of its tools. Other libraries may have functions of these
 * names, too, and a preloaded one would hide theirs. So ours are in this library, which is never preloaded, and which
 * only calls the layer beside it. The dynamic linker identifies libraries by their files, so that is the preloaded
 * layer, where there is one.
 */

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>

#include "common/macro.h"
#include "shim/kfd/kfd-tool.h"

/* Before glibc 2.34 they are in a library that a process with an HSA runtime has. */
#pragma weak dladdr
#pragma weak dlopen
#pragma weak dlsym

bool OnLoad(void *table, uint64_t version, uint64_t n_failed, const char *const *failed);
void OnUnload(void);

static void *layer_symbol(const char *name) {
        PROTECT_ERRNO;
        char path[PATH_MAX];
        Dl_info here;

        if (!dladdr || !dlopen || !dlsym || dladdr((void *) (uintptr_t) OnLoad, &here) == 0)
                return NULL;
        const char *slash = strrchr(strempty(here.dli_fname), '/');
        size_t n = slash ? (size_t) (slash + 1 - here.dli_fname) : 0;
        if (n == 0 || n + sizeof(KFD_LAYER_NAME) > sizeof(path))
                return NULL;
        memcpy(path, here.dli_fname, n);
        memcpy(path + n, KFD_LAYER_NAME, sizeof(KFD_LAYER_NAME));
        void *layer = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        return layer ? dlsym(layer, name) : NULL;
}

/* If this returns false, the runtime reports it on standard error. */
_public_
bool OnLoad(void *table, uint64_t version, uint64_t n_failed, const char *const *failed) {
        typeof(xsched_kfd_tool_load) *load = (typeof(load)) (uintptr_t) layer_symbol("xsched_kfd_tool_load");

        if (load)
                load(table);
        return true;
}

_public_
void OnUnload(void) {
        typeof(xsched_kfd_tool_unload) *unload = (typeof(unload)) (uintptr_t) layer_symbol("xsched_kfd_tool_unload");

        if (unload)
                unload();
}
