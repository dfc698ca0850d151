/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Between a program and libc: paths of KFD are led to the simulated ones, calls on its fds to the simulation
 *
 * An open of /dev/kfd opens a real file, devices/kfd-PID-N in the shared directory, which is unlinked at once. So the
 * kernel keeps the fds: close, dup, fork, exec and passing them on need no care. The file's name tells whose device an
 * fd is, in any process.
 *
 * The simulator's own calls come through here, too, and pass: their paths are not the driver's. While the world is
 * being made (`inside`), all calls pass, because making it would otherwise wait for itself.
 */

/* Both names of each call are defined below, so neither may be an alias of the other. */
#undef _FILE_OFFSET_BITS

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "abi.h"
#include "kfdsim.h"
#include "shim/kfd/kfd-drm.h"
#include "sim.h"

/* The definition behind ours. Looked up once; two threads that race find the same. */
#define NEXT(name)                                                                                                     \
        ({                                                                                                             \
                static typeof(&name) XS_CONCAT(_next_, name);                                                          \
                if (unlikely(!XS_CONCAT(_next_, name)))                                                                \
                        XS_CONCAT(_next_, name) = (typeof(&name)) dlsym(RTLD_NEXT, #name);                             \
                XS_CONCAT(_next_, name);                                                                               \
        })

#define PATH_SIZE 512U

/* Initial-exec: the dynamic linker would allocate it on first use by the main libc's malloc(), which takes no lock in a
 * process whose threads were all made by another copy of libc, behind dlmopen(). */
static __thread bool inside __attribute__((tls_model("initial-exec")));

static bool is_active(void) {
        if (inside || !getenv("KFDSIM_DIR"))
                return false;
        inside = true;
        bool r = sim_world() != NULL;
        inside = false;
        return r;
}

/* The list of processes that use the device is read: processes that have ended are removed. */
static void sweep(void) {
        inside = true;
        sim_lock();
        sim_processes_sweep();
        sim_unlock();
        inside = false;
}

static void refresh_debugfs(void) {
        inside = true;
        sim_lock();
        sim_processes_sweep();
        sim_debugfs_write();
        sim_unlock();
        inside = false;
}

/* Where a path of the driver lies in the shared directory; the path itself when it is none of the driver's. */
static const char *redirect(const char *path, char *buffer) {
        static const struct {
                const char *from, *to;
        } prefixes[] = {
                        {"/sys/devices/virtual/kfd/kfd/", ""},
                        {"/sys/class/kfd/kfd/", ""},
                        {"/dev/dri", "dri"},
                        {"/proc/modules", "modules"},
                        {"/sys/module/amdgpu", "module"},
                        {"/sys/kernel/debug/kfd/", "debug/"},
        };
        if (!path || path[0] != '/')
                return path;
        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++) {
                const char *rest = startswith(path, prefixes[i].from);
                if (!rest || !is_active())
                        continue;
                if (startswith(rest, "proc"))
                        sweep();
                if (streq(prefixes[i].to, "debug/"))
                        refresh_debugfs();
                (void) snprintf(buffer, PATH_SIZE, "%s/%s%s", sim_dir(), prefixes[i].to, rest);
                return buffer;
        }
        return path;
}

static bool is_device(const char *path) {
        return path && streq(path, KFD_DEVICE_PATH) && is_active();
}

/* Opens a file for the device, and unlinks it at once: the driver's device was there before, and is there
 * afterwards. */
static int open_device(int flags) {
        static _Atomic unsigned count;
        char path[PATH_SIZE];

        sim_lock();
        SimProcess *p = sim_process_self();
        sim_unlock();
        if (!p) {
                errno = ENOMEM;
                return -1;
        }
        (void) snprintf(path, sizeof(path), "%s/devices/kfd-%d-%u", sim_dir(), (int) getpid(),
                        atomic_fetch_add(&count, 1));
        int fd = NEXT(open)(path, O_RDWR | O_CREAT | (flags & (O_CLOEXEC | O_NONBLOCK)), 0666);
        if (fd >= 0)
                (void) unlink(path);
        return fd;
}

