/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the fds of /dev/kfd and the calls on them about queues, between a program and libc
 *
 * A context is what one open() of /dev/kfd made; dup() and similar calls make further fds of the same context. The
 * context of an fd is one byte (kfd-fds.h), so that close() and dup() of other fds cost one load. A context keeps an fd
 * of its own from its first queue on, because the application may close the number that we have seen and continue by
 * another. When the application's last fd is closed, the context ends: its queues are released and forgotten, and our
 * fd is closed first, so that nothing lives longer than without us.
 *
 * An fd may also come by a way that we do not see: received over a socket, taken out of a process, opened by creat(),
 * fopen(), openat2() or a system call of the program's own, or by another name of the device. It is found with its
 * first call about a queue, and joins the context of its file, if there is one.
 *
 * Next definitions are looked up once, with RTLD_NEXT: libc is always in the global scope, and so is any library in
 * front of it. From then on nothing here allocates or locks, except for fds and ioctls of KFD.
 */

/* Both names of each call are defined below, so neither may be an alias of the other, nor inline. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "common/client-environment.h"
#include "common/ioctl-arguments.h"
#include "common/macro.h"
#include "common/thread-util.h"
#include "kfd-hsa.h"
#include "kfd-libc.h"
#include "kfd-poll.h"
#include "shim/kfd/kfd-doorbell.h"
#include "shim/kfd/kfd-drm.h"
#include "shim/kfd/kfd-fault.h"
#include "shim/kfd/kfd-fds.h"
#include "shim/kfd/kfd-queue.h"
#include "shim/late/late.h"

#define CONTEXTS_MAX 254U
#define CONTEXT_OWN  UINT8_MAX /* of an fd: one that a context keeps */

typedef struct Context {
        unsigned n_fds;
        int own; /* 0: none */
} Context;

static Context contexts[CONTEXTS_MAX + 1]; /* from 1; under kfd_lock() */
static _Atomic pid_t contexts_pid;

/* --- what is next --- */

typedef void (*Function)(void);

/* The mode that open() was called with. The flags say whether there is one. */
#define MODE(flags)                                                                                                    \
        ({                                                                                                             \
                mode_t _mode = 0;                                                                                      \
                if ((flags) &O_CREAT || ((flags) &O_TMPFILE) == O_TMPFILE) {                                           \
                        va_list _ap;                                                                                   \
                        va_start(_ap, flags);                                                                          \
                        _mode = va_arg(_ap, mode_t);                                                                   \
                        va_end(_ap);                                                                                   \
                }                                                                                                      \
                _mode;                                                                                                 \
        })

/* A libc before 2.34 has dlsym() in a library of its own. A program without that one has no runtime either, and next to
 * always no threads: its calls are the kernel's, as are those that the libc has under another name (stat). */
#pragma weak dlsym

static int raw_openat(int at, const char *path, int flags, ...) {
        return (int) syscall(SYS_openat, at, path, flags, MODE(flags));
}

static int raw_open(const char *path, int flags, ...) {
        return raw_openat(AT_FDCWD, path, flags, MODE(flags));
}

static int raw_open_2(const char *path, int flags) {
        return raw_openat(AT_FDCWD, path, flags, 0);
}

static int raw_openat_2(int at, const char *path, int flags) {
        return raw_openat(at, path, flags, 0);
}

static int raw_close(int fd) {
        return (int) syscall(SYS_close, fd);
}

static int raw_dup(int fd) {
        return (int) syscall(SYS_dup, fd);
}

static int raw_dup3(int from, int to, int flags) {
        return (int) syscall(SYS_dup3, from, to, flags);
}

/* dup3() refuses what dup2() takes: the same number twice. */
static int raw_dup2(int from, int to) {
        return from != to ? raw_dup3(from, to, 0) : syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
}

static int raw_fcntl(int fd, int command, ...) {
        return (int) syscall(SYS_fcntl, fd, command, ARGUMENT_BEHIND(command));
}

static int raw_ioctl(int fd, unsigned long request, ...) {
        return (int) syscall(SYS_ioctl, fd, request, ARGUMENT_BEHIND(request));
}

