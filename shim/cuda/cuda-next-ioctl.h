/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The ioctl() behind ours: that of the next library, in the end libc's
 */

#include <stdatomic.h>

#include "common/macro.h"

typedef int (*CudaIoctl)(int fd, unsigned long request, ...);

/* NULL until it is looked up. */
extern _hidden_ _Atomic(CudaIoctl) cuda_ioctl_found;
CudaIoctl cuda_find_ioctl(void);

static inline CudaIoctl cuda_next_ioctl_function(void) {
        CudaIoctl f = atomic_load_explicit(&cuda_ioctl_found, memory_order_acquire);

        return likely(f) ? f : cuda_find_ioctl();
}

/* Calls it. */
int cuda_next_ioctl(int fd, unsigned long request, ...);
