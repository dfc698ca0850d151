/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Copies of device files: see device-file.h
 */

#include "hal/device-file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "common/file-status.h"
#include "common/macro.h"
#include "common/process.h"
#include "common/stream-util.h"

/* --- mounts whose file systems ask nobody --- */

/* The ids are read when the first one is asked for. */
typedef struct Mounts {
        pid_t pid;
        bool is_read;
        int *ids; /* sorted */
        size_t n;
} Mounts;

static void mounts_done(Mounts *m) {
        free(m->ids);
}

static int compare_ids(const void *a, const void *b) {
        const int *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

/* A line is "ID PARENT DEVICE ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS", and a space in a field is escaped. */
static bool line_is_local(const char *line, int *ret_id) {
        static const char *const types[] = {"devtmpfs ", "tmpfs ", "ramfs ", "ext4 ", "xfs ", "btrfs ", "overlay "};
        const char *type = strstr(line, " - ");

        if (!type || sscanf(line, "%d ", ret_id) != 1)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (startswith(type + strlen(" - "), types[i]))
                        return true;
        return false;
}

static int mounts_add(Mounts *m, int id) {
        /* The room doubles when it is full. */
        if ((m->n & (m->n - 1)) == 0) {
                int *p = reallocarray(m->ids, MAX(2 * m->n, (size_t) 1), sizeof(*p));
                if (!p)
                        return -ENOMEM;
                m->ids = p;
        }
        m->ids[m->n++] = id;
        return 0;
}

static int mounts_read(Mounts *m) {
        _cleanup_free_ char *line = NULL;
        char path[64];
        size_t size = 0;
        int id, r = 0;

        m->is_read = true;
        (void) snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int) m->pid);
        _cleanup_(fclosep)
        FILE *f = fopen(path, "re");
        if (!f)
                return negative_errno();
        while (r >= 0 && getline(&line, &size, f) > 0)
                if (line_is_local(line, &id))
                        r = mounts_add(m, id);
        if (m->n > 0)
                qsort(m->ids, m->n, sizeof(*m->ids), compare_ids);
        return r;
}

static int mount_is_local(Mounts *m, int id) {
        int r = m->is_read ? 0 : mounts_read(m);
        if (r < 0)
                return r;
        return m->n > 0 && bsearch(&id, m->ids, m->n, sizeof(id), compare_ids);
}

/* --- files --- */

static bool is_device(int fd, const DeviceFile *d) {
        struct stat st;

        return fd_status(fd, &st) >= 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(d->major_of, d->minor_of);
}

/* 0: no inode. */
static ino_t own_inode(const DeviceFile *d) {
        struct stat st;

        return file_status(d->path, &st) >= 0 ? st.st_ino : 0;
}

/* What of no use is, such as a file that was opened by O_PATH, is not copied either. */
static int may_be_copied(Mounts *m, int fd, ino_t inode) {
        ProcessFd f;

        int r = process_fd(m->pid, fd, &f);
        if (r == -ENOENT)
                return false;
        if (r < 0)
                return true; /* Linux before 5.14, or the process may not be looked at: the copy tells */
        if (f.flags & O_PATH)
                return false;
        return (inode != 0 && f.inode == inode) ? true : mount_is_local(m, f.mount);
}

static int take(Mounts *m, int pidfd, const DeviceFile *d, int at, ino_t inode) {
        int r = may_be_copied(m, at, inode);
        if (r <= 0)
                return r < 0 ? r : -ENODEV;

        _cleanup_close_ int fd = (int) syscall(SYS_pidfd_getfd, pidfd, at, 0);
        if (fd < 0)
                return errno == EBADF ? -ENODEV : negative_errno();
        return is_device(fd, d) ? TAKE_FD(fd) : -ENODEV;
}

int device_file_take(pid_t pid, int pidfd, const DeviceFile *d, int fd) {
        _cleanup_(mounts_done)
        Mounts m = {.pid = pid};

        return take(&m, pidfd, d, fd, own_inode(d));
}

/* Tries one fd after the other: listing /proc/PID/fd of another user's process needs a capability more than this. */
int device_file_take_next(pid_t pid, int pidfd, const DeviceFile *d, int *at) {
        _cleanup_(mounts_done)
        Mounts m = {.pid = pid};
        ino_t inode = own_inode(d);
        int n_fds = 0;

        int r = process_fd_size(pid, &n_fds);
        if (r < 0)
                return r;
        for (int i = *at; i < n_fds; i++) {
                int fd = take(&m, pidfd, d, i, inode);
                if (fd == -ENODEV)
                        continue;
                *at = i;
                return fd;
        }
        return -ENODEV;
}
