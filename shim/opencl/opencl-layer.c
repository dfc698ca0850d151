/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The OpenCL layer: what the loader calls when our path is in OPENCL_LAYERS
 *
 * Loaders hand us a table of functions and take one back. The tables of different loaders have different lengths (each
 * new OpenCL version appends), so ours has the length of theirs: hooks are put over the entries that both know, all
 * else is theirs unchanged.
 *
 * What loaders do that one would not expect:
 *  - ocl-icd 2.3.1 cuts OPENCL_LAYERS at the first ':' in the process's own environment, so that children see the
 *    first layer only: put ours first.
 *  - The last layer in the list is the outermost, that is, it is called first.
 *  - A process can have two loaders (a Python wheel that brings its own), and each initialises us. Their functions
 *    all go to the object's own runtime in the end, so the first loader's serve for both; we keep loaders loaded,
 *    since they could be closed.
 *  - Loaders up to 2025 ask for clInitLayer() and never finalise a layer. The Khronos loader since v2026.05.29 asks
 *    for clInitLayerWithProperties(), refuses a layer without it, and calls clDeinitLayer() from its destructor,
 *    after those of the drivers. It asks for the same version by clGetLayerInfo(), so nothing but the name of the
 *    function tells the two kinds apart.
 *
 * When the last loader has finalised us, no thread of ours calls the runtime any more (opencl-own.h). At the latest
 * this is when the process ends: after the functions that were registered by atexit() after the first queue, and before
 * the drivers' own ends. The application's calls pass on. This library itself is never unmapped (-z nodelete): the
 * runtime's threads may come back into it.
 *
 * A process that makes no queue pays for the copy of a table and a page with a name (opencl-mark.h), and nothing else.
 */

#include "shim/opencl/opencl-next.h" /* before all other headers of OpenCL: it chooses the version */

#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <pthread.h>

#include "opencl-hooks.h"
#include "opencl-layer.h"
#include "shim/late/late.h"
#include "shim/opencl/opencl-life.h"
#include "shim/opencl/opencl-mark.h"
#include "shim/opencl/opencl-own.h"

/* Declarations that the headers lack. */
#ifndef CL_LAYER_PROPERTIES_LIST_END
cl_int CL_API_CALL clInitLayerWithProperties(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
                cl_uint *num_entries_ret, const cl_icd_dispatch **layer_dispatch_ret, const cl_properties *properties);
cl_int CL_API_CALL clDeinitLayer(void);
#endif

/* Tables that loaders were given. Loaders keep them where a leak detector does not look, or are unloaded themselves; it
 * finds them here. */
typedef struct Handed Handed;

struct Handed {
        Handed *next;
        const void *loader;       /* its address; NULL after it has called clDeinitLayer() */
        cl_icd_dispatch target;   /* its own table, as far as we know its members */
        cl_icd_dispatch dispatch; /* as long as the loader's is, but not shorter than this */
};

static pthread_mutex_t next_lock = PTHREAD_MUTEX_INITIALIZER;
static bool next_known;
static Handed *next_of; /* the table whose functions are in opencl_next; NULL: those of no loader */
static Handed *handed;

static void hook_dispatch(const cl_icd_dispatch *target, size_t n, cl_icd_dispatch *ret, Handed *h) {
        OpenclFunction *to = (OpenclFunction *) ret;

        (void) pthread_mutex_lock(&next_lock);
        if (!next_known) {
                memcpy(&opencl_next, target, MIN(n, OPENCL_N_ENTRIES) * sizeof(OpenclFunction));
                next_of = h;
        }
        next_known = true;
        if (h) {
                h->next = handed;
                handed = h;
        }
        (void) pthread_mutex_unlock(&next_lock);

        memcpy(to, target, n * sizeof(OpenclFunction));
        for (size_t i = 0; i < opencl_n_hooks; i++) {
                size_t entry = opencl_hooks[i].entry;
                if (entry < n && to[entry] && ((const OpenclFunction *) &opencl_next)[entry])
                        to[entry] = opencl_hooks[i].function;
        }
        opencl_own_restart();
        opencl_mark_set();
}

void opencl_hook_dispatch(const cl_icd_dispatch *target, size_t n, cl_icd_dispatch *ret) {
        hook_dispatch(target, n, ret, NULL);
}

