/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * load-local MODULE [ARGUMENT...]: calls test_main() of a module that is loaded privately, as Python loads its
 * extensions; with HSA_DEEPBIND in the environment, as Julia does: what it is linked to comes before what is preloaded;
 * with HSA_NAMESPACE by dlmopen(): it has a libc of its own, and nothing that is preloaded
 */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *load(const char *module) {
        if (getenv("HSA_NAMESPACE"))
                return dlmopen(LM_ID_NEWLM, module, RTLD_NOW | RTLD_LOCAL);
        return dlopen(module, RTLD_NOW | RTLD_LOCAL | (getenv("HSA_DEEPBIND") ? RTLD_DEEPBIND : 0));
}

int main(int argc, char *argv[]) {
        void *handle = argc > 1 ? load(argv[1]) : NULL;
        void *f = handle ? dlsym(handle, "test_main") : NULL;

        if (!f) {
                (void) fprintf(stderr, "load-local: %s\n", dlerror());
                return 1;
        }
        return ((int (*)(int, char **))(uintptr_t) f)(argc, argv);
}
