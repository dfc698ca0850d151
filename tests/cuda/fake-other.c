/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Another project's library, by the name of HAMi's, and in front of libcuda as that is: it gives out its own functions
 * in place of libcuda's, by their names, from dlsym() and from cuGetProcAddress(), and finds libcuda's own by libc's
 * dlsym(). It counts launches, and refuses memory beyond a limit. A program that gets past it gets more than it may.
 */

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "fake-cuda.h"

#define API           __attribute__((visibility("default")))
#define ALLOC_MAX     4096U
#define OUT_OF_MEMORY 2

typedef void *(*Dlsym)(void *handle, const char *name);

static _Atomic unsigned long n_launches, n_refused;

API unsigned long fake_other_launches(void);
API unsigned long fake_other_refused(void);

API unsigned long fake_other_launches(void) {
        return n_launches;
}

API unsigned long fake_other_refused(void) {
        return n_refused;
}

static Dlsym real_dlsym(void) {
        Dlsym f = (Dlsym) (uintptr_t) dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

        return f ? f : (Dlsym) (uintptr_t) dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

static void *libcuda(const char *name) {
        return real_dlsym()(dlopen("libcuda.so.1", RTLD_NOW), name);
}

API int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared, FakeStream stream, void **params, void **extra) {
        atomic_fetch_add(&n_launches, 1);
        return ((typeof(&cuLaunchKernel)) (uintptr_t) libcuda("cuLaunchKernel"))(
                        f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

API int cuMemAlloc_v2(uint64_t *ret, size_t size) {
        if (size <= ALLOC_MAX)
                return ((typeof(&cuMemAlloc_v2)) (uintptr_t) libcuda("cuMemAlloc_v2"))(ret, size);
        atomic_fetch_add(&n_refused, 1);
        return OUT_OF_MEMORY;
}

static void *ours(const char *name);

API int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *ret_status) {
        int r = ((typeof(&cuGetProcAddress_v2)) (uintptr_t) libcuda("cuGetProcAddress_v2"))(
                        name, ret, version, flags, ret_status);

        if (r == 0 && flags == 0 && ours(name))
                *ret = ours(name);
        return r;
}

static void *ours(const char *name) {
        static const struct {
                const char *name;
                void *f;
        } own[] = {
                        {"cuGetProcAddress_v2", (void *) cuGetProcAddress_v2},
                        {"cuLaunchKernel", (void *) cuLaunchKernel},
                        {"cuMemAlloc", (void *) cuMemAlloc_v2},
                        {"cuMemAlloc_v2", (void *) cuMemAlloc_v2},
        };

        for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
                if (strcmp(own[i].name, name) == 0)
                        return own[i].f;
        return NULL;
}

API void *dlsym(void *handle, const char *name) {
        void *f = handle != RTLD_NEXT ? ours(name) : NULL;

        return f ? f : real_dlsym()(handle, name);
}