/* On 64-bit machines libc's structure is the kernel's. */
static int raw_stat(const char *path, struct stat *ret) {
        return (int) syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

static int raw_fstat(int fd, struct stat *ret) {
        return (int) syscall(SYS_fstat, fd, ret);
}

static Function next_function(_Atomic(Function) *cell, const char *name, Function raw) {
        Function f = atomic_load_explicit(cell, memory_order_acquire);

        if (unlikely(!f)) {
                PROTECT_ERRNO;
                f = dlsym ? (Function) (uintptr_t) dlsym(RTLD_NEXT, name) : NULL;
                f = f ?: raw;
                atomic_store_explicit(cell, f, memory_order_release);
        }
        return f;
}

/* A libc without the call has no caller of it either; but our own calls go to the kernel then. */
#define NEXT(name, raw, ret, type)                                                                                     \
        static ret(*next_##name(void)) type {                                                                          \
                static _Atomic(Function) cell;                                                                         \
                return (ret(*) type) next_function(&cell, #name, (Function) (raw));                                    \
        }

NEXT(open, raw_open, int, (const char *, int, ...))
NEXT(open64, raw_open, int, (const char *, int, ...))
NEXT(openat, raw_openat, int, (int, const char *, int, ...))
NEXT(openat64, raw_openat, int, (int, const char *, int, ...))
NEXT(__open_2, raw_open_2, int, (const char *, int) )
NEXT(__open64_2, raw_open_2, int, (const char *, int) )
NEXT(__openat_2, raw_openat_2, int, (int, const char *, int) )
NEXT(__openat64_2, raw_openat_2, int, (int, const char *, int) )
NEXT(close, raw_close, int, (int) )
NEXT(close_range, NULL, int, (unsigned, unsigned, int) )
NEXT(closefrom, NULL, void, (int) )
NEXT(dup, raw_dup, int, (int) )
NEXT(dup2, raw_dup2, int, (int, int) )
NEXT(dup3, raw_dup3, int, (int, int, int) )
NEXT(fcntl, raw_fcntl, int, (int, int, ...))
NEXT(fcntl64, raw_fcntl, int, (int, int, ...))
NEXT(ioctl, raw_ioctl, int, (int, unsigned long, ...))
NEXT(stat, raw_stat, int, (const char *, struct stat *) )
NEXT(fstat, raw_fstat, int, (int, struct stat *) )

/* Look these up when the library is loaded: the first call may come in a signal handler, where dlsym() is not safe. */
__attribute__((constructor)) static void resolve_all(void) {
        (void) next_open();
        (void) next_open64();
        (void) next_openat();
        (void) next_openat64();
        (void) next___open_2();
        (void) next___open64_2();
        (void) next___openat_2();
        (void) next___openat64_2();
        (void) next_close();
        (void) next_close_range();
        (void) next_closefrom();
        (void) next_dup();
        (void) next_dup2();
        (void) next_dup3();
        (void) next_fcntl();
        (void) next_fcntl64();
        (void) next_ioctl();
}

int kfd_next_ioctl(int fd, unsigned long request, void *arg) {
        return next_ioctl()(fd, request, arg);
}

/* --- contexts --- */

static void contexts_in_child(void) {
        PROTECT_ERRNO;

        for (size_t i = 1; i < ELEMENTSOF(contexts); i++)
                if (contexts[i].own > 0)
                        (void) next_close()(contexts[i].own);
        memset(contexts, 0, sizeof(contexts));
        for (int fd = -1; (fd = kfd_fd_next((unsigned) fd + 1)) >= 0;)
                (void) kfd_fd_set(fd, 0);
        kfd_queues_after_fork();
        kfd_poll_after_fork();
        kfd_doorbells_after_fork();
        kfd_hsa_after_fork();
        kfd_drm_after_fork();
        kfd_fault_after_fork();
        atomic_store(&contexts_pid, getpid());
}

/* Whether this is the process that the records belong to, and not a child of vfork() on the same memory. */
static bool is_owner(void) {
        return atomic_load(&contexts_pid) == getpid();
}

static bool is_enabled(void) {
        return !environment_is_true(secure_getenv("XSCHED_DISABLE"));
}

static void context_add(unsigned context, int fd) {
        if (fd >= 0 && kfd_fd_set(fd, (uint8_t) context))
                contexts[context].n_fds++;
}

/* Called before the number is free, because another thread may get it at once. */
static void fd_forget(int fd) {
        unsigned context = kfd_fd_context(fd);

        if (likely(context == 0) || !is_owner())
                return;
        PROTECT_ERRNO;
        _cleanup_(kfd_unlockp)
        bool locked = kfd_lock();
        if (!locked)
                return;
        (void) kfd_fd_set(fd, 0);
        for (size_t i = 1; context == CONTEXT_OWN && i < ELEMENTSOF(contexts); i++)
                if (contexts[i].own == fd)
                        contexts[i].own = 0; /* the application closes whatever is open */
        if (context == CONTEXT_OWN || --contexts[context].n_fds > 0)
                return;

        kfd_context_end(context);
        if (contexts[context].own > 0) {
                (void) kfd_fd_set(contexts[context].own, 0);
                (void) next_close()(contexts[context].own);
        }
        contexts[context].own = 0;
}

static void fd_copy(int from, int to) {
        unsigned context = kfd_fd_context(from);

        if (likely(context == 0) || context == CONTEXT_OWN || to < 0 || to == from || !is_owner())
                return;
        PROTECT_ERRNO;
        _cleanup_(kfd_unlockp)
        bool locked = kfd_lock();
        if (locked)
                context_add(context, to);
}

static void contexts_start(void) {
        pid_t known = 0;

        (void) late_load(); /* not under our lock */
        if (atomic_compare_exchange_strong(&contexts_pid, &known, getpid()))
                (void) thread_atfork(NULL, NULL, contexts_in_child);
        else if (known != getpid())
                contexts_in_child(); /* of a bare clone(), which runs no handlers */
}

bool kfd_start(void) {
        PROTECT_ERRNO;

        if (!is_enabled())
                return false;
        contexts_start();
        return is_owner();
}

/* A file of its own. */
static void context_new(int fd) {
        for (unsigned i = 1; i < ELEMENTSOF(contexts); i++)
                if (contexts[i].n_fds == 0) {
                        context_add(i, fd);
                        return;
                }
}

static _noinline_ void device_opened(int fd) {
        PROTECT_ERRNO;

        if (fd < 0 || !is_enabled())
                return;
        contexts_start();
        _cleanup_(kfd_unlockp)
        bool locked = kfd_lock();
        if (locked)
                context_new(fd);
}

static int any_fd(unsigned context) {
        int fd = -1;

        do
                fd = kfd_fd_next((unsigned) fd + 1);
        while (fd >= 0 && kfd_fd_context(fd) != context);
        return fd >= 0 ? fd : -EBADF;
}

/* By its name, or by another name of the same device. */
static bool is_device_fd(int fd) {
        char link[sizeof("/proc/self/fd/2147483647")], target[sizeof(KFD_DEVICE_PATH)];
        struct stat ours, device;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof(target));
        if (n == sizeof(KFD_DEVICE_PATH) - 1 && memcmp(target, KFD_DEVICE_PATH, (size_t) n) == 0)
                return true;
        return next_fstat()(fd, &ours) == 0 && S_ISCHR(ours.st_mode) && next_stat()(KFD_DEVICE_PATH, &device) == 0 &&
                        S_ISCHR(device.st_mode) && ours.st_rdev == device.st_rdev;
}

static bool is_same_file(int a, int b) {
        return syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b) == 0;
}

