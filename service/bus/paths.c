/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Paths of objects on the bus
 */

#include <inttypes.h>
#include <stdio.h>
#include <systemd/sd-bus.h>

#include "paths.h"

static char *path_of_name(const char *prefix, const char *name) {
        char *path = NULL;

        return sd_bus_path_encode(prefix, name, &path) < 0 ? NULL : path;
}

static char *path_of_id(const char *prefix, uint64_t id) {
        char *path = NULL;

        return asprintf(&path, "%s/%" PRIu64, prefix, id) < 0 ? NULL : path;
}

char *device_path(const Device *d) {
        return path_of_name(DEVICE_PREFIX, d->id);
}

char *group_path(const Group *g) {
        return path_of_name(GROUP_PREFIX, g->name);
}

char *client_path(const Client *c) {
        return path_of_id(CLIENT_PREFIX, c->id);
}

char *queue_path(const Queue *q) {
        return path_of_id(QUEUE_PREFIX, q->id);
}

char *object_path(WalkTable table, const void *object) {
        switch (table) {
        case WALK_DEVICES:
                return device_path(object);
        case WALK_GROUPS:
                return group_path(object);
        case WALK_CLIENTS:
                return client_path(object);
        default:
                return queue_path(object);
        }
}
