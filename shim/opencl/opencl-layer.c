/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The OpenCL layer: what the loader calls when our path stands in OPENCL_LAYERS
 *
 * Loaders hand us a table of functions and take one back. The tables of different loaders have different lengths (each new OpenCL
 * version appends), so ours has the length of theirs: hooks are put over the entries that both know, all else is theirs unchanged.
 *
 * What loaders do that one would not expect:
 *  - ocl-icd 2.3.1 cuts OPENCL_LAYERS at the first ':' in the process's own environment, so that children see the first layer
 *    only: put ours first.
 *  - The last layer in the list is the outermost, that is, it is called first.
 *  - A process can have two loaders (a Python wheel that brings its own), and each initialises us. Their functions all go to the
 *    object's own runtime in the end, so the first loader's serve for both; we keep that one loaded, since it could be closed.
 *  - Nothing ever finalises a layer.
 *
 * A process that makes no queue pays for the copy of a table, and nothing else.
 */

#include "shim/opencl/opencl-next.h" /* before all other headers of OpenCL: it chooses the version */

#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <pthread.h>

#include "shim/late/late.h"

cl_icd_dispatch opencl_next;

static pthread_mutex_t next_lock = PTHREAD_MUTEX_INITIALIZER;
static bool next_known;

/* What loaders have been handed. They keep it where nobody finds it, or are unloaded themselves: this is what a search for leaks finds. */
typedef struct Handed Handed;

struct Handed {
        Handed *next;
        cl_icd_dispatch dispatch; /* as long as the loader's is, but not shorter than this */
};

static Handed *handed;

void opencl_hook_dispatch(const cl_icd_dispatch *target, size_t n, cl_icd_dispatch *ret) {
        OpenclFunction *to = (OpenclFunction *) ret;

        (void) pthread_mutex_lock(&next_lock);
        if (!next_known)
                memcpy(&opencl_next, target, MIN(n, OPENCL_N_ENTRIES) * sizeof(OpenclFunction));
        next_known = true;
        (void) pthread_mutex_unlock(&next_lock);

        memcpy(to, target, n * sizeof(OpenclFunction));
        for (size_t i = 0; i < opencl_n_hooks; i++) {
                size_t entry = opencl_hooks[i].entry;
                if (entry < n && to[entry] && ((const OpenclFunction *) &opencl_next)[entry])
                        to[entry] = opencl_hooks[i].function;
        }
}

/* A table that already leads through us: initialised twice by one loader. */
static bool is_hooked(const cl_icd_dispatch *target, size_t n) {
        for (size_t i = 0; i < opencl_n_hooks; i++)
                if (opencl_hooks[i].entry < n &&
                                ((const OpenclFunction *) target)[opencl_hooks[i].entry] ==
                                                opencl_hooks[i].function)
                        return true;
        return false;
}

static void keep_loaded(const void *function) {
        Dl_info info;
        if (dladdr(function, &info) && info.dli_fname) {
                void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
                if (handle)
                        (void) dlclose(handle);
        }
}

_public_
cl_int CL_API_CALL clGetLayerInfo(cl_layer_info param_name, size_t param_value_size, void *param_value,
                size_t *param_value_size_ret) {
        static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
        static const char name[] = "xsched";
        const void *answer = param_name == CL_LAYER_API_VERSION ? (const void *) &version : name;
        size_t n = param_name == CL_LAYER_API_VERSION ? sizeof(version) : sizeof(name);

        if (param_name != CL_LAYER_API_VERSION && param_name != CL_LAYER_NAME)
                return CL_INVALID_VALUE;
        if (param_value && param_value_size < n)
                return CL_INVALID_VALUE;
        if (param_value)
                memcpy(param_value, answer, n);
        if (param_value_size_ret)
                *param_value_size_ret = n;
        return CL_SUCCESS;
}

_public_
cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
                cl_uint *num_entries_ret, const cl_icd_dispatch **layer_dispatch_ret) {
        PROTECT_ERRNO;
        if (!target_dispatch || !num_entries_ret || !layer_dispatch_ret || num_entries == 0)
                return CL_INVALID_VALUE;
        if (is_hooked(target_dispatch, num_entries))
                return CL_INVALID_VALUE; /* this loader has us already, and goes on without a second time */

        /* For the life of the process: the loader may look into it at any time. */
        Handed *h = malloc(offsetof(Handed, dispatch) +
                        MAX(num_entries * sizeof(OpenclFunction), sizeof(h->dispatch)));
        if (!h)
                return CL_OUT_OF_HOST_MEMORY;

        late_load(); /* as long as the environment is as it was when we were loaded */
        keep_loaded(*(void *const *) target_dispatch);
        opencl_hook_dispatch(target_dispatch, num_entries, &h->dispatch);
        (void) pthread_mutex_lock(&next_lock);
        h->next = handed;
        handed = h;
        (void) pthread_mutex_unlock(&next_lock);

        *num_entries_ret = num_entries;
        *layer_dispatch_ret = &h->dispatch;
        return CL_SUCCESS;
}
