/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * ListSettings: the settings that were made at run time
 *
 * A group need not exist to have stored settings. This list is then the only place that shows them.
 */

#include <inttypes.h>

#include "device-settings.h"
#include "manager-dbus.h"

static int append_device_settings(sd_bus_message *reply, const DeviceSettings *s) {
        int r = sd_bus_message_open_container(reply, 'a', "{sv}");

        if (r >= 0 && s->ops)
                r = sd_bus_message_append(reply, "{sv}", "Policy", "s", s->ops->name);
        for (size_t i = 0; r >= 0 && i < DEVICE_KEYS_N; i++) {
                const DeviceKey *k = device_keys + i;
                uint64_t v = device_key_get(k, &s->values);

                if (!device_settings_has(s, k))
                        continue;
                r = k->type == 't' ? sd_bus_message_append(reply, "{sv}", k->name, "t", v)
                                   : sd_bus_message_append(reply, "{sv}", k->name, "u", (uint32_t) v);
        }
        if (r >= 0 && s->has_preemption)
                r = sd_bus_message_append(
                                reply, "{sv}", "Preemption", "s", preemption_to_string(s->preemption));
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int open_entry(sd_bus_message *reply, const char *target, const char *lifetime) {
        int r = sd_bus_message_open_container(reply, 'r', "ssa{sv}");
        return r < 0 ? r : sd_bus_message_append(reply, "ss", target, lifetime);
}

static int append_entry(
                sd_bus_message *reply, const char *target, const char *lifetime, const Settings *settings) {
        if (settings_is_empty(settings))
                return 0;
        int r = open_entry(reply, target, lifetime);
        if (r >= 0)
                r = bus_append_settings(reply, settings);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int append_member(sd_bus_message *reply, const char *kind, uint64_t id, const Settings *override,
                const Settings *lowering) {
        char target[32];

        (void) snprintf(target, sizeof(target), "%s:%" PRIu64, kind, id);
        int r = append_entry(reply, target, "runtime", override);
        return r < 0 ? r : append_entry(reply, target, "owner", lowering);
}

static int append_device(sd_bus_message *reply, const char *id, const DeviceSettings *settings) {
        char target[DEVICE_ID_MAX + sizeof("device:")];

        if (device_settings_is_empty(settings))
                return 0;
        (void) snprintf(target, sizeof(target), "device:%s", id);
        int r = open_entry(reply, target, "runtime");
        if (r >= 0)
                r = append_device_settings(reply, settings);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int append_devices(Manager *m, sd_bus_message *reply) {
        const Device *d, *next;
        int r = append_device(reply, "all", &m->every_device);

        HASH_ITER(hh, m->devices, d, next) {
                if (r < 0)
                        break;
                r = append_device(reply, d->id, &d->runtime);
        }
        return r;
}

static int append_groups(Manager *m, sd_bus_message *reply) {
        const StoredEntry *e, *next_entry;
        const Group *g, *next_group;
        int r = 0;

        HASH_ITER(hh, m->stored.entries, e, next_entry) {
                if (r < 0)
                        return r;
                r = append_entry(reply, e->name, "stored", &e->settings);
        }
        HASH_ITER(hh, m->groups, g, next_group) {
                if (r < 0)
                        return r;
                r = append_entry(reply, g->name, "runtime", &g->override);
                if (r >= 0)
                        r = append_entry(reply, g->name, "owner", &g->lowering);
        }
        return r;
}

static int append_members(Manager *m, sd_bus_message *reply) {
        const Client *c, *next_client;
        const Queue *q, *next_queue;
        int r = 0;

        HASH_ITER(hh, m->clients, c, next_client) {
                if (r < 0)
                        return r;
                r = append_member(reply, "client", c->id, &c->override, &c->lowering);
        }
        HASH_ITER(hh, m->queues, q, next_queue) {
                if (r < 0)
                        return r;
                r = append_member(reply, "queue", q->id, &q->override, &q->lowering);
        }
        return r;
}

static int append_settings(Manager *m, sd_bus_message *reply) {
        int r = append_devices(m, reply);
        if (r >= 0)
                r = append_groups(m, reply);
        return r < 0 ? r : append_members(m, reply);
}

int method_list_settings(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        return bus_reply_list(message, userdata, "(ssa{sv})", append_settings);
}
