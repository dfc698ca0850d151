/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The application's arguments, for functions that intercept ioctl() and similar ones
 */

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/macro.h"

/* The pointer behind the last named argument of a variadic function. Without such an argument the value is undefined,
 * as in libc. */
#define ARGUMENT_BEHIND(last)                                                                                          \
        ({                                                                                                             \
                va_list _ap;                                                                                           \
                va_start(_ap, last);                                                                                   \
                void *_arg = va_arg(_ap, void *);                                                                      \
                va_end(_ap);                                                                                           \
                _arg;                                                                                                  \
        })

/* Copies memory that the kernel would read, or has written. Returns false when that memory is not mapped: then the
 * kernel answers EFAULT, and we do not crash. Keeps errno. Costs a system call. */
static inline bool arguments_read(void *to, const void *from, size_t size) {
        struct iovec local = {.iov_base = to, .iov_len = size};
        struct iovec remote = {.iov_base = (void *) (uintptr_t) from, .iov_len = size};
        PROTECT_ERRNO;

        ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        if (n == (ssize_t) size)
                return true;
        if (n >= 0 || errno == EFAULT)
                return false;
        memcpy(to, from, size); /* not allowed here (seccomp) */
        return true;
}

/* Writes memory that the kernel would write. Returns false when it is not writable. */
static inline bool arguments_write(void *to, const void *from, size_t size) {
        struct iovec local = {.iov_base = (void *) (uintptr_t) from, .iov_len = size};
        struct iovec remote = {.iov_base = to, .iov_len = size};
        PROTECT_ERRNO;

        ssize_t n = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
        if (n == (ssize_t) size)
                return true;
        if (n >= 0 || errno == EFAULT)
                return false;
        memcpy(to, from, size);
        return true;
}
