/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Extended attributes of a cgroup's directory
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-path.h"
#include "common/cgroup-root.h"

#define PREFIX    "user.xsched."
#define LIST_MAX  ((size_t) 64 * 1024)
#define VALUE_MAX ((size_t) 64)

int cgroup_directory(const char *cgroup, char **ret) {
        const char *root = cgroup_root();
        char *path;

        if (!root)
                return -ENOENT;
        if (asprintf(&path, "%s%s", root, cgroup) < 0)
                return -ENOMEM;
        *ret = path;
        return 0;
}

int cgroup_owner(const char *cgroup, uid_t *ret) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        int r = cgroup_directory(cgroup, &path);
        if (r < 0)
                return r;
        if (lstat(path, &st) < 0)
                return negative_errno();
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        *ret = st.st_uid;
        return 0;
}

int cgroup_id(const char *cgroup, uint64_t *ret) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        if (!cgroup_path_is_normal(cgroup))
                return -EINVAL;
        int r = cgroup_directory(cgroup, &path);
        if (r < 0)
                return r == -ENOENT ? -ENODEV : r;
        if (lstat(path, &st) < 0)
                return errno == ENOTDIR ? -ENOENT : negative_errno();
        if (!S_ISDIR(st.st_mode))
                return -ENOENT;
        *ret = st.st_ino;
        return 0;
}

static bool is_label(const char *key) {
        return startswith(key, CGROUP_ATTR_LABEL) || startswith(key, CGROUP_ATTR_CLAIM);
}

static void read_one(int fd, const char *name, cgroup_attr_t found, void *userdata) {
        char value[CGROUP_ATTR_LABEL_MAX + 1];
        size_t max = is_label(name + strlen(PREFIX)) ? CGROUP_ATTR_LABEL_MAX : VALUE_MAX;

        ssize_t n = fgetxattr(fd, name, value, max);
        if (n < 0 && errno != ERANGE)
                return; /* gone meanwhile */
        /* A value that is too long, or no text, is passed on as an empty one, which the caller refuses. */
        if (n < 0 || memchr(value, '\0', (size_t) n))
                n = 0;
        value[n] = '\0';
        found(name + strlen(PREFIX), value, userdata);
}

int cgroup_attr_read(const char *directory, cgroup_attr_t found, void *userdata, uid_t *ret_owner) {
        _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return negative_errno();

        _cleanup_free_ char *names = malloc(LIST_MAX);
        if (!names)
                return -ENOMEM;
        ssize_t n = flistxattr(fd, names, LIST_MAX);
        for (ssize_t i = 0; i < n; i += (ssize_t) strlen(names + i) + 1)
                if (startswith(names + i, PREFIX))
                        read_one(fd, names + i, found, userdata);
        *ret_owner = st.st_mode & (S_IWGRP | S_IWOTH) ? CGROUP_ATTR_ANYBODY : st.st_uid;
        return 0;
}

int cgroup_attr_write(int fd, const char *key, const char *value) {
        char name[XATTR_NAME_MAX + 1];

        int n = snprintf(name, sizeof(name), PREFIX "%s", key);
        if (n < 0 || (size_t) n >= sizeof(name))
                return -ENAMETOOLONG;
        return fsetxattr(fd, name, value, strlen(value), 0) < 0 ? negative_errno() : 0;
}
