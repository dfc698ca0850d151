/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Libraries of drivers
 */

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "hal/library.h"

int library_open(const char *const *sonames, const LibrarySymbol *symbols, size_t n_symbols, void *ret,
                const char **ret_name) {
        void *handle = dlopen(*sonames, RTLD_NOW | RTLD_LOCAL);

        while (!handle && *++sonames)
                handle = dlopen(*sonames, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
                return -ENOENT;
        for (size_t i = 0; i < n_symbols; i++)
                if (!dlsym(handle, symbols[i].name))
                        return -ELIBBAD;
        for (size_t i = 0; i < n_symbols; i++) {
                void *symbol = dlsym(handle, symbols[i].name);
                memcpy((char *) ret + symbols[i].offset, &symbol, sizeof(symbol));
        }
        if (ret_name)
                *ret_name = *sonames;
        return 0;
}

const char *library_problem(int error) {
        switch (error) {
        case -ENOENT:
                return "not found";
        case -ELIBBAD:
                return "of another kind than known";
        case -ENODEV:
                return "does not know this device";
        default:
                return "failed";
        }
}