static void context_join(int fd) {
        for (unsigned i = 1; i < ELEMENTSOF(contexts); i++)
                if (contexts[i].n_fds > 0 && is_same_file(contexts[i].own > 0 ? contexts[i].own : any_fd(i), fd)) {
                        context_add(i, fd);
                        return;
                }
        context_new(fd);
}

/* Returns the context, or 0. */
static _noinline_ unsigned device_found(int fd) {
        PROTECT_ERRNO;

        if (fd < 0 || !is_enabled() || !is_device_fd(fd))
                return 0;
        contexts_start();
        _cleanup_(kfd_unlockp)
        bool locked = kfd_lock();
        if (locked && kfd_fd_context(fd) == 0)
                context_join(fd);
        return kfd_fd_context(fd);
}

int kfd_context_fd(unsigned context) {
        Context *c = contexts + context;
        if (c->own > 0)
                return c->own;

        int fd = any_fd(context);
        int copy = fd >= 0 ? next_fcntl()(fd, F_DUPFD_CLOEXEC, 3) : -1;
        if (copy < 0)
                return fd;
        if (!kfd_fd_set(copy, CONTEXT_OWN)) {
                (void) next_close()(copy);
                return fd;
        }
        c->own = copy;
        return copy;
}

int kfd_context_ioctl(int context, unsigned long request, ...) {
        return kfd_next_ioctl(kfd_context_fd((unsigned) context), request, ARGUMENT_BEHIND(request));
}

