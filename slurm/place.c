/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The cgroups of a job
 */

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "common/cgroup-root.h"
#include "common/cgroup-text.h"
#include "common/macro.h"
#include "place.h"

#define KEY_MAX 64U

#define CLASS "class"
/* Attribute beside a job's class that was set without asking the controller. xschedd ignores it. */
#define CLASS_MARK "user.xsched-slurm.not-asked"

/* Finds the innermost cgroup of the job, by its number or, since Slurm 26.05, by its SLUID. Returns where "/step_M"
 * begins. */
static const char *find_step(const char *path, uint32_t job) {
        char name[sizeof("job_") + 10];
        const char *at = NULL;

        int l = snprintf(name, sizeof(name), "job_%" PRIu32, job);
        for (const char *p = path; *p == '/';) {
                const char *component = p + 1;
                size_t n = strcspn(component, "/");

                p = component + n;
                if (!startswith(p, "/step_"))
                        continue;
                if ((n == (size_t) l && memcmp(component, name, n) == 0) || cgroup_name_is_sluid(component, n))
                        at = p;
        }
        return at;
}

int place_find(const char *text, uint32_t job, char **ret_job, char **ret_step) {
        size_t n;

        const char *line = cgroup_text_path(text, &n);
        _cleanup_free_ char *path = line ? strndup(line, n) : NULL;
        if (!path)
                return line ? -ENOMEM : -ENOENT;
        if (!cgroup_path_is_normal(path))
                return -ENOENT;
        const char *at = find_step(path, job);
        if (!at)
                return -ENOENT;

        size_t n_job = (size_t) (at - path);
        size_t n_step = n_job + 1 + strcspn(path + n_job + 1, "/");
        _cleanup_free_ char *of_job = strndup(path, n_job), *of_step = strndup(path, n_step);
        if (!of_job || !of_step)
                return -ENOMEM;
        *ret_job = TAKE_PTR(of_job);
        *ret_step = TAKE_PTR(of_step);
        return 0;
}

int place_read(uint32_t job, char **ret_job, char **ret_step) {
        char text[16384];
        size_t n = 0;

        _cleanup_close_ int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        while (n < sizeof(text) - 1) {
                ssize_t k = read(fd, text + n, sizeof(text) - 1 - n);

                if (k < 0 && errno != EINTR)
                        return negative_errno();
                if (k == 0)
                        break;
                n += k > 0 ? (size_t) k : 0;
        }
        text[n] = '\0';
        return place_find(text, job, ret_job, ret_step);
}

int place_open(const char *path) {
        struct stat st;

        if (!cgroup_path_is_normal(path))
                return -EINVAL;
        const char *root = cgroup_root();
        if (!root)
                return -ENOENT;
        _cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        for (const char *p = path; *p;) {
                char name[NAME_MAX + 1];
                size_t n = strcspn(++p, "/");

                if (n >= sizeof(name))
                        return -ENAMETOOLONG;
                memcpy(name, p, n);
                name[n] = '\0';
                int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (below < 0)
                        return negative_errno();
                safe_close(fd);
                fd = below;
                p += n;
        }
        if (fstat(fd, &st) < 0)
                return negative_errno();
        return st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH)) ? TAKE_FD(fd) : -EPERM;
}

static const char *attribute(const char *key, char buf[static KEY_MAX]) {
        (void) snprintf(buf, KEY_MAX, "user.xsched.%s", key);
        return buf;
}

int place_set(int fd, const char *key, const char *value) {
        char name[KEY_MAX];
        return fsetxattr(fd, attribute(key, name), value, strlen(value), 0) < 0 ? negative_errno() : 0;
}

/* Sets and removes the mark in such an order that, whatever another step does meanwhile, a class without the
 * controller's answer is never left unmarked. */
int place_set_class(int fd, const char *class, bool asked) {
        if (!asked) {
                if (place_has_class(fd))
                        return 0;
                if (fsetxattr(fd, CLASS_MARK, "yes", strlen("yes"), 0) < 0)
                        return negative_errno();
        }
        int r = place_set(fd, CLASS, class);
        if (r >= 0 && asked && fremovexattr(fd, CLASS_MARK) < 0 && errno != ENODATA)
                return negative_errno();
        return r;
}

bool place_has_class(int fd) {
        char name[KEY_MAX];
        return fgetxattr(fd, attribute(CLASS, name), NULL, 0) >= 0 && fgetxattr(fd, CLASS_MARK, NULL, 0) < 0;
}