static bool has_mode(int flags) {
        return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN_MODE(flags)                                                                                               \
        ({                                                                                                             \
                va_list _ap;                                                                                           \
                va_start(_ap, flags);                                                                                  \
                mode_t _mode = has_mode(flags) ? va_arg(_ap, mode_t) : 0;                                              \
                va_end(_ap);                                                                                           \
                _mode;                                                                                                 \
        })

/* Parameters of functions that replace a libc function have the names of the libc header. */

/* --- open --- */

static int open_path(const char *path, int flags, mode_t mode, int (*next)(const char *, int, ...)) {
        char buffer[PATH_SIZE];

        if (is_device(path))
                return open_device(flags);
        return next(redirect(path, buffer), flags, mode);
}

_public_
int open(const char *file, int oflag, ...) {
        return open_path(file, oflag, OPEN_MODE(oflag), NEXT(open));
}

_public_
int open64(const char *file, int oflag, ...) {
        return open_path(file, oflag, OPEN_MODE(oflag), NEXT(open64));
}

int __open_2(const char *path, int flags);
_public_
int __open_2(const char *path, int flags) {
        return open_path(path, flags, 0, NEXT(open));
}

int __open64_2(const char *path, int flags);
_public_
int __open64_2(const char *path, int flags) {
        return open_path(path, flags, 0, NEXT(open64));
}

static int openat_path(int at, const char *path, int flags, mode_t mode, int (*next)(int, const char *, int, ...)) {
        char buffer[PATH_SIZE];

        if (is_device(path))
                return open_device(flags);
        return next(at, redirect(path, buffer), flags, mode);
}

_public_
int openat(int fd, const char *file, int oflag, ...) {
        return openat_path(fd, file, oflag, OPEN_MODE(oflag), NEXT(openat));
}

_public_
int openat64(int fd, const char *file, int oflag, ...) {
        return openat_path(fd, file, oflag, OPEN_MODE(oflag), NEXT(openat64));
}

int __openat_2(int at, const char *path, int flags);
_public_
int __openat_2(int at, const char *path, int flags) {
        return openat_path(at, path, flags, 0, NEXT(openat));
}

int __openat64_2(int at, const char *path, int flags);
_public_
int __openat64_2(int at, const char *path, int flags) {
        return openat_path(at, path, flags, 0, NEXT(openat64));
}

_public_
int creat(const char *file, mode_t mode) {
        return open_path(file, O_CREAT | O_WRONLY | O_TRUNC, mode, NEXT(open));
}

_public_
int creat64(const char *file, mode_t mode) {
        return open_path(file, O_CREAT | O_WRONLY | O_TRUNC, mode, NEXT(open64));
}

static FILE *fopen_path(const char *path, const char *modes, FILE *(*next)(const char *, const char *) ) {
        char buffer[PATH_SIZE];

        if (!is_device(path))
                return next(redirect(path, buffer), modes);
        int fd = open_device(0);
        return fd >= 0 ? fdopen(fd, modes) : NULL;
}

_public_
FILE *fopen(const char *filename, const char *modes) {
        return fopen_path(filename, modes, NEXT(fopen));
}

_public_
FILE *fopen64(const char *filename, const char *modes) {
        return fopen_path(filename, modes, NEXT(fopen64));
}

_public_
DIR *opendir(const char *name) {
        char buffer[PATH_SIZE];
        return NEXT(opendir)(redirect(name, buffer));
}

_public_
int scandir(const char *restrict dir, struct dirent ***restrict namelist, int (*selector)(const struct dirent *),
                int (*cmp)(const struct dirent **, const struct dirent **)) {
        char buffer[PATH_SIZE];
        return NEXT(scandir)(redirect(dir, buffer), namelist, selector, cmp);
}

/* --- names and attributes --- */

static const char *attributes_path(const char *path, char *buffer) {
        return is_device(path) ? "/dev/null" : redirect(path, buffer);
}

_public_
int stat(const char *restrict file, struct stat *restrict buf) {
        char buffer[PATH_SIZE];
        return NEXT(stat)(attributes_path(file, buffer), buf);
}

_public_
int stat64(const char *restrict file, struct stat64 *restrict buf) {
        char buffer[PATH_SIZE];
        return NEXT(stat64)(attributes_path(file, buffer), buf);
}

_public_
int lstat(const char *restrict file, struct stat *restrict buf) {
        char buffer[PATH_SIZE];
        return NEXT(lstat)(attributes_path(file, buffer), buf);
}

_public_
int fstatat(int fd, const char *restrict file, struct stat *restrict buf, int flag) {
        char buffer[PATH_SIZE];
        return NEXT(fstatat)(fd, attributes_path(file, buffer), buf, flag);
}

_public_
int access(const char *name, int type) {
        char buffer[PATH_SIZE];
        return is_device(name) ? 0 : NEXT(access)(redirect(name, buffer), type);
}

_public_
int faccessat(int fd, const char *file, int type, int flag) {
        char buffer[PATH_SIZE];
        return is_device(file) ? 0 : NEXT(faccessat)(fd, redirect(file, buffer), type, flag);
}

/* What a link in /proc/PID/fd says of a simulated file is what it would say of the driver's. */
static ssize_t link_read(int at, const char *path, char *ret, size_t size) {
        char name[PATH_SIZE];
        ssize_t n = NEXT(readlinkat)(at, path, name, sizeof(name) - 1);

        if (n <= 0 || n == sizeof(name) - 1 || !is_active())
                return NEXT(readlinkat)(at, path, ret, size);
        name[n] = 0;
        const char *rest = startswith(name, sim_dir());
        if (rest && startswith(rest, "/devices/kfd-"))
                n = snprintf(name, sizeof(name), "%s", KFD_DEVICE_PATH);
        n = (ssize_t) MIN(size, (size_t) n);
        memcpy(ret, name, (size_t) n);
        return n;
}

_public_
ssize_t readlink(const char *restrict path, char *restrict buf, size_t len) {
        return link_read(AT_FDCWD, path, buf, len);
}

_public_
ssize_t readlinkat(int fd, const char *restrict path, char *restrict buf, size_t len) {
        return link_read(fd, path, buf, len);
}

/* --- fds --- */

/* Which simulated file an fd is: its path below the shared directory, or NULL. */
static const char *device_name(int fd, char *buffer) {
        char link[40];
        if (fd < 0 || !is_active())
                return NULL;
        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = NEXT(readlink)(link, buffer, PATH_SIZE - 1);
        if (n <= 0)
                return NULL;
        buffer[n] = 0;
        const char *rest = startswith(buffer, sim_dir());
        return rest && *rest == '/' ? rest + 1 : NULL;
}

int sim_render_number(int fd) {
        char buffer[PATH_SIZE];
        const char *name = device_name(fd, buffer);
        unsigned minor;

        if (!name || sscanf(name, "dri/renderD%u", &minor) != 1 || minor < SIM_RENDER_MINOR ||
                        minor - SIM_RENDER_MINOR >= sim_world()->n_gpus)
                return -ENODEV;
        return (int) (minor - SIM_RENDER_MINOR);
}

static pid_t device_owner(int fd) {
        PROTECT_ERRNO;
        char buffer[PATH_SIZE];
        const char *name = device_name(fd, buffer);
        int pid;
        return name && sscanf(name, "devices/kfd-%d-", &pid) == 1 ? pid : 0;
}

/* Whether the driver sees the request: the kernel answers some for all files. */
static bool is_for_driver(unsigned long request) {
        return request != FIOCLEX && request != FIONCLEX && request != FIONBIO && request != FIOASYNC &&
                        request != FIOQSIZE;
}

/* Fills in what stat() tells of a character device. */
#define AS_DEVICE(fd, buf)                                                                                             \
        ({                                                                                                             \
                if (device_owner(fd) != 0) {                                                                           \
                        (buf)->st_mode = ((buf)->st_mode & ~(mode_t) S_IFMT) | S_IFCHR;                                \
                        (buf)->st_rdev = makedev(SIM_DEVICE_MAJOR, 0);                                                 \
                } else if (sim_render_number(fd) >= 0) {                                                               \
                        (buf)->st_mode = ((buf)->st_mode & ~(mode_t) S_IFMT) | S_IFCHR;                                \
                        (buf)->st_rdev = makedev(                                                                      \
                                        DRM_DEVICE_MAJOR, SIM_RENDER_MINOR + (unsigned) sim_render_number(fd));        \
                }                                                                                                      \
        })

_public_
int fstat(int fd, struct stat *buf) {
        int r = NEXT(fstat)(fd, buf);

        if (r >= 0)
                AS_DEVICE(fd, buf);
        return r;
}

_public_
int fstat64(int fd, struct stat64 *buf) {
        int r = NEXT(fstat64)(fd, buf);

        if (r >= 0)
                AS_DEVICE(fd, buf);
        return r;
}

/* What stat() and fstat() were before glibc 2.33. A sanitizer makes the new ones of these: these do not call those. */
int __xstat64(int version, const char *file, struct stat64 *buf);
int __fxstat64(int version, int fd, struct stat64 *buf);

_public_
int __xstat64(int version, const char *file, struct stat64 *buf) {
        char buffer[PATH_SIZE];
        return NEXT(stat64)(attributes_path(file, buffer), buf);
}

_public_
int __fxstat64(int version, int fd, struct stat64 *buf) {
        int r = NEXT(fstat64)(fd, buf);

        if (r >= 0)
                AS_DEVICE(fd, buf);
        return r;
}

_public_
int kfdsim_ioctl(int fd, unsigned long request, void *arg) {
        if (kfd_drm_is_userq(request) && sim_render_number(fd) >= 0)
                return sim_render_userq(arg);
        pid_t owner = is_for_driver(request) ? device_owner(fd) : 0;
        if (owner == 0)
                return NEXT(ioctl)(fd, request, arg);

        int r = sim_ioctl(owner, request, arg);
        if (r >= 0)
                return r;
        errno = -r;
        return -1;
}

_public_
int ioctl(int fd, unsigned long request, ...) {
        va_list ap;
        va_start(ap, request);
        void *arg = va_arg(ap, void *);
        va_end(ap);

        return kfdsim_ioctl(fd, request, arg);
}

_public_
void kfdsim_reset(unsigned nth, bool ecc) {
        if (!is_active())
                return;
        inside = true;
        sim_gpu_reset(sim_world()->gpus + nth, ecc ? KFD_RESET_ECC : KFD_RESET_HANG);
        inside = false;
}

/* Memory is anonymous whatever its offset says; doorbells are the process's page on that GPU. */
static void *map(void *addr, size_t length, int prot, int flags, int fd, uint64_t offset) {
        char buffer[PATH_SIZE];

        const char *name = device_name(fd, buffer);
        if (!name || (!startswith(name, "devices/kfd-") && !startswith(name, "dri/")))
                return NEXT(mmap)(addr, length, prot, flags, fd, (off_t) offset);
        if (offset >> 62 == 3) {
                const SimGpu *g = sim_gpu_by_id((uint32_t) (offset >> 46) & 0xffff);
                return sim_doorbells_map(g ? sim_gpu_index(g) : UINT32_MAX, addr, length, prot, flags);
        }
        return NEXT(mmap)(addr, length, prot, flags | MAP_ANONYMOUS, -1, 0);
}

_public_
void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset) {
        if (flags & MAP_ANONYMOUS || fd < 0)
                return NEXT(mmap)(addr, len, prot, flags, fd, offset);
        return map(addr, len, prot, flags, fd, (uint64_t) offset);
}

