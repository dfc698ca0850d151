/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lists and look-ups of the manager
 */

#include "list-dbus.h"
#include "answer.h"
#include "manager-dbus.h"
#include "paths.h"
#include "service/core/numbers.h"
#include "service/settings/xsched-conf.h"

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

/* Approximate size of an element without its strings. */
#define ELEMENT_SIZE 64

static int append_device(Answer *a, WalkTable table, void *object) {
        const Device *d = object;
        _cleanup_free_ char *path = device_path(d);

        if (!path)
                return -ENOMEM;
        int r = sd_bus_message_append(
                        a->reply, "(ssssuo)", d->id, d->name, d->backend, d->ops->name, d->n_entities, path);
        return r < 0 ? r : ELEMENT_SIZE + (int) (4 * strlen(path) + strlen(d->name));
}

static int append_client(Answer *a, WalkTable table, void *object) {
        const Client *c = object;
        _cleanup_free_ char *path = client_path(c);

        if (!path)
                return -ENOMEM;
        int r = sd_bus_message_append(a->reply, "(tuusso)", c->id, (uint32_t) c->peer.pid, (uint32_t) c->peer.uid,
                        c->peer.command, c->group->name, path);
        return r < 0 ? r : ELEMENT_SIZE + (int) (strlen(c->peer.command) + strlen(c->group->name) + strlen(path));
}

static int append_queue(Answer *a, WalkTable table, void *object) {
        const Queue *q = object;
        _cleanup_free_ char *path = queue_path(q);

        if (!path)
                return -ENOMEM;
        int r = sd_bus_message_append(a->reply, "(ttsso)", q->id, q->client->id, q->device->id, q->label, path);
        return r < 0 ? r : ELEMENT_SIZE + (int) (strlen(q->device->id) + strlen(q->label) + strlen(path));
}

static int append_group(Answer *a, WalkTable table, void *object) {
        const Group *g = object;
        _cleanup_free_ char *path = group_path(g);

        if (!path)
                return -ENOMEM;
        int r = sd_bus_message_append(a->reply, "(ssiuo)", g->name, g->resolved.class, g->resolved.policy.priority,
                        g->resolved.policy.weight, path);
        return r < 0 ? r : ELEMENT_SIZE + (int) (strlen(g->name) + strlen(path));
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
        static const AnswerOps ops = {
                        .object = append_device,
                        .end = answer_send,
                        .tables = {WALK_DEVICES},
                        .n_tables = 1,
        };
        return answer_list(userdata, message, &ops, "(ssssuo)");
}

int method_list_clients(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static const AnswerOps ops = {
                        .object = append_client,
                        .end = answer_send,
                        .tables = {WALK_CLIENTS},
                        .n_tables = 1,
        };
        return answer_list(userdata, message, &ops, "(tuusso)");
}

int method_list_queues(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static const AnswerOps ops = {
                        .object = append_queue,
                        .end = answer_send,
                        .tables = {WALK_QUEUES},
                        .n_tables = 1,
        };
        return answer_list(userdata, message, &ops, "(ttsso)");
}

int method_list_groups(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        static const AnswerOps ops = {
                        .object = append_group,
                        .end = answer_send,
                        .tables = {WALK_GROUPS},
                        .n_tables = 1,
        };
        return answer_list(userdata, message, &ops, "(ssiuo)");
}

int method_list_policies(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ss)", append_policies);
}

int method_list_classes(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ssa{sv})", append_classes);
}

int client_from_process(Manager *m, sd_bus_message *message, Client **ret, sd_bus_error *error) {
        _cleanup_(peer_done)
        Peer caller = PEER_NULL;
        ProcessName p;

        int r = bus_read_process(message, &p);
        if (r < 0)
                return r;
        if (p.pid == 0) {
                r = peer_from_sender(m->connections, message, &caller);
                if (r < 0) {
                        (void) bus_peer_error(r, error);
                        return r;
                }
                if (p.start_time == 0 || p.start_time == caller.start_time)
                        p = (ProcessName){.pid = (uint32_t) caller.pid, .start_time = caller.start_time};
        }
        *ret = client_find_by_pid(m, (pid_t) p.pid, p.start_time);
        if (*ret)
                return 0;
        (void) sd_bus_error_setf(error, BUS_ERROR("NoSuchClient"), "Process %u is no client", p.pid);
        return -ENXIO;
}

int method_get_client_by_process(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Client *c = NULL;

        int r = client_from_process(userdata, message, &c, error);
        if (r < 0 || !c)
                return r;
        _cleanup_free_ char *path = client_path(c);
        return sd_bus_reply_method_return(message, "o", path);
}

int method_get_client_by_pid(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        uint32_t pid;

        int r = sd_bus_message_read(message, "u", &pid);
        if (r < 0)
                return r;
        const Client *c = client_find_by_pid(userdata, (pid_t) pid, 0);
        if (!c)
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchClient"), "Process %u is no client", pid);
        _cleanup_free_ char *path = client_path(c);
        return sd_bus_reply_method_return(message, "o", path);
}

int method_get_group(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        const char *name;

        int r = sd_bus_message_read(message, "s", &name);
        if (r < 0)
                return r;
        const Group *g = group_find(userdata, name);
        if (!g)
                return sd_bus_error_setf(error, BUS_ERROR("NoSuchGroup"), "There is no group '%s'", name);
        _cleanup_free_ char *path = group_path(g);
        return sd_bus_reply_method_return(message, "o", path);
}
