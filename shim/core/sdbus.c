/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libsystemd's bus, loaded when it is first needed: see sdbus.h
 */

#include <dlfcn.h>

#include "common/macro.h"
#include "shim/core/sdbus.h"

SdBus sdbus;

int sdbus_load(void) {
        static const struct {
                const char *name;
                size_t offset;
        } functions[] = {
#define X(f) {#f, offsetof(SdBus, f)},
                        SDBUS_FUNCTIONS(X)
#undef X
        };

        /* Never closed: its code may be running whenever the process ends. */
        void *handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!handle)
                return -ENOENT;

        for (size_t i = 0; i < ELEMENTSOF(functions); i++) {
                void *f = dlsym(handle, functions[i].name);
                if (!f)
                        return -ELIBBAD;
                memcpy((uint8_t *) &sdbus + functions[i].offset, &f, sizeof(f));
        }
        return 0;
}
