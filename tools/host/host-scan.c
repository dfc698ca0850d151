/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Processes with a GPU
 */

#include "tools/host/host-scan.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/array.h"
#include "common/directory.h"
#include "common/process.h"

#define RENDER_MINOR 128U
#define DRIVERS_MAX  16U
#define PF_KTHREAD   0x00200000U /* from the kernel's linux/sched.h */

static const char *const host_state_table[_HOST_STATE_MAX] = {
                [HOST_SCHEDULED] = "scheduled",
                [HOST_NO_QUEUE] = "no-queue",
                [HOST_UNREGISTERED] = "unregistered",
                [HOST_DISABLED] = "disabled",
                [HOST_NO_LAYER] = "no-layer",
                [HOST_UNKNOWN] = "unknown",
};

const char *host_state_to_string(HostState v) {
        return (size_t) v < ELEMENTSOF(host_state_table) ? host_state_table[v] : NULL;
}

/* --- devices --- */

typedef struct Drivers {
        struct {
                unsigned major, device;
        } drivers[DRIVERS_MAX];
        size_t n;
} Drivers;

/* "195 nvidia-frontend" in /proc/devices, above the block devices. */
static void read_drivers(Drivers *ret) {
        char line[128], name[65];
        unsigned major;
        FILE *f = fopen("/proc/devices", "re");

        *ret = (Drivers){0};
        while (f && ret->n < DRIVERS_MAX && fgets(line, sizeof(line), f) && !startswith(line, "Block")) {
                if (sscanf(line, " %u %64s", &major, name) != 2) /* NOLINT(cert-err34-c): as the kernel wrote it */
                        continue;
                unsigned device = streq(name, "kfd")         ? HOST_KFD
                                : streq(name, "drm")         ? HOST_RENDER
                                : startswith(name, "nvidia") ? HOST_NVIDIA
                                                             : 0;
                if (device == 0)
                        continue;
                ret->drivers[ret->n].major = major;
                ret->drivers[ret->n++].device = device;
        }
        if (f)
                (void) fclose(f);
}

unsigned host_device_of_name(const char *name) {
        if (streq(name, "/dev/kfd"))
                return HOST_KFD;
        if (startswith(name, "/dev/nvidia"))
                return HOST_NVIDIA;
        return startswith(name, "/dev/dri/renderD") ? HOST_RENDER : 0;
}

static unsigned device_of_number(const Drivers *d, unsigned major, unsigned minor) {
        for (size_t i = 0; i < d->n; i++)
                if (d->drivers[i].major == major && (d->drivers[i].device != HOST_RENDER || minor >= RENDER_MINOR))
                        return d->drivers[i].device;
        return 0;
}

/* The device of one descriptor. Only cached attributes of the file are used, because a user's file system may never
 * answer. */
static unsigned device_of_fd(const Drivers *d, int directory_fd, const char *number) {
        char name[PATH_MAX];
        struct statx st;

        ssize_t n = readlinkat(directory_fd, number, name, sizeof(name) - 1);
        if (n < 0)
                return 0;
        name[n] = '\0';
        if (!startswith(name, "/dev/"))
                return 0;
        if (statx(directory_fd, number, AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 || !S_ISCHR(st.stx_mode))
                return 0;
        return host_device_of_name(name) | device_of_number(d, st.stx_rdev_major, st.stx_rdev_minor);
}

/* --- processes --- */

static DIR *open_directory(const char *path) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

        if (!d && fd >= 0)
                (void) close(fd);
        return d;
}

/* Whether it is a thread of the kernel, which has no files open: that it cannot be looked at is no gap. */
static bool is_kernel_thread(pid_t pid) {
        char text[512];
        unsigned flags;

        if (process_read(pid, "stat", text, sizeof(text)) < 0)
                return false;
        const char *p = strrchr(text, ')');
        /* state, parent, group, session, terminal, its group, flags */
        return p && sscanf(p, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
                        flags & PF_KTHREAD; /* NOLINT(cert-err34-c) */
}

/* Returns a mask; -EACCES when we may not look. A process that has ended has nothing open. */
static int devices_of(const Drivers *drivers, pid_t pid) {
        unsigned devices = 0;
        char path[64];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        DIR *d = open_directory(path);
        if (!d)
                return (errno == EACCES || errno == EPERM) && !is_kernel_thread(pid) ? -EACCES : 0;
        for (const struct dirent *e; (e = directory_next(d, &r));)
                if (isdigit((unsigned char) e->d_name[0]))
                        devices |= device_of_fd(drivers, dirfd(d), e->d_name);
        (void) closedir(d);
        return r < 0 ? r : (int) devices;
}

static void describe(HostProcess *p) {
        char path[64];
        struct stat st;

        (void) snprintf(path, sizeof(path), "/proc/%d", (int) p->pid);
        p->uid = stat(path, &st) >= 0 ? st.st_uid : UID_NONE;
        if (process_read(p->pid, "comm", p->command, sizeof(p->command)) < 0)
                p->command[0] = '\0';
        p->command[strcspn(p->command, "\n")] = '\0';
}

static int add_process(HostProcesses *all, pid_t pid, unsigned devices) {
        HostProcess *grown = array_grow(all->processes, all->n, sizeof(HostProcess));

        if (!grown)
                return -ENOMEM;
        all->processes = grown;
        HostProcess *p = all->processes + all->n++;
        *p = (HostProcess){.pid = pid, .devices = devices, .layers = -ENODATA};
        describe(p);
        return 0;
}

static int compare(const void *a, const void *b) {
        const HostProcess *p = a, *q = b;
        return p->pid < q->pid ? -1 : p->pid > q->pid;
}

int host_scan(HostProcesses *ret) {
        HostProcesses all = {0};
        Drivers drivers;
        int r = 0, end = 0;

        read_drivers(&drivers);
        DIR *d = open_directory("/proc");
        if (!d)
                return negative_errno();
        for (const struct dirent *e; r >= 0 && (e = directory_next(d, &end));) {
                long pid = strtol(e->d_name, NULL, 10);

                if (pid <= 0 || pid > INT32_MAX || pid == getpid())
                        continue;
                int devices = devices_of(&drivers, (pid_t) pid);
                if (devices < 0)
                        all.n_unseen++;
                else if (devices > 0)
                        r = add_process(&all, (pid_t) pid, (unsigned) devices);
        }
        (void) closedir(d);
        r = r < 0 ? r : end;
        if (r < 0) {
                host_processes_done(&all);
                return r;
        }
        if (all.n > 0)
                qsort(all.processes, all.n, sizeof(HostProcess), compare);
        *ret = all;
        return 0;
}

void host_processes_done(HostProcesses *p) {
        free(p->processes);
        *p = (HostProcesses){0};
}

HostState host_judge(const HostProcess *p, int64_t n_queues) {
        if (n_queues >= 0)
                return n_queues > 0 ? HOST_SCHEDULED : HOST_NO_QUEUE;
        if (p->layers < 0)
                return HOST_UNKNOWN;
        if (p->layers == 0)
                return HOST_NO_LAYER;
        return p->disabled ? HOST_DISABLED : HOST_UNREGISTERED;
}
