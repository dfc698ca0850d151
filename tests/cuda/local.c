/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A library that is linked with libcuda, and looks functions up by RTLD_DEFAULT. Opened with RTLD_LOCAL, as Python's
 * extensions are, it finds libcuda where nobody else does
 */

#include <dlfcn.h>
#include <stdlib.h>

#include "fake-cuda.h"

#define API __attribute__((visibility("default")))

API void *local_find(const char *name);
API const char *local_error(void);
API int local_init(void);
API int local_wait(void);

/* dlsym() finds out by the address to return to who has called it: so that is to be here. */
API void *local_find(const char *name) {
        void *volatile f = dlsym(RTLD_DEFAULT, name);

        return f;
}

API const char *local_error(void) {
        return dlerror();
}

/* Needs libcuda, so that the linker keeps it. */
API int local_init(void) {
        return cuInit(0);
}

API int local_wait(void) {
        return cuCtxSynchronize();
}
