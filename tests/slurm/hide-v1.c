/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * For slurmd on a hybrid host: /proc/self/cgroup, and /proc/1/cgroup, without the lines of the old controllers
 *
 * A system that is booted in a container of such a host has the unified hierarchy alone, but the kernel lists the
 * host's others as well, and slurmd refuses to run ("Hybrid mode is not supported").
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int open_t(const char *path, int flags, ...);

static int without_v1(open_t *next, const char *file) {
        char text[16384];

        int from = next(file, O_RDONLY | O_CLOEXEC);
        if (from < 0)
                return from;
        ssize_t n = read(from, text, sizeof(text) - 1);
        (void) close(from);
        text[n < 0 ? 0 : n] = '\0';
        const char *unified = strstr(text, "0::");
        int fd = memfd_create("cgroup", MFD_CLOEXEC);
        if (fd < 0 || !unified || write(fd, unified, strlen(unified)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
                return -1;
        return fd;
}

__attribute__((visibility("default"))) int open(const char *file, int oflag, ...) {
        open_t *next = (open_t *) dlsym(RTLD_NEXT, "open");
        va_list ap;

        if (strcmp(file, "/proc/self/cgroup") == 0 || strcmp(file, "/proc/1/cgroup") == 0)
                return without_v1(next, file);
        va_start(ap, oflag);
        mode_t mode = va_arg(ap, mode_t);
        va_end(ap);
        return next(file, oflag, mode);
}
