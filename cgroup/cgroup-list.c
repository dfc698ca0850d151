/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lists the processes of a cgroup
 */

#include <stdio.h>

#include "cgroup/cgroup-attr.h"
#include "cgroup/cgroup-list.h"
#include "common/array.h"

typedef struct List {
        pid_t *pids;
        size_t n;
} List;

static int list_add(List *l, pid_t pid) {
        pid_t *grown = array_grow(l->pids, l->n, sizeof(pid_t));
        if (!grown)
                return -ENOMEM;
        l->pids = grown;
        l->pids[l->n++] = pid;
        return 0;
}

static int read_list(FILE *f, List *l) {
        int pid, r = 0;

        errno = 0;
        while (r >= 0 && fscanf(f, "%d", &pid) == 1)
                r = list_add(l, (pid_t) pid);
        return r >= 0 && ferror(f) ? negative_errno() : r;
}

int cgroup_list_processes(const char *cgroup, pid_t **ret, size_t *ret_n) {
        _cleanup_free_ char *directory = NULL, *path = NULL;
        List l = {0};

        int r = cgroup_directory(cgroup, &directory);
        if (r < 0)
                return r;
        if (asprintf(&path, "%s/cgroup.procs", directory) < 0)
                return -ENOMEM;
        FILE *f = fopen(path, "re");
        if (!f)
                return negative_errno();
        r = read_list(f, &l);
        (void) fclose(f);
        if (r < 0) {
                free(l.pids);
                return r == -ENODEV ? -ENOENT : r; /* removed while it was open */
        }
        *ret = l.pids;
        *ret_n = l.n;
        return 0;
}
