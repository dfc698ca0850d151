/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For programs that are linked with parts of the layer, and not with its dlsym(): libc's
 */

#include <dlfcn.h>

#include "shim/cuda/cuda-next.h"

CudaDlsym cuda_real_dlsym(void) {
        return dlsym;
}
