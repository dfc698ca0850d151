/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Authorisation of property writes
 *
 * A setter cannot wait for an answer of polkit, a message filter can. This one sees every call of org.freedesktop.DBus.Properties.Set
 * for our objects first, refuses what is wrong, asks, and lets the call through to its setter when it may pass.
 */

#include "arbiter.h"
#include "manager-dbus.h"

/* What the write asks for. Returns 0 and the request, or > 0 when there is no such object: then the call passes, and fails by itself. */
static int property_request(Manager *m, sd_bus_message *message, const char *interface, const char *property,
                AuthRequest *ret, sd_bus_error *error) {
        const char *path = sd_bus_message_get_path(message);
        PolicySettings changed;
        Settings s = SETTINGS_NULL;
        Client *c;
        Device *d;
        Group *g;
        Queue *q;
        int r;

        if (streq(interface, BUS_INTERFACE ".Device") && device_from_path(m, path, &d) > 0) {
                *ret = (AuthRequest){.action = AUTH_MANAGE, .verb = "set-policy", .target = d->id};
                return device_check_property(message, property, error);
        }

        r = bus_read_setting(m, message, property, &s, error);
        if (r < 0)
                return r;
        if (streq(interface, BUS_INTERFACE ".Group") && group_from_path(m, path, &g) > 0) {
                group_would_be(g, &s, &changed);
                *ret = bus_settings_request(&g->resolved.policy, &changed, group_owner(g), g->name);
                return 0;
        }
        if (streq(interface, BUS_INTERFACE ".Client") && client_from_path(m, path, &c) > 0) {
                client_would_be(c, &s, &changed);
                *ret = bus_settings_request(&c->resolved.policy, &changed, c->peer.uid, path);
                return 0;
        }
        if (streq(interface, BUS_INTERFACE ".Queue") && queue_from_path(m, path, &q) > 0) {
                queue_would_be(q, &s, &changed);
                *ret = bus_settings_request(&q->resolved.policy, &changed, q->client->peer.uid, path);
                return 0;
        }
        return 1;
}

/* Only properties that the vtables let be written come as far as to be asked about. */
static bool is_writable(const char *interface, const char *property) {
        static const char *const device[] = {
                        "Policy", "Concurrency", "TimeSliceUSec", "Threshold", "Preemption"};

        if (streq(interface, BUS_INTERFACE ".Device")) {
                for (size_t i = 0; i < ELEMENTSOF(device); i++)
                        if (streq(device[i], property))
                                return true;
                return false;
        }
        int k = settings_key_from_string(property);
        if (streq(interface, BUS_INTERFACE ".Queue"))
                return k >= 0 && k != SETTINGS_CLASS && k != SETTINGS_GANG &&
                                !settings_key_is_of_groups((SettingsKey) k);
        if (streq(interface, BUS_INTERFACE ".Client"))
                return k >= 0 && !settings_key_is_of_groups((SettingsKey) k);
        return k >= 0 && streq(interface, BUS_INTERFACE ".Group");
}

static int check_property_write(Manager *m, sd_bus_message *message, sd_bus_error *error) {
        const char *interface, *property, *contents;
        AuthRequest request;

        int r = sd_bus_message_read(message, "ss", &interface, &property);
        if (r < 0)
                return r;
        if (!is_writable(interface, property))
                return 0;
        r = sd_bus_message_peek_type(message, NULL, &contents);
        if (r < 0)
                return r;
        r = sd_bus_message_enter_container(message, 'v', contents);
        if (r < 0)
                return r;
        r = property_request(m, message, interface, property, &request, error);
        if (r != 0)
                return r < 0 ? r : 0;

        r = auth_check(m->auth, message, &request, error);
        if (r < 0)
                return r;
        return r == 0 ? 1 : 0;
}

int property_filter(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        const char *path = sd_bus_message_get_path(message);

        if (!sd_bus_message_is_method_call(message, "org.freedesktop.DBus.Properties", "Set"))
                return 0;
        if (!path || !startswith(path, BUS_PATH "/") || !sd_bus_message_has_signature(message, "ssv"))
                return 0;

        int r = check_property_write(userdata, message, error);
        if (r != 0)
                return r;
        /* sd-bus reads on from wherever a filter stopped. */
        r = sd_bus_message_rewind(message, true);
        return r < 0 ? r : 0;
}
