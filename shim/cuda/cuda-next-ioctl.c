/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finding the ioctl() behind ours
 */

#include "shim/cuda/cuda-next-ioctl.h"

#include <dlfcn.h>
#include <sys/syscall.h>

#include "common/ioctl-arguments.h"
#include "shim/cuda/cuda-next.h"

_Atomic(CudaIoctl) cuda_ioctl_found;

static int raw_ioctl(int fd, unsigned long request, ...) {
        return (int) syscall(SYS_ioctl, fd, request, ARGUMENT_BEHIND(request));
}

CudaIoctl cuda_find_ioctl(void) {
        PROTECT_ERRNO;

        CudaDlsym lookup = cuda_real_dlsym();
        CudaIoctl f = lookup ? (CudaIoctl) (uintptr_t) lookup(RTLD_NEXT, "ioctl") : NULL;
        f = f ?: raw_ioctl;
        atomic_store_explicit(&cuda_ioctl_found, f, memory_order_release);
        return f;
}

/* The first call may be in a signal handler, where dlsym() must not be called. */
__attribute__((constructor)) static void resolve(void) {
        (void) cuda_next_ioctl_function();
}

int cuda_next_ioctl(int fd, unsigned long request, ...) {
        return cuda_next_ioctl_function()(fd, request, ARGUMENT_BEHIND(request));
}
