/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HIP runtime behind the layer, by the caller
 *
 * What was found for a caller holds for the whole library that it is in. Records stay for ever, and so does a reference
 * to the runtime.
 */

#include "shim/hip/hip-next.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/macro.h"
#include "common/object-open.h"
#include "common/object-range.h"

typedef struct HipFound {
        ObjectRange range; /* of the caller's library */
        void *function;
        struct HipFound *next;
} HipFound;

/* Keeps the library of the function loaded. */
static void keep(const void *function) {
        Dl_info info;

        if (dladdr(function, &info) && info.dli_fname)
                (void) dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

/* The function that the caller's library and those that it needs define, or that any loaded runtime does. */
static void *look_up(const char *name, const void *caller) {
        void *library, *function = NULL;
        Dl_info info;

        library = dladdr(caller, &info) && info.dli_fname ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (library) {
                function = dlsym(library, name);
                (void) dlclose(library);
        }
        if (!function && (library = object_open("libamdhip64")))
                function = dlsym(library, name);
        if (function)
                keep(function);
        return function;
}

static void remember(HipCell *cell, const void *caller, void *function) {
        ObjectRange range;
        HipFound *f;

        if (!object_range_find((uintptr_t) caller, &range) || !(f = malloc(sizeof(*f))))
                return;
        *f = (HipFound){.range = range, .function = function, .next = atomic_load(&cell->found)};
        while (!atomic_compare_exchange_weak(&cell->found, &f->next, f))
                ;
}

static _noinline_ void *find(HipCell *cell, const void *caller) {
        PROTECT_ERRNO;
        void *function = dlsym(RTLD_NEXT, cell->name);

        if (function)
                atomic_store(&cell->global, function);
        else if ((function = look_up(cell->name, caller)))
                remember(cell, caller, function);
        /* The application would take an error of our own lookup for one of its own. */
        (void) dlerror();
        return function;
}

void *hip_next(HipCell *cell, const void *caller) {
        void *function = atomic_load_explicit(&cell->global, memory_order_acquire);
        uintptr_t at = (uintptr_t) caller;

        if (likely(function))
                return function;
        for (const HipFound *f = atomic_load_explicit(&cell->found, memory_order_acquire); f; f = f->next)
                if (at >= f->range.begin && at < f->range.end)
                        return f->function;
        return find(cell, caller);
}
