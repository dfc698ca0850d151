/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lists of libraries
 */

#include "common/shim-list.h"
#include "common/macro.h"

const char *shim_list_find(const char *list, const char *path) {
        const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        size_t n_name = strlen(name);

        for (const char *p = strempty(list); *p;) {
                size_t n = strcspn(p, ": ");

                if (n >= n_name && strncmp(p + n - n_name, name, n_name) == 0 &&
                                (n == n_name || p[n - n_name - 1] == '/'))
                        return p;
                p += n + (p[n] != '\0');
        }
        return NULL;
}

/* Removes the entries that shim_list_find() would find. */
static void list_remove(char *list, const char *path) {
        const char *entry;

        while ((entry = shim_list_find(list, path))) {
                char *e = list + (entry - list);
                size_t n = strcspn(e, ": ");

                if (e[n] != '\0')
                        n++;
                else if (e > list) /* with the last entry goes the separator before it */
                        e--, n++;
                memmove(e, e + n, strlen(e + n) + 1);
        }
}

int shim_list_prepend(const char *list, const char *path, char **ret) {
        if (path[strcspn(path, ": ")] != '\0')
                return -EINVAL;
        size_t n = strlen(path);
        _cleanup_free_ char *rest = strdup(strempty(list)), *value = malloc(n + strlen(strempty(list)) + 2);
        if (!rest || !value)
                return -ENOMEM;
        list_remove(rest, path);
        memcpy(value, path, n);
        value[n] = '\0';
        if (!isempty(rest)) {
                value[n] = ':';
                memcpy(value + n + 1, rest, strlen(rest) + 1);
        }
        *ret = TAKE_PTR(value);
        return 0;
}
