/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which functions of libcuda there are, and where
 *
 * libcuda is looked for once somebody asks for a symbol whose name begins as its names do, and when a function of
 * ours is called. Then every entry is looked up in it by its handle, and two things are known: where each call goes
 * on, and which addresses an application may be given that must not be libcuda's own. An address says which function
 * is meant; the name, version and flags by which it was asked for never matter.
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

/* Each is callable at any time: before it is known it finds itself, and where there is none it returns
 * CUDA_RESULT_NO_SYMBOL. */
extern _hidden_ CudaAny cuda_next[_CUDA_ENTRY_MAX];

/* How often each was called; of launches: those that went to the device, and so not captured ones. */
extern _hidden_ _Atomic uint64_t cuda_counts[_CUDA_ENTRY_MAX];

#define CUDA_CALL(name, type, ...)                                                                          \
        (((type) (uintptr_t) __atomic_load_n(&cuda_next[CUDA_##name], __ATOMIC_RELAXED))(__VA_ARGS__))

static inline void cuda_count(CudaEntry e) {
        __atomic_fetch_add((uint64_t *) &cuda_counts[e], 1, __ATOMIC_RELAXED);
}

/* Which function is at an address that `caller` was given; _CUDA_ENTRY_MAX: none that is known here, or it is libcuda
 * itself that asks. */
CudaEntry cuda_entry_at(const void *address, const void *caller);

/* Is libcuda loaded? */
bool cuda_is_there(void);

/* By name; _CUDA_ENTRY_MAX: there is none. */
CudaEntry cuda_entry_named(const char *name);

/* libc's own; NULL when it has none. */
typedef void *(*CudaDlsym)(void *handle, const char *name);
CudaDlsym cuda_real_dlsym(void);
