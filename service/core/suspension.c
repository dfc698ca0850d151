/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Suspension of clients
 */

#include <limits.h>
#include <stdio.h>

#include "client.h"
#include "observer.h"
#include "turn.h"

static void client_sync(Client *c) {
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i]) {
                        queue_sync(c->slots[i]);
                        turn_look(c->manager);
                }
}

/* As deep as the path. */
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

void client_suspension_changed(Client *c) {
        client_sync(c);
        observers_client_changed(c, CLIENT_SUSPENSION);
}

void client_set_suspended(Client *c, bool suspended) {
        if (c->suspended == suspended)
                return;
        c->suspended = suspended;
        client_suspension_changed(c);
        observers_client_changed(c, CLIENT_SUSPENDED);
}
