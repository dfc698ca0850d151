/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A function of a libc that is not glibc: see cuda-libc.h
 *
 * The table of hashes (DT_GNU_HASH): a filter, then one chain of symbols for each bucket. The last hash of a chain has
 * its lowest bit set.
 */

#include <link.h>

#include "common/macro.h"
#include "shim/cuda/cuda-libc.h"

typedef struct Search {
        const char *library, *name;
        void *found;
} Search;

static uint32_t hash_of(const char *s) {
        uint32_t h = 5381;

        for (; *s; s++)
                h = h * 33 + (unsigned char) *s;
        return h;
}

static const ElfW(Sym) *
                find_symbol(const uint32_t *table, const ElfW(Sym) * symbols, const char *strings, const char *name) {
        uint32_t n_buckets = table[0], first = table[1], n_filter = table[2], hash = hash_of(name);
        const uint32_t *buckets = (const uint32_t *) ((const ElfW(Addr) *) (table + 4) + n_filter),
                       *chains = buckets + n_buckets;

        if (n_buckets == 0 || buckets[hash % n_buckets] < first)
                return NULL;
        for (uint32_t i = buckets[hash % n_buckets];; i++) {
                if ((chains[i - first] | 1) == (hash | 1) && streq(strings + symbols[i].st_name, name) &&
                                symbols[i].st_shndx != SHN_UNDEF)
                        return symbols + i;
                if (chains[i - first] & 1)
                        return NULL;
        }
}

static int look_into(struct dl_phdr_info *info, size_t size, void *userdata) {
        Search *s = userdata;
        const char *slash = strrchr(strempty(info->dlpi_name), '/'),
                   *file = slash ? slash + 1 : strempty(info->dlpi_name);
        const ElfW(Dyn) *dynamic = NULL;
        const void *hashes = NULL, *symbols = NULL, *strings = NULL;

        for (unsigned i = 0; i < info->dlpi_phnum; i++)
                if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
                        dynamic = (const ElfW(Dyn) *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        if (!startswith(file, s->library) || !dynamic)
                return 0;
        /* musl leaves the addresses as they are in the file. */
        for (; dynamic->d_tag != DT_NULL; dynamic++)
                if (dynamic->d_tag == DT_GNU_HASH)
                        hashes = (const void *) (info->dlpi_addr + dynamic->d_un.d_ptr);
                else if (dynamic->d_tag == DT_SYMTAB)
                        symbols = (const void *) (info->dlpi_addr + dynamic->d_un.d_ptr);
                else if (dynamic->d_tag == DT_STRTAB)
                        strings = (const void *) (info->dlpi_addr + dynamic->d_un.d_ptr);
        const ElfW(Sym) *found = hashes && symbols && strings ? find_symbol(hashes, symbols, strings, s->name) : NULL;
        if (found)
                s->found = (void *) (info->dlpi_addr + found->st_value);
        return found != NULL;
}

void *cuda_libc_function(const char *library, const char *name) {
        Search s = {.library = library, .name = name};

        (void) dl_iterate_phdr(look_into, &s);
        return s.found;
}