/* Whether a table already has our hooks: one loader has initialised us twice. */
static bool is_hooked(const cl_icd_dispatch *target, size_t n) {
        for (size_t i = 0; i < opencl_n_hooks; i++)
                if (opencl_hooks[i].entry < n &&
                                ((const OpenclFunction *) target)[opencl_hooks[i].entry] == opencl_hooks[i].function)
                        return true;
        return false;
}

static const void *object_of(const void *code) {
        Dl_info info;
        return dladdr(code, &info) ? info.dli_fbase : NULL;
}

static void keep_loaded(const void *code) {
        Dl_info info;
        if (dladdr(code, &info) && info.dli_fname) {
                void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
                if (handle)
                        (void) dlclose(handle);
        }
}

_public_
cl_int CL_API_CALL clGetLayerInfo(
                cl_layer_info param_name, size_t param_value_size, void *param_value, size_t *param_value_size_ret) {
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

static cl_int init_layer(cl_uint num_entries, const cl_icd_dispatch *target_dispatch, cl_uint *num_entries_ret,
                const cl_icd_dispatch **layer_dispatch_ret, const void *caller) {
        PROTECT_ERRNO;
        if (!target_dispatch || !num_entries_ret || !layer_dispatch_ret || num_entries == 0)
                return CL_INVALID_VALUE;
        if (is_hooked(target_dispatch, num_entries))
                return CL_INVALID_VALUE; /* this loader has our hooks already, and goes on without a second set */

        /* Kept for the life of the process, because the loader may read it at any time. */
        Handed *h = calloc(
                        1, offsetof(Handed, dispatch) + MAX(num_entries * sizeof(OpenclFunction), sizeof(h->dispatch)));
        if (!h)
                return CL_OUT_OF_HOST_MEMORY;
        h->loader = object_of(caller) ?: h;
        memcpy(&h->target, target_dispatch, MIN(num_entries, OPENCL_N_ENTRIES) * sizeof(OpenclFunction));

        (void) late_load(); /* now, while the environment is as it was when this library was loaded */
        keep_loaded(caller);
        keep_loaded(*(void *const *) target_dispatch);
        hook_dispatch(target_dispatch, num_entries, &h->dispatch, h);

        *num_entries_ret = num_entries;
        *layer_dispatch_ret = &h->dispatch;
        return CL_SUCCESS;
}

_public_
cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target_dispatch, cl_uint *num_entries_ret,
                const cl_icd_dispatch **layer_dispatch_ret) {
        return init_layer(
                        num_entries, target_dispatch, num_entries_ret, layer_dispatch_ret, __builtin_return_address(0));
}

_public_
cl_int CL_API_CALL clInitLayerWithProperties(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
                cl_uint *num_entries_ret, const cl_icd_dispatch **layer_dispatch_ret, const cl_properties *properties) {
        if (properties && properties[0] != 0)
                return CL_INVALID_PROPERTY; /* there are none in version 1.0.1 */
        return init_layer(
                        num_entries, target_dispatch, num_entries_ret, layer_dispatch_ret, __builtin_return_address(0));
}

/* --- the end --- */

static void stop(void) {
        opencl_own_stop();
        opencl_queue_forget_all();
}

/* Returns the newest table of this loader, or the only one there is. Called under the lock. */
static Handed *handed_to(const void *loader) {
        Handed *only = NULL;
        size_t n = 0;

        for (Handed *h = handed; h; h = h->next) {
                if (!h->loader)
                        continue;
                if (h->loader == loader)
                        return h;
                only = h;
                n++;
        }
        return n == 1 ? only : NULL;
}

/* Takes the functions of another loader. Returns false when there is none, and nothing to call. Called under the
 * lock. */
static bool next_replace(void) {
        for (Handed *h = handed; h; h = h->next)
                if (h->loader) {
                        opencl_next = h->target;
                        next_of = h;
                        return true;
                }
        return false;
}

/* The call does not name the loader, which is the caller. */
_public_
cl_int CL_API_CALL clDeinitLayer(void) {
        PROTECT_ERRNO;
        const void *loader = object_of(__builtin_return_address(0));
        bool last = false;

        (void) pthread_mutex_lock(&next_lock);
        Handed *h = handed_to(loader);
        if (h) {
                h->loader = NULL;
                last = next_of == h && !next_replace();
                next_known &= !last; /* the next loader's */
        }
        (void) pthread_mutex_unlock(&next_lock);
        if (last) {
                stop();
                opencl_mark_clear();
        }
        return CL_SUCCESS;
}

__attribute__((destructor)) static void finish(void) {
        PROTECT_ERRNO;
        stop();
}
