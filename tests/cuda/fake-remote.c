/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * /dev/nvidiactl of a server, for a program that it is preloaded to: see fake-remote.h
 */

#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/ioctl-arguments.h"
#include "fake-remote.h"

#define API __attribute__((visibility("default")))

#define NEXT(name) ((typeof(&name)) (uintptr_t) dlsym(RTLD_NEXT, #name))

static int connect_to_server(const char *suffix) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const char *path = getenv(FAKE_REMOTE_AT);

        if (!path)
                return -1;
        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s%s", path, suffix);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0) {
                (void) close(fd);
                return -1;
        }
        return fd;
}

/* 0: not one of ours. */
static uint64_t cookie_of(int fd) {
        struct sockaddr_un peer = {};
        socklen_t size = sizeof(peer);
        const char *path = getenv(FAKE_REMOTE_AT);
        uint64_t cookie = 0;

        if (!path || getpeername(fd, (struct sockaddr *) &peer, &size) < 0 || peer.sun_family != AF_UNIX ||
                        strcmp(peer.sun_path, path) != 0)
                return 0;
        size = sizeof(cookie);
        return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) < 0 ? 0 : cookie;
}

static int open_ours(void) {
        int fd = connect_to_server("");
        uint64_t cookie = fd < 0 ? 0 : cookie_of(fd);
        char reply;

        if (cookie != 0 && send(fd, &cookie, sizeof(cookie), MSG_NOSIGNAL) > 0 && recv(fd, &reply, 1, 0) == 1)
                return fd;
        if (fd >= 0)
                (void) close(fd);
        errno = ENOENT;
        return -1;
}

/* The sockets have this inode for whoever asks the kernel about a file without asking the file. */
#define INODE 815UL

/* The mount in what the kernel tells of an fd; -1: it does not tell. */
static int mount_of(int info) {
        char text[256] = "";

        const char *p = pread(info, text, sizeof(text) - 1, 0) > 0 ? strstr(text, "mnt_id:") : NULL;
        return p ? (int) strtol(p + strlen("mnt_id:"), NULL, 10) : -1;
}

/* The mount that all sockets are on. */
static int socket_mount(void) {
        static int mount = -2;
        char path[64];

        if (mount != -2)
                return mount;
        int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", s);
        int info = NEXT(open)(path, O_RDONLY | O_CLOEXEC);
        mount = mount_of(info);
        (void) close(info);
        (void) close(s);
        return mount;
}

/* What the kernel tells of an fd of a process, as a file. For a socket, what it tells of the device. */
static int disguise_fdinfo(int fd, const char *path) {
        char text[96];
        int pid, of;

        if (fd < 0 || sscanf(path, "/proc/%d/fdinfo/%d", &pid, &of) != 2 || mount_of(fd) != socket_mount())
                return fd;
        (void) snprintf(text, sizeof(text), "pos:\t0\nflags:\t02\nmnt_id:\t0\nino:\t%lu\n", INODE);
        int ours = memfd_create("fdinfo", MFD_CLOEXEC);
        if (ours < 0 || pwrite(ours, text, strlen(text), 0) < 0)
                return fd;
        (void) close(fd);
        return ours;
}

#define OPENS(name)                                                                                                    \
        API int name(const char *file, int oflag, ...) {                                                               \
                void *mode = ARGUMENT_BEHIND(oflag);                                                                   \
                                                                                                                       \
                if (strcmp(file, "/dev/nvidiactl") == 0)                                                               \
                        return open_ours();                                                                            \
                return disguise_fdinfo(NEXT(name)(file, oflag, (mode_t) (uintptr_t) mode), file);                      \
        }
OPENS(open)
OPENS(open64)

static int ask_server(FakeRemoteCall *c) {
        static int server = -1;
        static pid_t owner;

        if (owner != getpid()) {
                server = connect_to_server(FAKE_REMOTE_CALLS);
                owner = getpid();
        }
        if (send(server, c, sizeof(*c), MSG_NOSIGNAL) != (ssize_t) sizeof(*c) ||
                        recv(server, c, sizeof(*c), 0) != (ssize_t) sizeof(*c))
                return -EIO;
        return c->result;
}

