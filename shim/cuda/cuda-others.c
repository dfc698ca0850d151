/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Others in front of libcuda: see common/cuda-others.h
 */

#include <link.h>

#include "common/cuda-others.h"
#include "common/macro.h"
#include "cuda-others.h"
#include "shim/cuda/cuda-queue.h"

static int look(struct dl_phdr_info *info, size_t size, void *userdata) {
        const char *path = strempty(info->dlpi_name), *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

        for (size_t i = 0; i < ELEMENTSOF(cuda_others); i++)
                if (startswith(name, cuda_others[i].library))
                        return 1;
        return 0;
}

bool cuda_others_are_there(void) {
        return dl_iterate_phdr(look, NULL) > 0;
}
