/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The HSA runtime behind the layer, by who calls
 *
 * Runtimes are told apart by their functions. Their records stay for ever, and so does a reference to each library. A
 * call site is one word, with its address and the number of its runtime, so a reader never sees half of it. An address
 * may become another call site when a library is unloaded: so dlclose() is intercepted, too.
 */

#include "shim/kfd/kfd-next.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>

#include "common/macro.h"
#include "common/object-open.h"
#include "common/object-range.h"

/* musl has none. */
#pragma weak dladdr1

#define PLACES_MAX  1024U
#define PLACE_WAYS  4U
#define NUMBER_BITS 8U
#define NUMBER_MASK 255U

#ifndef KFD_RUNTIMES_MAX /* fewer, for a test of what comes beyond */
#        define KFD_RUNTIMES_MAX NUMBER_MASK
#endif

static _Atomic(KfdRuntime *) runtimes[KFD_RUNTIMES_MAX];
static _Atomic uint64_t places[PLACES_MAX]; /* 0: none */
static const struct link_map *last_at_start;

#define PROBE "hsa_signal_store_screlease"

/* --- which library --- */

static struct link_map *object_of(const void *address) {
        struct link_map *map = NULL;
        Dl_info info;

        return dladdr1 && dladdr1(address, &info, (void **) &map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* Libraries that came with the program are in front of all others in the loader's list. Looking a function up here
 * would cost more, in each program that a unit starts. */
__attribute__((constructor)) static void look_at_start(void) {
        for (const struct link_map *m = object_of(&runtimes); m; m = m->l_next)
                last_at_start = m;
}

static bool is_from_the_start(const void *function) {
        const struct link_map *map = function ? object_of(function) : NULL;

        for (const struct link_map *m = last_at_start; map && m; m = m->l_prev)
                if (m == map)
                        return true;
        return false;
}

/* Returns a handle of the library, which stays loaded. */
static void *handle_of(const struct link_map *map) {
        return map && !isempty(map->l_name) ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

typedef struct Dynamic {
        const ElfW(Sym) * symbols;
        const char *strings;
        const ElfW(Rela) * rela[2];
        size_t size[2];
} Dynamic;

static const void *dynamic_pointer(const struct link_map *map, ElfW(Addr) p) {
        return (const void *) (p < map->l_addr ? map->l_addr + p : p);
}

static Dynamic dynamic_read(const struct link_map *map) {
        Dynamic d = {};

        for (const ElfW(Dyn) *e = map->l_ld; e && e->d_tag != DT_NULL; e++)
                switch (e->d_tag) {
                case DT_SYMTAB:
                        d.symbols = dynamic_pointer(map, e->d_un.d_ptr);
                        break;
                case DT_STRTAB:
                        d.strings = dynamic_pointer(map, e->d_un.d_ptr);
                        break;
                case DT_JMPREL:
                        d.rela[0] = dynamic_pointer(map, e->d_un.d_ptr);
                        break;
                case DT_PLTRELSZ:
                        d.size[0] = e->d_un.d_val;
                        break;
                case DT_RELA:
                        d.rela[1] = dynamic_pointer(map, e->d_un.d_ptr);
                        break;
                case DT_RELASZ:
                        d.size[1] = e->d_un.d_val;
                        break;
                default:
                        break;
                }
        return d;
}

/* The library that a reference leads to; NULL for those that lead to us, or that are not bound yet. */
static struct link_map *bound_to(const struct link_map *caller, const ElfW(Rela) * r) {
        const void *const *cell = (const void *const *) (caller->l_addr + r->r_offset);
        struct link_map *map = object_of(*cell);

        return map != caller && map != object_of(&runtimes) ? map : NULL;
}

static struct link_map *bound_runtime(const struct link_map *caller) {
        Dynamic d = dynamic_read(caller);
        struct link_map *found = NULL;

        for (size_t k = 0; d.symbols && d.strings && k < ELEMENTSOF(d.rela); k++)
                for (size_t i = 0; d.rela[k] && i < d.size[k] / sizeof(ElfW(Rela)); i++) {
                        const ElfW(Rela) *r = d.rela[k] + i;
                        const char *name = d.strings + d.symbols[ELF64_R_SYM(r->r_info)].st_name;
                        if (ELF64_R_SYM(r->r_info) == 0 || !startswith(name, "hsa_"))
                                continue;
                        struct link_map *map = bound_to(caller, r);
                        if (map && streq(name, "hsa_init"))
                                return map;
                        found = found ?: map;
                }
        return found;
}

static bool has_runtime(void *handle) {
        return handle && dlsym(handle, PROBE);
}

static void *runtime_handle(const struct link_map *caller, void *own) {
        if (is_from_the_start(dlsym(RTLD_NEXT, PROBE)))
                return RTLD_NEXT;

        void *bound = caller ? handle_of(bound_runtime(caller)) : NULL;
        if (has_runtime(bound))
                return bound;
        if (has_runtime(RTLD_NEXT))
                return RTLD_NEXT;
        void *function = own ? dlsym(own, PROBE) : NULL;
        return function ? handle_of(object_of(function)) : NULL;
}

/* --- runtimes --- */

typedef void (*Function)(void);

/* Returns the number, from 1; 0 when there is no memory or no room. */
static uint64_t runtime_number(const KfdRuntime *r) {
        _cleanup_free_ KfdRuntime *copy = malloc(sizeof(*copy));
        if (!copy)
                return 0;
        *copy = *r;
        for (size_t i = 0; i < KFD_RUNTIMES_MAX; i++) {
                KfdRuntime *known = NULL;
                if (atomic_compare_exchange_strong(&runtimes[i], &known, copy)) {
                        copy = NULL;
                        return i + 1;
                }
                if (memcmp(known, copy, sizeof(*copy)) == 0)
                        return i + 1;
        }
        return 0;
}

/* Where another library interposes the runtime, some may be its own, and the others are behind it. */
static Function find(void *handle, void *own, void **any, const char *name) {
        void *f = handle ? dlsym(handle, name) : NULL;

        if (!f)
                f = dlsym(RTLD_NEXT, name);
        if (!f && own)
                f = dlsym(own, name);
        if (!f && !*any)
                *any = object_open("libhsa-runtime64");
        return (Function) (uintptr_t) (f || !*any ? f : dlsym(*any, name));
}

static typeof(&dlclose) next_dlclose(void) {
        static _Atomic(typeof(&dlclose)) next;

        if (!atomic_load(&next)) {
                PROTECT_ERRNO;
                atomic_store(&next, (typeof(&dlclose)) (uintptr_t) dlsym(RTLD_NEXT, "dlclose"));
        }
        return atomic_load(&next);
}

static KfdRuntime runtime_read(const void *caller) {
        const struct link_map *map = object_of(caller);
        void *own = handle_of(map), *handle = runtime_handle(map, own), *any = NULL;
        KfdRuntime r;

#define READ(name) r.name = (typeof(&name)) find(handle, own, &any, #name);
        HSA_FUNCTIONS(READ)
#undef READ
        /* Nothing is unloaded by it: what is known of others stays known. */
        if (own && next_dlclose())
                (void) next_dlclose()(own);
        return r;
}

/* --- places --- */

static unsigned place_first(uint64_t address) {
        return (unsigned) (address * UINT64_C(0x9e3779b97f4a7c15) >> 54) & (PLACES_MAX - PLACE_WAYS);
}

static uint64_t place_number(uint64_t address) {
        unsigned first = place_first(address);

        for (unsigned i = 0; i < PLACE_WAYS; i++) {
                uint64_t place = atomic_load_explicit(&places[first + i], memory_order_acquire);
                if (place >> NUMBER_BITS == address)
                        return place & NUMBER_MASK;
        }
        return 0;
}

/* Remembers a call site. If all places are taken, it replaces another call site, which has to be looked up again. */
static void place_remember(uint64_t address, uint64_t number) {
        unsigned first = place_first(address), i = 0;

        if (number == 0 || address >> (64 - NUMBER_BITS) != 0)
                return;
        while (i < PLACE_WAYS - 1 && atomic_load(&places[first + i]) != 0)
                i++;
        atomic_store(&places[first + i], address << NUMBER_BITS | number);
}

static void places_forget(void) {
        for (unsigned i = 0; i < PLACES_MAX; i++)
                if (atomic_load_explicit(&places[i], memory_order_relaxed) != 0)
                        atomic_store(&places[i], 0);
}

/* --- libraries --- */

/* Libraries that have called already. A further call site of such a library leads to the same runtime, so that a signal
 * handler need not ask the dynamic linker. Records stay for ever, and are used again when a library comes back. */
#define LIBRARIES_MAX 64U

typedef struct Library {
        ObjectRange range;
        uint64_t number;
        _Atomic bool valid;
} Library;

static _Atomic(Library *) libraries[LIBRARIES_MAX];

static void library_remember(const void *caller, uint64_t number) {
        ObjectRange range;

        if (!object_range_find((uintptr_t) caller, &range))
                return;
        _cleanup_free_ Library *copy = malloc(sizeof(*copy));
        if (!copy)
                return;
        *copy = (Library){.range = range, .number = number, .valid = true};
        for (size_t i = 0; i < LIBRARIES_MAX; i++) {
                Library *known = NULL;
                if (atomic_compare_exchange_strong(&libraries[i], &known, copy)) {
                        copy = NULL;
                        return;
                }
                if (known->range.begin == range.begin && known->range.end == range.end && known->number == number) {
                        atomic_store(&known->valid, true);
                        return;
                }
        }
}

static uint64_t library_number(uintptr_t address) {
        for (size_t i = 0; i < LIBRARIES_MAX; i++) {
                Library *l = atomic_load_explicit(&libraries[i], memory_order_acquire);
                if (!l)
                        break;
                if (address >= l->range.begin && address < l->range.end && atomic_load(&l->valid))
                        return l->number;
        }
        return 0;
}

static void libraries_forget(void) {
        for (size_t i = 0; i < LIBRARIES_MAX; i++) {
                Library *l = atomic_load(&libraries[i]);
                if (!l)
                        break;
                atomic_store(&l->valid, false);
        }
}

static _noinline_ uint64_t place_found(uintptr_t address) {
        uint64_t number = library_number(address);

        place_remember(address, number);
        return number;
}

const KfdRuntime *kfd_runtime_known(const void *caller) {
        uint64_t number = place_number((uintptr_t) caller);

        if (unlikely(number == 0))
                number = place_found((uintptr_t) caller);

        return number > 0 ? atomic_load_explicit(&runtimes[number - 1], memory_order_acquire) : NULL;
}

_noinline_ const KfdRuntime *kfd_runtime(const void *caller, KfdRuntime *spare) {
        PROTECT_ERRNO;
        *spare = runtime_read(caller);
        uint64_t number = runtime_number(spare);

        if (number == 0)
                return spare;
        if (spare->hsa_signal_store_screlease) {
                place_remember((uintptr_t) caller, number);
                library_remember(caller, number);
        }
        return atomic_load(&runtimes[number - 1]);
}

/* --- unloading --- */

/* Forgets the call sites before, for libraries that will be loaded at those addresses, and again afterwards: the
 * library's destructors may have called from there. */
_public_
int dlclose(void *handle) {
        libraries_forget();
        places_forget();
        int r = next_dlclose() ? next_dlclose()(handle) : -1;
        libraries_forget();
        places_forget();
        return r;
}
