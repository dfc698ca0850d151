/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the path of a cgroup says
 */

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

/* The last component that `match` takes. Units may have cgroups below themselves, slices come before their units. */
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
