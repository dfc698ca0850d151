/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * /dev/nvidiactl in a process of its own: a library to be preloaded behind the layer
 *
 * The resource manager is fake-rm.c's. What FAKE_NVIDIACTL says, words between commas: version=TEXT; cost=USEC of each
 * call that stops or lets go; strict.
 */

#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/ioctl-arguments.h"
#include "fake-rm.h"
#include "hal/nvrm-abi.h"

#define API   __attribute__((visibility("default")))
#define FILES 1024

static _Atomic int files[FILES]; /* 0: not ours */
static _Atomic unsigned strays;

#define NEXT(name) ((typeof(&name)) (uintptr_t) dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void configure(void) {
        char words[128], *rest = words;

        (void) snprintf(words, sizeof(words), "%s", getenv("FAKE_NVIDIACTL") ? getenv("FAKE_NVIDIACTL") : "");
        for (const char *w; (w = strsep(&rest, ","));)
                if (strncmp(w, "version=", 8) == 0)
                        fake_rm_set_version(w + 8);
                else if (strncmp(w, "cost=", 5) == 0)
                        fake_rm_set_cost(strtoull(w + 5, NULL, 10) * 1000);
                else if (strcmp(w, "strict") == 0)
                        fake_rm_be_strict();
}

static int open_ours(void) {
        /* A device of its own, that no other process has open. */
        int fd = NEXT(open)("/dev/full", O_RDWR | O_CLOEXEC);

        if (fd < 0 || fd >= FILES)
                return -1;
        files[fd] = fake_rm_open();
        return fd;
}

/* The names of parameters are those of the C library's header. */
#define OPENS(name)                                                                                                    \
        API int name(const char *file, int oflag, ...) {                                                               \
                void *mode = ARGUMENT_BEHIND(oflag);                                                                   \
                                                                                                                       \
                if (strcmp(file, "/dev/nvidiactl") == 0)                                                               \
                        return open_ours();                                                                            \
                return NEXT(name)(file, oflag, (mode_t) (uintptr_t) mode);                                             \
        }
OPENS(open)
OPENS(open64)

API int close(int fd) {
        int file = fd >= 0 && fd < FILES ? atomic_exchange(&files[fd], 0) : 0;

        for (unsigned i = 0; file > 0 && i < FILES; i++)
                if (files[i] == file)
                        file = 0; /* there is another number for it */
        if (file > 0)
                fake_rm_close(file);
        return NEXT(close)(fd);
}

API int dup(int fd) {
        int other = NEXT(dup)(fd);

        if (other >= 0 && other < FILES && fd < FILES)
                files[other] = files[fd];
        return other;
}

unsigned fake_nvidiactl_strays(void) {
        return strays;
}

API int ioctl(int fd, unsigned long request, ...) {
        void *arg = ARGUMENT_BEHIND(request);
        int file = fd >= 0 && fd < FILES ? files[fd] : 0;

        strays += file == 0 && fd >= 0 && _IOC_TYPE(request) == NVRM_IOCTL_TYPE;
        if (file == 0)
                return NEXT(ioctl)(fd, request, arg);
        int r = _IOC_TYPE(request) == NVRM_IOCTL_TYPE ? fake_rm_call(file, _IOC_NR(request), _IOC_SIZE(request), arg)
                                                      : -ENOTTY;
        if (r >= 0)
                return 0;
        errno = -r;
        return -1;
}
