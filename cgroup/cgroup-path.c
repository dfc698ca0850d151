/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Parses the path of a cgroup
 */

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>

#include "cgroup/cgroup-path.h"

static bool has_suffix(const char *s, size_t n, const char *suffix) {
        size_t l = strlen(suffix);
        return n > l && memcmp(s + n - l, suffix, l) == 0;
}

static bool is_unit(const char *s, size_t n) {
        return has_suffix(s, n, ".service") || has_suffix(s, n, ".scope");
}

static bool is_slice(const char *s, size_t n) {
        return has_suffix(s, n, ".slice");
}

/* Returns the last component that `match` accepts. Units may have cgroups below themselves, slices come before their
 * units. */
static int last_component(const char *path, bool (*match)(const char *s, size_t n), char **ret) {
        const char *found = "";
        size_t found_n = 0;

        for (const char *p = path; *p;) {
                p += strspn(p, "/");
                size_t n = strcspn(p, "/");
                if (match(p, n)) {
                        found = p;
                        found_n = n;
                }
                p += n;
        }

        char *s = strndup(found, found_n);
        if (!s)
                return -ENOMEM;
        *ret = s;
        return 0;
}

int cgroup_path_unit(const char *path, char **ret) {
        return last_component(path, is_unit, ret);
}

int cgroup_path_slice(const char *path, char **ret) {
        return last_component(path, is_slice, ret);
}

int cgroup_path_owner(const char *path, char **ret) {
        const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;

        return is_slice(last, strlen(last)) ? cgroup_path_slice(path, ret) : cgroup_path_unit(path, ret);
}

int cgroup_path_of_slice(const char *unit, char **ret) {
        static const char suffix[] = ".slice";
        size_t n = strlen(unit);

        if (!is_slice(unit, n) || n > NAME_MAX || strchr(unit, '/'))
                return -EINVAL;
        n -= strlen(suffix);
        if (n == 1 && unit[0] == '-') {
                *ret = strdup("/");
                return *ret ? 0 : -ENOMEM;
        }
        /* The path has one component per dash, none longer than the name. */
        size_t size = 1;
        for (size_t i = 0; i <= n; i++)
                if (i == n || unit[i] == '-')
                        size += i + strlen(suffix) + 1;
        char *path = malloc(size), *p = path;
        if (!path)
                return -ENOMEM;
        for (size_t i = 0; i <= n; i++) {
                if (i < n && unit[i] != '-')
                        continue;
                if (i == 0 || unit[i - 1] == '-') {
                        free(path);
                        return -EINVAL;
                }
                p += snprintf(p, size - (size_t) (p - path), "/%.*s%s", (int) i, unit, suffix);
        }
        *ret = path;
        return 0;
}

size_t cgroup_path_trusted(const char *path) {
        const char *p = path;

        while (*p) {
                p += strspn(p, "/");
                size_t n = strcspn(p, "/");
                bool unit = is_unit(p, n);
                p += n;
                if (unit)
                        break;
        }
        return (size_t) (p - path);
}

static bool has_component(const char *path, size_t size, bool (*match)(const char *s, size_t n), const char *pattern) {
        char name[NAME_MAX + 1];

        for (const char *p = path; p < path + size;) {
                p += strspn(p, "/");
                size_t n = strcspn(p, "/");
                if (p + n <= path + size && n <= NAME_MAX && match(p, n)) {
                        /* systemd's escape for names that cgroupfs could take for files of its own. */
                        size_t skip = *p == '_';
                        memcpy(name, p + skip, n - skip);
                        name[n - skip] = '\0';
                        if (fnmatch(pattern, name, 0) == 0)
                                return true;
                }
                p += n;
        }
        return false;
}

bool cgroup_path_has_unit(const char *path, size_t n, const char *pattern) {
        return has_component(path, n, is_unit, pattern);
}

bool cgroup_path_has_slice(const char *path, size_t n, const char *pattern) {
        return has_component(path, n, is_slice, pattern);
}

bool cgroup_path_is_in(const char *path, size_t n, const char *pattern) {
        char above[PATH_MAX];

        if (n >= sizeof(above))
                return false;
        (void) snprintf(above, sizeof(above), "%.*s", (int) n, path);
        for (size_t end = strlen(above); end > 0; end--) {
                if (above[end] && above[end] != '/')
                        continue;
                above[end] = '\0';
                if (fnmatch(pattern, above, FNM_PATHNAME) == 0)
                        return true;
        }
        return fnmatch(pattern, "/", FNM_PATHNAME) == 0;
}
