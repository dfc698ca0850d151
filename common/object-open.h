/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A loaded library by the begin of its name, whatever its version, its directory, or who has loaded it
 */

#include <dlfcn.h>
#include <link.h>

#include "common/macro.h"

typedef struct ObjectOpen {
        const char *prefix;
        char *path;
} ObjectOpen;

static inline int object_open_look(struct dl_phdr_info *info, size_t size, void *userdata) {
        ObjectOpen *o = userdata;
        const char *name = strempty(info->dlpi_name), *slash = strrchr(name, '/');

        if (!startswith(slash ? slash + 1 : name, o->prefix))
                return 0;
        o->path = strdup(name);
        return 1;
}

/* Returns a handle of the first loaded library whose name begins so, as of dlopen(); NULL: there is none. The library
 * stays loaded for as long as the handle exists. */
static inline void *object_open(const char *prefix) {
        ObjectOpen o = {.prefix = prefix};

        (void) dl_iterate_phdr(object_open_look, &o);
        void *handle = o.path ? dlopen(o.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        free(o.path);
        return handle;
}
