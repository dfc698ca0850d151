/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Libraries of drivers, loaded at run time: neither the build nor the host has to have them
 */

#include <stddef.h>

/* A function's name, and the offset of its pointer in the caller's struct. */
typedef struct LibrarySymbol {
        const char *name;
        size_t offset;
} LibrarySymbol;

/* Loads the first library of `sonames` (ended by NULL) that exists, for the life of the process, and stores the
 * addresses of all symbols in *ret. *ret_name (may be NULL) is set to its name. Returns 0; -ENOENT: no library exists;
 * -ELIBBAD: it lacks a symbol. */
int library_open(const char *const *sonames, const LibrarySymbol *symbols, size_t n_symbols, void *ret,
                const char **ret_name);

/* Returns words for an error of library_open(), or of a question to the library about a device. Never NULL. */
const char *library_problem(int error);