/* Our replacements of libc functions name their parameters as the libc header does. */

/* --- opening --- */

static bool is_device(const char *path) {
        return path && path[0] == '/' && streq(path, KFD_DEVICE_PATH);
}

/* Notes a newly opened fd. If its number is in the table already, the program has closed it unseen. */
static int opened(const char *path, int fd) {
        if (unlikely(kfd_fd_context(fd) != 0))
                fd_forget(fd);
        if (unlikely(is_device(path)))
                device_opened(fd);
        return fd;
}

_public_
int open(const char *file, int oflag, ...) {
        return opened(file, next_open()(file, oflag, MODE(oflag)));
}

_public_
int open64(const char *file, int oflag, ...) {
        return opened(file, next_open64()(file, oflag, MODE(oflag)));
}

_public_
int openat(int fd, const char *file, int oflag, ...) {
        return opened(file, next_openat()(fd, file, oflag, MODE(oflag)));
}

_public_
int openat64(int fd, const char *file, int oflag, ...) {
        return opened(file, next_openat64()(fd, file, oflag, MODE(oflag)));
}

/* Programs that are built with _FORTIFY_SOURCE call these where a call has no mode: <fcntl.h> replaces it. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);

_public_
int __open_2(const char *path, int flags) {
        return opened(path, next___open_2()(path, flags));
}

_public_
int __open64_2(const char *path, int flags) {
        return opened(path, next___open64_2()(path, flags));
}

_public_
int __openat_2(int at, const char *path, int flags) {
        return opened(path, next___openat_2()(at, path, flags));
}

_public_
int __openat64_2(int at, const char *path, int flags) {
        return opened(path, next___openat64_2()(at, path, flags));
}

/* --- closing and copying --- */

_public_
int close(int fd) {
        fd_forget(fd);
        return next_close()(fd);
}

static void forget_range(unsigned first, unsigned last) {
        for (int fd; first <= INT_MAX && (fd = kfd_fd_next(first)) >= 0 && (unsigned) fd <= last;
                        first = (unsigned) fd + 1)
                fd_forget(fd);
}

_public_
int close_range(unsigned fd, unsigned max_fd, int flags) {
        if (!(flags & (int) CLOSE_RANGE_CLOEXEC))
                forget_range(fd, max_fd);
        return next_close_range() ? next_close_range()(fd, max_fd, flags)
                                  : (int) syscall(SYS_close_range, fd, max_fd, flags);
}

_public_
void closefrom(int lowfd) {
        forget_range((unsigned) MAX(lowfd, 0), UINT_MAX);
        if (next_closefrom())
                next_closefrom()(lowfd);
        else
                (void) syscall(SYS_close_range, (unsigned) MAX(lowfd, 0), UINT32_MAX, 0);
}

_public_
int dup(int fd) {
        int r = next_dup()(fd);

        fd_copy(fd, r);
        return r;
}

