/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Others in front of libcuda: see common/cuda-others.h
 */

#include <dlfcn.h>
#include <link.h>

#include "common/cuda-others.h"
#include "common/macro.h"
#include "common/object-range.h"
#include "cuda-others.h"
#include "shim/cuda/cuda-queue.h"

static bool is_other(const struct dl_phdr_info *info) {
        const char *path = strempty(info->dlpi_name), *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

        for (size_t i = 0; i < ELEMENTSOF(cuda_others); i++)
                if (startswith(name, cuda_others[i].library))
                        return true;
        return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *userdata) {
        return is_other(info);
}

bool cuda_others_are_there(void) {
        return dl_iterate_phdr(look, NULL) > 0;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *userdata) {
        ObjectRange r = *(const ObjectRange *) userdata;

        return is_other(info) && object_range_look(info, size, &r) > 0;
}

void *cuda_others_function(void *(*lookup)(void *handle, const char *name), const char *name) {
        void *f = lookup(RTLD_NEXT, name);
        ObjectRange at = {.begin = (uintptr_t) f};

        return f && dl_iterate_phdr(look_at, &at) > 0 ? f : NULL;
}
