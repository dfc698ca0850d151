/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * /etc/ld.so.preload
 */

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/write-all.h"
#include "oci/preload-file.h"

#define PRELOAD_FILE "etc/ld.so.preload"
#define TEXT_MAX     ((size_t) 64 * 1024)

/* Libraries that are preloaded where there is such a device; NULL: always. */
static const struct {
        const char *name, *device;
} libraries[] = {
                {"libxsched-opencl.so", NULL},
                {"libxsched-cuda.so", "dev/nvidiactl"},
                {"libxsched-kfd.so", "dev/kfd"},
};

static int open_inside(int root_fd, const char *path, int flags, mode_t mode) {
        const struct open_how how = {
                        .flags = (uint64_t) (flags | O_CLOEXEC),
                        .mode = mode,
                        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
        };

        int fd = (int) syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
        return fd < 0 ? negative_errno() : fd;
}

static bool is_inside(int root_fd, const char *path) {
        _cleanup_close_ int fd = open_inside(root_fd, path, O_PATH, 0);
        return fd >= 0;
}

int preload_file_text(const char *const *ours, size_t n, const char *theirs, char **ret) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (!strstr(theirs, ours[i]))
                        (void) fprintf(f, "%s\n", ours[i]);
        (void) fputs(theirs, f);
        bool failed = ferror(f);
        if (fclose(f) != 0 || failed)
                return -ENOMEM;
        *ret = TAKE_PTR(text);
        return 0;
}

/* Reads the image's file; "" when there is none. Other kinds of files are left alone. */
static int read_theirs(int root_fd, char **ret) {
        struct stat st;

        _cleanup_close_ int path_fd = open_inside(root_fd, PRELOAD_FILE, O_PATH, 0);
        if (path_fd == -ENOENT) {
                *ret = strdup("");
                return *ret ? 0 : -ENOMEM;
        }
        if (path_fd < 0)
                return path_fd;
        if (fstat(path_fd, &st) < 0)
                return negative_errno();
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        if ((size_t) st.st_size > TEXT_MAX)
                return -EFBIG;
        _cleanup_close_ int fd = open_inside(root_fd, PRELOAD_FILE, O_RDONLY | O_NONBLOCK, 0);
        if (fd < 0)
                return fd;
        _cleanup_free_ char *text = calloc(1, TEXT_MAX + 1);
        if (!text)
                return -ENOMEM;
        ssize_t k;
        for (size_t n = 0; n < TEXT_MAX; n += (size_t) k) {
                k = read(fd, text + n, TEXT_MAX - n);
                if (k < 0)
                        return negative_errno();
                if (k == 0)
                        break;
        }
        *ret = TAKE_PTR(text);
        return 0;
}

static int make_text(int root_fd, char **ret) {
        char paths[ELEMENTSOF(libraries)][64];
        const char *ours[ELEMENTSOF(libraries)];
        _cleanup_free_ char *theirs = NULL;
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(libraries); i++) {
                if (libraries[i].device && !is_inside(root_fd, libraries[i].device))
                        continue;
                (void) snprintf(paths[n], sizeof(paths[n]), SHIM_IN_CONTAINER "/%s", libraries[i].name);
                ours[n] = paths[n];
                /* A missing library would be an error message of every program. */
                if (is_inside(root_fd, ours[n]))
                        n++;
        }
        if (n == 0)
                return -ENOENT;
        int r = read_theirs(root_fd, &theirs);
        return r < 0 ? r : preload_file_text(ours, n, theirs, ret);
}

/* Opens the target of the mount. */
static int open_target(int root_fd) {
        int fd = open_inside(root_fd, PRELOAD_FILE, O_PATH, 0);
        if (fd != -ENOENT)
                return fd;
        _cleanup_close_ int made = open_inside(root_fd, PRELOAD_FILE, O_WRONLY | O_CREAT | O_EXCL, 0644);
        return made < 0 ? made : open_inside(root_fd, PRELOAD_FILE, O_PATH, 0);
}

/* Makes a file system of its own, which ends with the mount. */
static int make_file_system(void) {
        _cleanup_close_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

        if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
                        fsconfig(fs, FSCONFIG_SET_STRING, "size", "128k", 0) < 0 ||
                        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return negative_errno();
        int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        return fd < 0 ? negative_errno() : fd;
}

static int write_file(int directory_fd, const char *text) {
        _cleanup_close_ int fd = openat(directory_fd, "ld.so.preload", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

        if (fd < 0 || fchmod(fd, 0644) < 0)
                return negative_errno();
        return write_all(fd, text, strlen(text));
}

/* Mounts one file of it over the target. */
static int mount_file(int directory_fd, int target_fd) {
        struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};

        _cleanup_close_ int tree = open_tree(directory_fd, "ld.so.preload", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (tree < 0)
                return negative_errno();
        /* Older kernels cannot make it read-only; the file is the container's own in any case. */
        (void) mount_setattr(tree, "", AT_EMPTY_PATH, &read_only, sizeof(read_only));
        if (move_mount(tree, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return negative_errno();
        return 0;
}

/* Before Linux 6.15 a file is only taken out of a file system that is somewhere: for a moment it covers our directory
 * in the container, in which nothing runs yet. */
static int mount_text(int root_fd, int target_fd, const char *text) {
        char path[64];

        _cleanup_close_ int fs = make_file_system();
        if (fs < 0)
                return fs;
        int r = write_file(fs, text);
        if (r < 0)
                return r;
        _cleanup_close_ int cover = open_inside(root_fd, SHIM_IN_CONTAINER, O_PATH | O_DIRECTORY, 0);
        if (cover < 0)
                return cover;
        if (move_mount(fs, "", cover, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
                return negative_errno();
        r = mount_file(fs, target_fd);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fs);
        if (umount2(path, MNT_DETACH) < 0 && r >= 0)
                r = negative_errno();
        return r;
}

int preload_file_mount(int root_fd) {
        _cleanup_free_ char *text = NULL;

        int r = make_text(root_fd, &text);
        if (r < 0)
                return r;
        _cleanup_close_ int target = open_target(root_fd);
        return target < 0 ? target : mount_text(root_fd, target, text);
}