/* Notes the result of a dup() to a given number. The kernel takes that number over in one step, and only if the call
 * succeeds, so its former context is forgotten only now. A context that ends by this still has its own fd, by which its
 * queues are released. */
static int copied_to(int from, int to, int r) {
        if (r >= 0 && from != to) {
                fd_forget(to);
                fd_copy(from, to);
        }
        return r;
}

_public_
int dup2(int fd, int fd2) {
        return copied_to(fd, fd2, next_dup2()(fd, fd2));
}

_public_
int dup3(int fd, int fd2, int flags) {
        return copied_to(fd, fd2, next_dup3()(fd, fd2, flags));
}

static int fcntl_done(int fd, int command, int r) {
        if (unlikely(command == F_DUPFD || command == F_DUPFD_CLOEXEC))
                fd_copy(fd, r);
        return r;
}

_public_
int fcntl(int fd, int cmd, ...) {
        return fcntl_done(fd, cmd, next_fcntl()(fd, cmd, ARGUMENT_BEHIND(cmd)));
}

_public_
int fcntl64(int fd, int cmd, ...) {
        return fcntl_done(fd, cmd, next_fcntl64()(fd, cmd, ARGUMENT_BEHIND(cmd)));
}

/* --- ioctl --- */

typedef int QueueCall(unsigned context, int fd, unsigned long request, void *arg);

static int event_call(unsigned context, int fd, unsigned long request, void *arg) {
        unsigned nr = kfd_ioctl_nr(request);

        if (nr == KFD_NR_DESTROY_EVENT) { /* before the number can be another event's */
                PROTECT_ERRNO;
                kfd_fault_forget_event(arg, _IOC_SIZE(request));
        }
        int r = kfd_next_ioctl(fd, request, arg);
        PROTECT_ERRNO;
        if (r >= 0 && nr == KFD_NR_CREATE_EVENT)
                kfd_fault_note_event(arg, _IOC_SIZE(request));
        else if (r >= 0 && nr == KFD_NR_WAIT_EVENTS && kfd_fault_look(arg, _IOC_SIZE(request)))
                kfd_poll_kick();
        return r;
}

/* The kernel dispatches by number alone: the size in the request says what the caller knows. */
static QueueCall *queue_call(unsigned long request) {
        if (likely(_IOC_TYPE(request) != KFD_IOCTL_BASE))
                return NULL;
        switch (kfd_ioctl_nr(request)) {
        case KFD_NR_CREATE_QUEUE:
                return kfd_create_queue;
        case KFD_NR_UPDATE_QUEUE:
                return kfd_update_queue;
        case KFD_NR_DESTROY_QUEUE:
                return kfd_destroy_queue;
        case KFD_NR_CREATE_EVENT:
        case KFD_NR_DESTROY_EVENT:
        case KFD_NR_WAIT_EVENTS:
                return event_call;
        default:
                return NULL;
        }
}

static dev_t render_device(int fd) {
        struct stat st;

        return next_fstat()(fd, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == DRM_DEVICE_MAJOR ? st.st_rdev
                                                                                                          : 0;
}

static _noinline_ int drm_ioctl(int fd, unsigned long request, void *arg) {
        DrmUserq asked = {};
        bool read = arguments_read(&asked, arg, sizeof(asked));
        int r = kfd_next_ioctl(fd, request, arg);

        if (r >= 0 && read && kfd_drm_concerns(&asked) && kfd_start())
                kfd_drm_note(fd, &asked, arg, render_device);
        return r;
}

_public_
int ioctl(int fd, unsigned long request, ...) {
        void *arg = ARGUMENT_BEHIND(request);
        QueueCall *call = queue_call(request);

        if (likely(!call))
                return unlikely(kfd_drm_is_userq(request)) ? drm_ioctl(fd, request, arg)
                                                           : kfd_next_ioctl(fd, request, arg);
        unsigned context = kfd_fd_context(fd) ?: device_found(fd);
        if (context == 0 || context == CONTEXT_OWN || !is_owner())
                return kfd_next_ioctl(fd, request, arg);
        return call(context, fd, request, arg);
}
