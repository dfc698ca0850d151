/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The functions of libcuda, and where they are
 *
 * libcuda is looked for when the application asks for a symbol with a name like libcuda's, and when a function of ours
 * is called. Then every entry is looked up in it by its handle. From that we know the next function of each call, and
 * the addresses that an application must not get from libcuda directly. An address identifies the function; the name,
 * version and flags of the request never matter.
 *
 * Thread safety: all of it from any thread.
 */

#include "common/macro.h"
#include "shim/cuda/cuda-abi.h"

typedef enum CudaEntry {
#define HOOKED(name)  CUDA_##name,
#define COUNTED(name) CUDA_##name,
#define HELPER(name)  CUDA_##name,
#include "shim/cuda/cuda-entries.h"
#undef HOOKED
#undef COUNTED
#undef HELPER
        CUDA_dlsym,
        _CUDA_ENTRY_MAX,
} CudaEntry;

typedef void (*CudaAny)(void);

/* Each entry is callable at any time: before it is known it looks itself up, and a missing function returns
 * CUDA_RESULT_NO_SYMBOL. */
extern _hidden_ CudaAny cuda_next[_CUDA_ENTRY_MAX];

/* The number of calls of each entry; of launches only those that went to the device, which captured ones do not. */
extern _hidden_ _Atomic uint64_t cuda_counts[_CUDA_ENTRY_MAX];

#define CUDA_CALL(name, type, ...)                                                                                     \
        (((type) (uintptr_t) __atomic_load_n(&cuda_next[CUDA_##name], __ATOMIC_RELAXED))(__VA_ARGS__))

static inline void cuda_count(CudaEntry e) {
        __atomic_fetch_add((uint64_t *) &cuda_counts[e], 1, __ATOMIC_RELAXED);
}

/* Returns the entry at an address that `caller` was given; _CUDA_ENTRY_MAX: none known here, or the caller is libcuda
 * itself. */
CudaEntry cuda_entry_at(const void *address, const void *caller);

/* Returns whether the address is libcuda's, and the caller another one. */
bool cuda_is_given(const void *address, const void *caller);

/* Returns whether libcuda is loaded. */
bool cuda_is_there(void);

/* Returns an entry by name; _CUDA_ENTRY_MAX: none. */
CudaEntry cuda_entry_named(const char *name);

/* Returns libc's own dlsym(), for our own look-ups; NULL when it has none. cuda_next_dlsym() returns the one that the
 * program would call without us. */
typedef void *(*CudaDlsym)(void *handle, const char *name);
CudaDlsym cuda_real_dlsym(void);
CudaDlsym cuda_next_dlsym(void);