_public_
void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset) {
        return mmap(addr, len, prot, flags, fd, offset);
}

/* libhsakmt opens the device under a semaphore that belongs to the whole machine. A process that is killed meanwhile,
 * as tenants of tests are, would leave it taken, and no process could open a simulated or a real device any more. So
 * here each process has a semaphore of its own. */
static sem_t open_semaphore;

static void open_semaphore_init(void) {
        (void) sem_init(&open_semaphore, 0, 1);
}

_public_
sem_t *sem_open(const char *name, int oflag, ...) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        va_list ap;

        if (streq(name, "hsakmt_semaphore") && getenv("KFDSIM_DIR")) {
                (void) pthread_once(&once, open_semaphore_init);
                return &open_semaphore;
        }
        if (!(oflag & O_CREAT))
                return NEXT(sem_open)(name, oflag);
        va_start(ap, oflag);
        mode_t mode = va_arg(ap, mode_t);
        unsigned value = va_arg(ap, unsigned);
        va_end(ap);
        return NEXT(sem_open)(name, oflag, mode, value);
}

static void in_child(void) {
        open_semaphore_init();
        sim_engine_forget();
        sim_doorbells_forget();
        sim_event_forget();
        sim_packet_forget();
        sim_memory_forget();
        sim_render_forget();
        sim_failure_forget();
}

__attribute__((constructor)) static void start(void) {
        (void) pthread_atfork(NULL, NULL, in_child);
}

_public_
uint64_t kfdsim_maps(uint32_t gpu_id) {
        const SimGpu *g = is_active() ? sim_gpu_by_id(gpu_id) : NULL;

        return g ? atomic_load(&g->n_maps) : 0;
}

_public_
uint64_t kfdsim_torn(uint32_t gpu_id) {
        const SimGpu *g = is_active() ? sim_gpu_by_id(gpu_id) : NULL;

        return g ? atomic_load(&g->n_torn) : 0;
}

_public_
KfdsimTorn kfdsim_last_torn(void) {
        return sim_packet_last_torn();
}
