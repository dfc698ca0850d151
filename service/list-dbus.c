/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lists and look-ups of the manager
 */

#include "config.h"
#include "manager-dbus.h"

int bus_reply_list(sd_bus_message *message, Manager *m, const char *contents, bus_append_t append) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;

        int r = sd_bus_message_new_method_return(message, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', contents);
        if (r >= 0)
                r = append(m, reply);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_send(reply);
}

static int append_devices(Manager *m, sd_bus_message *reply) {
        Device *d, *tmp;
        int r = 0;

        HASH_ITER(hh, m->devices, d, tmp) {
                r = sd_bus_message_append(reply, "(ssssuo)", d->id, d->name, d->backend, d->ops->name,
                                d->n_entities, d->path);
                if (r < 0)
                        break;
        }
        return r;
}

static int append_clients(Manager *m, sd_bus_message *reply) {
        Client *c, *tmp;
        int r = 0;

        HASH_ITER(hh, m->clients, c, tmp) {
                r = sd_bus_message_append(reply, "(tuusso)", c->id, (uint32_t) c->peer.pid,
                                (uint32_t) c->peer.uid, c->peer.command, c->group->name, c->path);
                if (r < 0)
                        break;
        }
        return r;
}

static int append_queues(Manager *m, sd_bus_message *reply) {
        Queue *q, *tmp;
        int r = 0;

        HASH_ITER(hh, m->queues, q, tmp) {
                r = sd_bus_message_append(
                                reply, "(ttsso)", q->id, q->client->id, q->device->id, q->label, q->path);
                if (r < 0)
                        break;
        }
        return r;
}

static int append_groups(Manager *m, sd_bus_message *reply) {
        Group *g, *tmp;
        int r = 0;

        HASH_ITER(hh, m->groups, g, tmp) {
                r = sd_bus_message_append(reply, "(ssiuo)", g->name, g->resolved.class,
                                g->resolved.policy.priority, g->resolved.policy.weight, g->path);
                if (r < 0)
                        break;
        }
        return r;
}

static int append_policies(Manager *m, sd_bus_message *reply) {
        int r = 0;

        for (const PolicyOps *const *p = policy_all; r >= 0 && *p; p++)
                r = sd_bus_message_append(reply, "(ss)", (*p)->name, (*p)->description);
        return r;
}

static int append_classes(Manager *m, sd_bus_message *reply) {
        const Classes *classes = &m->config->classes;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < classes->n; i++) {
                const Class *c = classes->classes + i;
                r = sd_bus_message_open_container(reply, 'r', "ssa{sv}");
                if (r >= 0)
                        r = sd_bus_message_append(reply, "ss", c->name, c->description);
                if (r >= 0)
                        r = bus_append_settings(reply, &c->settings);
                if (r >= 0)
                        r = sd_bus_message_close_container(reply);
        }
        return r;
}

int method_list_devices(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ssssuo)", append_devices);
}

int method_list_clients(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(tuusso)", append_clients);
}

int method_list_queues(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ttsso)", append_queues);
}

int method_list_groups(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ssiuo)", append_groups);
}

int method_list_policies(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ss)", append_policies);
}

int method_list_classes(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ssa{sv})", append_classes);
}

int client_from_pidfd(Manager *m, int fd, Client **ret, sd_bus_error *error) {
        uint64_t start_time = 0;
        pid_t pid = 0;

        int r = pidfd_get_pid(fd, &pid);
        if (r == -EBADF) {
                (void) sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, "That is not a pidfd");
                return r;
        }
        if (r >= 0)
                r = process_stat(pid, NULL, &start_time);
        /* Alive after the reading: then the start time was its own. */
        if (r >= 0 && pidfd_is_alive(fd) <= 0)
                r = -ESRCH;
        if (r < 0) {
                (void) sd_bus_error_set(error, BUS_ERROR("NoSuchClient"), "The process has ended");
                return r;
        }

        Client *c = client_find_by_pid(m, pid, start_time);
        if (!c) {
                (void) sd_bus_error_setf(
                                error, BUS_ERROR("NoSuchClient"), "Process %d is no client", (int) pid);
                return -ENXIO;
        }
        *ret = c;
        return 0;
}

int method_get_client_by_pidfd(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Client *c;
        int fd;

        int r = sd_bus_message_read(message, "h", &fd);
        if (r < 0)
                return r;
        r = client_from_pidfd(userdata, fd, &c, error);
        return r < 0 ? r : sd_bus_reply_method_return(message, "o", c->path);
}

int method_get_client_by_pid(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        uint32_t pid;

        int r = sd_bus_message_read(message, "u", &pid);
        if (r < 0)
                return r;
        const Client *c = client_find_by_pid(userdata, (pid_t) pid, 0);
        if (!c)
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchClient"), "Process %u is no client", pid);
        return sd_bus_reply_method_return(message, "o", c->path);
}

int method_get_group(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        const char *name;

        int r = sd_bus_message_read(message, "s", &name);
        if (r < 0)
                return r;
        const Group *g = group_find(userdata, name);
        if (!g)
                return sd_bus_error_setf(
                                error, BUS_ERROR("NoSuchGroup"), "There is no group '%.256s'", name);
        return sd_bus_reply_method_return(message, "o", g->path);
}
