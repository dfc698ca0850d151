/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches that the layer does not know: see cuda-unknown.h
 */

#include "shim/cuda/cuda-unknown.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/macro.h"

#define THUNKS     16U /* as in cuda-thunk.S */
#define THUNK_SIZE 32U

extern _hidden_ char cuda_unknown_thunks[];
_hidden_ _Atomic uint64_t cuda_unknown_counts[THUNKS];
_hidden_ void *cuda_unknown_next[THUNKS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[THUNKS][64];
static _Atomic unsigned n_thunks; /* those before it are complete */

static bool is_launch(const char *name) {
        return startswith(name, "cuLaunch") || startswith(name, "cuGraphLaunch");
}

static void *thunk_of(unsigned i) {
        return cuda_unknown_thunks + (size_t) THUNK_SIZE * i;
}

/* NULL: there is none left. Under the lock. */
static void *thunk_get(void *address, const char *name) {
        unsigned n = atomic_load(&n_thunks);

        for (unsigned i = 0; i < n; i++)
                if (cuda_unknown_next[i] == address)
                        return thunk_of(i);
        if (n == THUNKS)
                return NULL;
        cuda_unknown_next[n] = address;
        (void) snprintf(names[n], sizeof(names[n]), "%s", name);
        atomic_store(&n_thunks, n + 1);
        return thunk_of(n);
}

void *cuda_unknown_replace(void *address, const char *name) {
        if (!is_launch(name))
                return address;
        (void) pthread_mutex_lock(&lock);
        void *thunk = thunk_get(address, name);
        (void) pthread_mutex_unlock(&lock);
        return thunk ?: address;
}

uint64_t cuda_unknown_count(const char *name) {
        unsigned n = atomic_load(&n_thunks);

        for (unsigned i = 0; i < n; i++)
                if (streq(names[i], name))
                        return atomic_load_explicit(&cuda_unknown_counts[i], memory_order_relaxed);
        return UINT64_MAX;
}
