/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Libraries of drivers, loaded when they are wanted: nothing of them is needed to build, and a host need not have them
 */

#include <stddef.h>

/* A function's name, and where its address goes in the caller's struct. */
typedef struct LibrarySymbol {
        const char *name;
        size_t offset;
} LibrarySymbol;

/* Loads the first of the names that there is (NULL ends them), for good, and stores the addresses of all symbols in
 * *ret. *ret_name (may be NULL) is the name. -ENOENT: there is none; -ELIBBAD: it lacks a symbol. */
int library_open(const char *const *sonames, const LibrarySymbol *symbols, size_t n_symbols, void *ret,
                const char **ret_name);
