/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finding libcuda
 */

#include <dlfcn.h>
#include <stdatomic.h>

#include "common/object-range.h"
#include "shim/cuda/cuda-libc.h"
#include "shim/cuda/cuda-next.h"

#define KNOWN_SIZE 1024U /* a power of two, several times the number of entries */

static const char *const names[_CUDA_ENTRY_MAX] = {
#define HOOKED(name)  [CUDA_##name] = #name,
#define COUNTED(name) [CUDA_##name] = #name,
#define HELPER(name)  [CUDA_##name] = #name,
#include "shim/cuda/cuda-entries.h"
#undef HOOKED
#undef COUNTED
#undef HELPER
                [CUDA_dlsym] = "dlsym",
};

_Static_assert(_CUDA_ENTRY_MAX < KNOWN_SIZE / 2, "half of the table is free");

_Atomic uint64_t cuda_counts[_CUDA_ENTRY_MAX];

typedef struct Known {
        const void *address;
        CudaEntry entry;
} Known;

/* Constant once it is published. */
typedef struct Library {
        Known known[KNOWN_SIZE];
        CudaAny next[_CUDA_ENTRY_MAX];
        ObjectRange range;
} Library;

static _Atomic(Library *) library;

/* musl has none. */
#pragma weak dlvsym

/* By version: dlsym() alone would be ours. glibc 2.34 moved it from libdl to libc under a new one. */
CudaDlsym cuda_real_dlsym(void) {
        static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
        static _Atomic(CudaDlsym) real;
        CudaDlsym f = atomic_load_explicit(&real, memory_order_acquire);

        if (!f && !dlvsym)
                f = (CudaDlsym) (uintptr_t) cuda_libc_function("ld-musl-", "dlsym");
        for (size_t i = 0; !f && dlvsym && i < ELEMENTSOF(versions); i++)
                f = (CudaDlsym) (uintptr_t) dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        atomic_store_explicit(&real, f, memory_order_release);
        return f;
}

static CudaResult no_function(void) {
        return CUDA_RESULT_NO_SYMBOL;
}

static void *no_dlsym(void *handle, const char *name) {
        return NULL;
}

/* --- the library --- */

static size_t known_slot(const Library *l, const void *address) {
        uintptr_t a = (uintptr_t) address;
        size_t i = (a >> 4 ^ a >> 13) & (KNOWN_SIZE - 1);

        while (l->known[i].address && l->known[i].address != address)
                i = (i + 1) & (KNOWN_SIZE - 1);
        return i;
}

static void note_entry(Library *l, CudaEntry e, void *address) {
        l->next[e] = (CudaAny) (uintptr_t) (address ?: (void *) (uintptr_t) no_function);
        if (!address)
                return;
        Known *k = &l->known[known_slot(l, address)];
        if (!k->address)
                *k = (Known){.address = address, .entry = e};
}

/* Takes no lock: a thread with the dynamic linker's lock may be waiting for ours. Two threads may do this at once; one
 * of them publishes its result. Keeps a reference to libcuda for ever, because our functions lead there. */
static Library *find_library(void) {
        CudaDlsym lookup = cuda_real_dlsym();
        void *handle = lookup ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
        Library *l = handle ? calloc(1, sizeof(*l)) : NULL, *first = NULL;

        if (!l)
                return NULL;
        for (CudaEntry e = 0; e < CUDA_dlsym; e++)
                note_entry(l, e, lookup(handle, names[e]));
        (void) object_range_find((uintptr_t) l->next[CUDA_cuLaunchKernel], &l->range);
        if (!atomic_compare_exchange_strong(&library, &first, l)) {
                free(l);
                return first;
        }
        for (CudaEntry e = 0; e < CUDA_dlsym; e++)
                __atomic_store_n(&cuda_next[e], l->next[e], __ATOMIC_RELAXED);
        return l;
}

static const Library *find(void) {
        Library *l = atomic_load_explicit(&library, memory_order_acquire);
        if (likely(l))
                return l;

        PROTECT_ERRNO;
        l = find_library();
        /* Clear the error of our own lookup: the application would take it for one of its own. */
        (void) dlerror();
        return l;
}

bool cuda_is_there(void) {
        return find() != NULL;
}

/* Whether the address is libcuda's and the caller is not: libcuda's own look-ups are left alone. */
static bool is_given(const Library *l, const void *address, const void *caller) {
        uintptr_t at = (uintptr_t) address, from = (uintptr_t) caller;

        return at >= l->range.begin && at < l->range.end && (from < l->range.begin || from >= l->range.end);
}

bool cuda_is_given(const void *address, const void *caller) {
        const Library *l = address ? find() : NULL;

        return l && is_given(l, address, caller);
}

CudaEntry cuda_entry_at(const void *address, const void *caller) {
        const Library *l = address ? find() : NULL;
        if (!l || !is_given(l, address, caller))
                return _CUDA_ENTRY_MAX;
        const Known *k = &l->known[known_slot(l, address)];
        return k->address ? k->entry : _CUDA_ENTRY_MAX;
}

CudaEntry cuda_entry_named(const char *name) {
        for (CudaEntry e = 0; e < CUDA_dlsym; e++)
                if (streq(names[e], name))
                        return e;
        return _CUDA_ENTRY_MAX;
}

/* For cuda-cells.S. */
_hidden_ CudaAny cuda_find_lazily(uint64_t entry);

CudaAny cuda_find_lazily(uint64_t entry) {
        if (entry == CUDA_dlsym) {
                CudaDlsym f = cuda_real_dlsym();
                if (!f)
                        return (CudaAny) (uintptr_t) no_dlsym;
                __atomic_store_n(&cuda_next[CUDA_dlsym], (CudaAny) (uintptr_t) f, __ATOMIC_RELAXED);
                return (CudaAny) (uintptr_t) f;
        }
        const Library *l = find();
        return l ? l->next[entry] : (CudaAny) (uintptr_t) no_function;
}
