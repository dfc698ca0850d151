/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which object suspends another
 */

#include <limits.h>
#include <stdio.h>

#include "client.h"
#include "suspended.h"

/* This runs for each verdict, and mostly nothing is suspended. */
const Group *group_suspended_by(const Group *g) {
        if (g->manager->n_suspended == 0)
                return NULL;
        while (g && !g->suspended)
                g = g->parent;
        return g;
}

/* Recurses as deep as the path. */
static const Group *cgroup_suspended_by(const Manager *m, const char *cgroup) {
        char path[PATH_MAX];
        Group *g;

        (void) snprintf(path, sizeof(path), "%s", cgroup);
        for (;;) {
                HASH_FIND_STR(m->groups, path, g);
                if (g && g->suspended)
                        return g;
                char *slash = strrchr(path, '/');
                if (!slash || streq(path, "/"))
                        return NULL;
                slash[slash == path ? 1 : 0] = '\0';
        }
}

const Group *client_suspended_by(const Client *c) {
        if (c->manager->n_suspended == 0)
                return NULL;
        const Group *by = group_suspended_by(c->group);
        return by || c->group->kind != GROUP_JOB ? by : cgroup_suspended_by(c->manager, c->peer.cgroup);
}
