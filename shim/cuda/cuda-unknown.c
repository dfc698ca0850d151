/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Launches and captures that the layer does not know: see cuda-unknown.h
 */

#include "shim/cuda/cuda-unknown.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/macro.h"
#include "common/signal-mask.h"

/* As in cuda-thunk.S: thunks for launches, and after them for captures. */
#define LAUNCHES   16U
#define THUNKS     20U
#define THUNK_SIZE 32U

extern _hidden_ char cuda_unknown_thunks[];
_hidden_ _Atomic uint64_t cuda_unknown_counts[THUNKS];
_hidden_ void *cuda_unknown_next[THUNKS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[THUNKS][64];

/* Indices of thunks: those before `n` are complete. */
typedef struct Kind {
        _Atomic unsigned n;
        unsigned first, end;
} Kind;

static Kind launches = {.end = LAUNCHES}, captures = {.n = LAUNCHES, .first = LAUNCHES, .end = THUNKS};

static bool is_launch(const char *name) {
        return startswith(name, "cuLaunch") || startswith(name, "cuGraphLaunch");
}

static void *thunk_of(unsigned i) {
        return cuda_unknown_thunks + (size_t) THUNK_SIZE * i;
}

/* NULL: there is none left. Under the lock. */
static void *thunk_get(Kind *k, void *address, const char *name) {
        unsigned n = atomic_load(&k->n);

        for (unsigned i = k->first; i < n; i++)
                if (cuda_unknown_next[i] == address)
                        return thunk_of(i);
        if (n == k->end)
                return NULL;
        cuda_unknown_next[n] = address;
        (void) snprintf(names[n], sizeof(names[n]), "%s", name);
        atomic_store(&k->n, n + 1);
        return thunk_of(n);
}

void *cuda_unknown_replace(void *address, const char *name) {
        Kind *k = is_launch(name) ? &launches : startswith(name, "cuStreamBegin") ? &captures : NULL;

        if (!k)
                return address;
        SIGNALS_BLOCKED;
        (void) pthread_mutex_lock(&lock);
        void *thunk = thunk_get(k, address, name);
        (void) pthread_mutex_unlock(&lock);
        return thunk ?: address;
}

static uint64_t count_of(const Kind *k, const char *name) {
        unsigned n = atomic_load(&k->n);

        for (unsigned i = k->first; i < n; i++)
                if (streq(names[i], name))
                        return atomic_load_explicit(&cuda_unknown_counts[i], memory_order_relaxed);
        return UINT64_MAX;
}

uint64_t cuda_unknown_count(const char *name) {
        return MIN(count_of(&launches, name), count_of(&captures, name));
}
