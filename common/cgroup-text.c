/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * /proc/PID/cgroup
 */

#include <limits.h>

#include "common/cgroup-text.h"
#include "common/macro.h"

#define SLUID_LENGTH 14U

const char *cgroup_text_path(const char *text, size_t *ret_n) {
        for (const char *line = text; *line;) {
                size_t n = strcspn(line, "\n");
                const char *path = startswith(line, "0::");

                if (path) {
                        *ret_n = n - strlen("0::");
                        return path;
                }
                line += n + (line[n] != '\0');
        }
        return NULL;
}

bool cgroup_path_is_normal(const char *path) {
        if (path[0] != '/' || strlen(path) >= PATH_MAX)
                return false;
        for (const char *p = path + 1; *p;) {
                size_t n = strcspn(p, "/");

                if (n == 0 || n > NAME_MAX || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.'))))
                        return false;
                p += n;
                if (*p == '/' && *++p == '\0')
                        return false;
        }
        return true;
}

bool cgroup_name_is_sluid(const char *name, size_t n) {
        return n == SLUID_LENGTH && name[0] == 's' &&
                        strspn(name + 1, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") >= SLUID_LENGTH - 1;
}
