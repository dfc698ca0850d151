/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finding libcuda
 */

#include <dlfcn.h>
#include <stdatomic.h>

#include "common/object-range.h"
#include "cuda-others.h"
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
        ObjectRange other; /* of another vendor's library that comes between ours and libcuda; empty: none */
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

/* A program gets what it would get without us: when another library is in front of libc's dlsym(), too, we are the
 * first of them, and that one is the next. Before glibc 2.34 such a library may find libc's as the one behind whatever
 * its own name leads to, which is ours; it would find itself, and so it is left out. */
CudaDlsym cuda_next_dlsym(void) {
        CudaDlsym f = cuda_real_dlsym();

        if (!f || (dlvsym && !dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34")))
                return f;
        return (CudaDlsym) (uintptr_t) f(RTLD_NEXT, "dlsym") ?: f;
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

static void note_address(Library *l, CudaEntry e, const void *address) {
        Known *k = address ? &l->known[known_slot(l, address)] : NULL;

        if (k && !k->address)
                *k = (Known){.address = address, .entry = e};
}

/* `other`: the function of another vendor's library, which the program would call without us. */
static void note_entry(Library *l, CudaEntry e, void *address, void *other) {
        l->next[e] = (CudaAny) (uintptr_t) (other ?: address ?: (void *) (uintptr_t) no_function);
        note_address(l, e, address);
        note_address(l, e, other);
        if (other && l->other.end == 0)
                (void) object_range_find((uintptr_t) other, &l->other);
}

/* What we call ourselves is libcuda's. */
static bool is_helper(CudaEntry e) {
        static const bool helpers[_CUDA_ENTRY_MAX] = {
#define HOOKED(name)
#define COUNTED(name)
#define HELPER(name) [CUDA_##name] = true,
#include "shim/cuda/cuda-entries.h"
#undef HOOKED
#undef COUNTED
#undef HELPER
        };

        return helpers[e];
}

/* Takes no lock: a thread with the dynamic linker's lock may be waiting for ours. Two threads may do this at once; one
 * of them publishes its result. Keeps a reference to libcuda for ever, because our functions lead there. */
static Library *find_library(void) {
        CudaDlsym lookup = cuda_real_dlsym();
        void *handle = lookup ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
        Library *l = handle ? calloc(1, sizeof(*l)) : NULL, *first = NULL;

        if (!l)
                return NULL;
        bool others = cuda_others_are_there();
        for (CudaEntry e = 0; e < CUDA_dlsym; e++)
                note_entry(l, e, lookup(handle, names[e]),
                                others && !is_helper(e) ? cuda_others_function(lookup, names[e]) : NULL);
        (void) object_range_find((uintptr_t) ((const struct link_map *) handle)->l_ld, &l->range);
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

static bool range_has(const ObjectRange *r, const void *address) {
        return (uintptr_t) address >= r->begin && (uintptr_t) address < r->end;
}

/* Whether the address is libcuda's, or that of a library in front of it, and the caller is neither: their own look-ups
 * are left alone. */
static bool is_given(const Library *l, const void *address, const void *caller) {
        return (range_has(&l->range, address) || range_has(&l->other, address)) && !range_has(&l->range, caller) &&
                        !range_has(&l->other, caller);
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
                CudaDlsym f = cuda_next_dlsym();
                if (!f)
                        return (CudaAny) (uintptr_t) no_dlsym;
                __atomic_store_n(&cuda_next[CUDA_dlsym], (CudaAny) (uintptr_t) f, __ATOMIC_RELAXED);
                return (CudaAny) (uintptr_t) f;
        }
        const Library *l = find();
        CudaDlsym lookup = l ? NULL : cuda_real_dlsym();
        /* There is another library of these functions, by another name; or there is no memory. */
        void *next = lookup ? lookup(RTLD_NEXT, names[entry]) : NULL;
        if (!l && !next)
                (void) dlerror();
        return l ? l->next[entry] : next ? (CudaAny) (uintptr_t) next : (CudaAny) (uintptr_t) no_function;
}
