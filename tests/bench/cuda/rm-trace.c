/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A library to be preloaded behind the layer, which records the calls of a process to NVIDIA's kernel driver about
 * objects
 *
 * One line a call into the file that RM_TRACE names: nanoseconds it took, what it was, client, parent or what else is
 * named, object, class or command, size of the parameters, status. Controls are written down once for each object and
 * command in a row.
 */

#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "hal/nvrm-abi.h"

static uint64_t now(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

static void put(uint64_t ns, const char *what, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t size,
                uint32_t status) {
        static int fd = -2;
        char line[160];

        if (fd == -2) {
                const char *path = getenv("RM_TRACE");
                fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
        }
        int n = snprintf(line, sizeof(line), "%lu %s %x %x %x %x %u %x\n", ns, what, a, b, c, d, size, status);
        if (fd >= 0)
                (void) !write(fd, line, (size_t) n);
}

static void look(unsigned nr, size_t size, const void *p, uint64_t ns) {
        const NvrmAllocShort *s = p;
        const NvrmAlloc *l = p;
        const NvrmFree *f = p;
        const NvrmControl *c = p;
        const NvrmDup *d = p;
        static uint32_t last[2];

        if (nr == NVRM_NR_ALLOC && size == sizeof(*s))
                put(ns, "alloc21", s->client, s->parent, s->object, s->class, s->parameters_size, s->status);
        else if (nr == NVRM_NR_ALLOC && size == sizeof(*l))
                put(ns, "alloc64", l->client, l->parent, l->object, l->class, l->parameters_size, l->status);
        else if (nr == NVRM_NR_FREE && size == sizeof(*f))
                put(ns, "free", f->client, f->parent, f->object, 0, 0, f->status);
        else if (nr == NVRM_NR_DUP && size == sizeof(*d))
                put(ns, "dup", d->client, d->parent, d->object, d->from_object, 0, d->status);
        else if (nr == NVRM_NR_CONTROL && size == sizeof(*c)) {
                if (c->object == last[0] && c->command == last[1])
                        return;
                last[0] = c->object;
                last[1] = c->command;
                put(ns, "control", c->client, 0, c->object, c->command, c->parameters_size, c->status);
        } else
                put(ns, "other", nr, 0, 0, 0, (uint32_t) size, 0);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
        static int (*next)(int fd, unsigned long request, ...);
        va_list ap;

        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);
        if (!next)
                next = (int (*)(int, unsigned long, ...))(uintptr_t) dlsym(RTLD_NEXT, "ioctl");
        if (_IOC_TYPE(request) != NVRM_IOCTL_TYPE)
                return next(fd, request, arg);
        uint64_t start = now();
        int r = next(fd, request, arg);
        if (r >= 0)
                look(_IOC_NR(request), _IOC_SIZE(request), arg, now() - start);
        return r;
}
