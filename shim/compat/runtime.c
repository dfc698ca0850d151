/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds loaded runtimes, and names their devices
 */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "shim/compat/compat.h"
#include "shim/compat/runtime.h"

void *runtime_library(const char *const names[], size_t n) {
        void *library = NULL;

        for (size_t i = 0; i < n && !library; i++)
                library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        return library;
}

bool runtime_functions(void *library, const RuntimeFunction functions[], size_t n) {
        bool found = true;

        for (size_t i = 0; i < n; i++) {
                void *address = dlsym(library ?: RTLD_DEFAULT, functions[i].name);
                memcpy(functions[i].ret, &address, sizeof(address));
                found = found && address;
        }
        return found;
}

bool runtime_device_id(const char *pci, char *ret) {
        unsigned domain, bus, slot, function = 0;

        if (sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
                return false;
        (void) snprintf(ret, COMPAT_NAME_MAX, "pci:%04x:%02x:%02x.%x", domain, bus, slot, function);
        return true;
}