static size_t data_size(uint32_t nr, const void *argument) {
        const NvrmAllocShort *a = argument;

        if (nr == NVRM_NR_CONTROL)
                return ((const NvrmControl *) argument)->parameters_size;
        return nr != NVRM_NR_ALLOC                             ? 0
                        : a->class == NVRM_CLASS_DEVICE        ? sizeof(uint32_t)
                        : a->class == NVRM_CLASS_CHANNEL_GROUP ? sizeof(NvrmGroupParameters)
                                                               : 0;
}

static int call(uint64_t cookie, uint32_t nr, size_t size, void *argument) {
        FakeRemoteCall c = {.cookie = cookie, .nr = nr, .size = (uint32_t) size};

        if (size > sizeof(c.argument))
                return -EINVAL;
        memcpy(c.argument, argument, size);
        uint64_t *parameters = fake_remote_parameters(nr, argument);
        uint64_t at = parameters ? *parameters : 0;
        c.data_size = at != 0 ? (uint32_t) data_size(nr, argument) : 0;
        if (c.data_size > sizeof(c.data))
                return -EINVAL;
        if (c.data_size > 0)
                memcpy(c.data, (const void *) (uintptr_t) at, c.data_size);
        int r = ask_server(&c);
        memcpy(argument, c.argument, size);
        if (parameters)
                *parameters = at;
        if (c.data_size > 0)
                memcpy((void *) (uintptr_t) at, c.data, c.data_size);
        return r;
}

API int ioctl(int fd, unsigned long request, ...) {
        void *arg = ARGUMENT_BEHIND(request);
        uint64_t cookie = _IOC_TYPE(request) == NVRM_IOCTL_TYPE ? cookie_of(fd) : 0;

        if (cookie == 0)
                return NEXT(ioctl)(fd, request, arg);
        int r = call(cookie, _IOC_NR(request), _IOC_SIZE(request), arg);
        if (r >= 0)
                return 0;
        errno = -r;
        return -1;
}

/* As the driver's device. */
static int disguise(int fd, struct stat *st) {
        if (!S_ISSOCK(st->st_mode) || cookie_of(fd) == 0)
                return 0;
        st->st_mode = S_IFCHR | 0666;
        st->st_rdev = makedev(195, 255);
        return 0;
}

API int fstat(int fd, struct stat *buf) {
        int r = NEXT(fstat)(fd, buf);
        return r < 0 ? r : disguise(fd, buf);
}

int __fxstat64(int version, int fd, struct stat64 *ret);
API int __fxstat64(int version, int fd, struct stat64 *ret) {
        int r = NEXT(__fxstat64)(version, fd, ret);
        return r < 0 ? r : disguise(fd, (struct stat *) ret);
}

int __xstat64(int version, const char *path, struct stat64 *ret);
API int __xstat64(int version, const char *path, struct stat64 *ret) {
        if (strcmp(path, "/dev/nvidiactl") != 0)
                return NEXT(__xstat64)(version, path, ret);
        *ret = (struct stat64){.st_ino = INODE, .st_mode = S_IFCHR | 0666};
        return 0;
}

API int stat(const char *file, struct stat *buf) {
        if (strcmp(file, "/dev/nvidiactl") != 0)
                return NEXT(stat)(file, buf);
        *buf = (struct stat){.st_ino = INODE, .st_mode = S_IFCHR | 0666};
        return 0;
}

/* For programs that play a tenant. */
API int fake_remote_runs(uint32_t client, uint32_t channel);
API int fake_remote_runs(uint32_t client, uint32_t channel) {
        FakeRemoteCall c = {.nr = FAKE_REMOTE_RUNS};
        const FakeRemoteRuns runs = {client, channel};

        memcpy(c.argument, &runs, sizeof(runs));
        return ask_server(&c);
}
