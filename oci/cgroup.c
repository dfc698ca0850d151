/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The cgroup of a container
 */

#include <fcntl.h>
#include <stdio.h>

#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-path.h"
#include "oci/cgroup.h"

#define TEXT_MAX ((size_t) 16384)

/* Names are "libpod-ID.scope" by the systemd driver, "cri-containerd:ID" by a mixed one, or the plain "ID". */
static bool is_named(const char *s, size_t n, const char *id) {
        size_t n_id = strlen(id), n_scope = strlen(".scope");

        if (n > n_scope && memcmp(s + n - n_scope, ".scope", n_scope) == 0)
                n -= n_scope;
        if (n < n_id || memcmp(s + n - n_id, id, n_id) != 0)
                return false;
        return n == n_id || strchr("-:", s[n - n_id - 1]);
}

int oci_cgroup_find(const char *text, const char *id, char **ret) {
        size_t size;

        const char *path = cgroup_text_path(text, &size);
        if (!path || isempty(id))
                return -ENOENT;
        for (size_t i = 0; i < size;) {
                size_t n = strcspn(path + ++i, "/\n");

                if (is_named(path + i, n, id)) {
                        char *found = strndup(path, i + n);
                        if (!found)
                                return -ENOMEM;
                        *ret = found;
                        return 0;
                }
                i += n;
        }
        return -ENOENT;
}

bool oci_cgroup_is_of_crio(const char *path) {
        const char *name = strrchr(path, '/');
        return name && startswith(name, "/crio-");
}

int oci_cgroup_open(const OciState *s, bool *ret_of_crio) {
        _cleanup_free_ char *path = NULL, *directory = NULL;
        char name[64], text[TEXT_MAX];

        if (s->pid == 0)
                return -ESRCH;
        (void) snprintf(name, sizeof(name), "/proc/%d/cgroup", (int) s->pid);
        FILE *f = fopen(name, "re");
        if (!f)
                return negative_errno();
        text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
        (void) fclose(f);
        int r = oci_cgroup_find(text, oci_state_id(s), &path);
        if (r < 0)
                return r;
        if (!cgroup_path_is_normal(path))
                return -EINVAL;
        r = cgroup_directory(path, &directory);
        if (r < 0)
                return r;
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return negative_errno();
        *ret_of_crio = oci_cgroup_is_of_crio(path);
        return fd;
}
