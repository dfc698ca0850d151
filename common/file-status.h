/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * stat() and fstat(), for libraries that are loaded into other people's processes
 *
 * glibc before 2.33 has no functions of these names: its header made them of two others, which every glibc still has.
 */

#include <sys/stat.h>

#include "old-glibc.h"

#ifdef OLD_GLIBC_STAT
int __xstat64(int version, const char *path, struct stat *ret);
int __fxstat64(int version, int fd, struct stat *ret);
OLD_GLIBC("__xstat64", OLD_GLIBC_FIRST);
OLD_GLIBC("__fxstat64", OLD_GLIBC_FIRST);
#endif

/* Returns 0, or -1 with errno. */
static inline int file_status(const char *path, struct stat *ret) {
#ifdef OLD_GLIBC_STAT
        return __xstat64(OLD_GLIBC_STAT, path, ret);
#else
        return stat(path, ret);
#endif
}

static inline int fd_status(int fd, struct stat *ret) {
#ifdef OLD_GLIBC_STAT
        return __fxstat64(OLD_GLIBC_STAT, fd, ret);
#else
        return fstat(fd, ret);
#endif
}
