/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Clients on the bus
 */

#include <inttypes.h>

#include "audit.h"
#include "client-dbus.h"
#include "manager-dbus.h"
#include "paths.h"
#include "service/core/counters.h"
#include "service/core/ladder.h"
#include "service/core/numbers.h"
#include "service/core/resolve.h"
#include "service/core/suspended.h"
#include "service/core/suspension.h"
#include "service/enforce/privileged.h"
#include "spread.h"
#include "suspend-dbus.h"
#include "waits-dbus.h"

static const char *client_target(const Client *c, char buf[static 64]) {
        (void) snprintf(buf, 64, "client %" PRIu64, c->id);
        return buf;
}

static AuditObject client_object(const Client *c, char buf[static 64]) {
        return (AuditObject){
                        .fields = {.client = c->id, .pid = c->peer.pid, .group = c->group->name},
                        .name = client_target(c, buf),
        };
}

BUS_GETTER(get_waits) {
        return waits_append_client(reply, userdata);
}

BUS_GETTER(get_group) {
        const Client *c = userdata;
        return sd_bus_message_append(reply, "s", c->group->name);
}

BUS_GETTER(get_container) {
        const Client *c = userdata;
        return bus_append_container(reply, property, c->peer.cgroup);
}

BUS_GETTER(get_state) {
        return sd_bus_message_append(reply, "s", queue_state_to_string(client_state(userdata)));
}

BUS_GETTER(get_privileged) {
        return sd_bus_message_append(reply, "s", privileged_state_to_string(privileged_state(userdata)));
}

BUS_GETTER(get_suspended) {
        const Client *c = userdata;
        return sd_bus_message_append(reply, "b", (int) (c->suspended || client_suspended_by(c)));
}

BUS_GETTER(get_frozen) {
        const Client *c = userdata;
        return sd_bus_message_append(reply, "b", (int) c->halted);
}

BUS_GETTER(get_suspended_by) {
        const Group *by = client_suspended_by(userdata);
        return sd_bus_message_append(reply, "s", by ? by->name : "");
}

BUS_GETTER(get_submitted) {
        ClientCounters n;
        client_counters(userdata, &n);
        return sd_bus_message_append(reply, "t", n.submitted);
}

BUS_GETTER(get_completed) {
        ClientCounters n;
        client_counters(userdata, &n);
        return sd_bus_message_append(reply, "t", n.completed);
}

BUS_GETTER(get_held) {
        ClientCounters n;
        client_counters(userdata, &n);
        return sd_bus_message_append(reply, "t", n.held_ns / NSEC_PER_USEC);
}

BUS_GETTER(get_drain) {
        uint64_t ns = ladder_client_drain(userdata);
        return sd_bus_message_append(reply, "t", ns == PREEMPTION_UNKNOWN ? ns : ns / NSEC_PER_USEC);
}

BUS_GETTER(get_lease_expired) {
        ClientCounters n;
        client_counters(userdata, &n);
        return sd_bus_message_append(reply, "t", n.lease_expired);
}

BUS_SETTINGS_GETTER(Client)

static int check_settings(sd_bus_message *message, Client *c, const Settings *s, sd_bus_error *error) {
        char target[64];

        AuthRequest request = client_set_request(c, s, client_target(c, target));
        return auth_check(c->manager->auth, message, &request, error);
}

/* `set` NULL: settings were reset. Answers the call. */
static int client_apply(Client *c, sd_bus_message *message, const Settings *set) {
        const SettingsResolved before = c->resolved;
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        char target[64];
        const AuditObject o = client_object(c, target);

        client_own_settings_changed(c);
        audit_begin(c->manager, message, &a);
        if (set)
                audit_settings(&a, &o, &before, &c->resolved, set);
        else
                audit_reset(&a, &o, &before, &c->resolved);
        return spread_client(c, message);
}

static int take_settings(sd_bus_message *message, Client *c, const Settings *s) {
        AuthRequest request = client_set_request(c, s, NULL);
        bool lowers = auth_is_for_owner(c->manager->auth, message, &request);

        bus_take_settings(c->manager, s, lowers, &c->override, &c->lowering);
        return client_apply(c, message, s);
}

BUS_CHECK(check_setting) {
        Client *c = userdata;
        Settings s = SETTINGS_NULL;

        int r = bus_read_setting(c->manager, message, member, &s, error);
        return r < 0 ? r : check_settings(message, c, &s, error);
}

BUS_SETTER(set_setting, Client *c, c->manager) {
        Settings s = SETTINGS_NULL;

        int r = bus_read_setting(c->manager, value, property, &s, error);
        if (r >= 0)
                r = take_settings(value, c, &s);
        return r < 0 ? r : SETTER_ANSWERS;
}

BUS_CHECK(check_set) {
        Client *c = userdata;
        Settings s;

        int r = bus_read_set_of_member(c->manager, message, &s, error);
        return r < 0 ? r : check_settings(message, c, &s, error);
}

BUS_CHANGE(method_set, Client *c, c->manager) {
        Settings s;

        int r = bus_read_set_of_member(c->manager, message, &s, error);
        return r < 0 ? r : take_settings(message, c, &s);
}

BUS_CHECK(check_reset) {
        Client *c = userdata;
        char target[64];

        AuthRequest request = bus_reset_request(&c->lowering, c->peer.uid, client_target(c, target));
        return bus_check_reset(c->manager, message, &request, error);
}

BUS_CHANGE(method_reset, Client *c, c->manager) {
        AuthRequest request = bus_reset_request(&c->lowering, c->peer.uid, NULL);

        if (!auth_is_for_owner(c->manager->auth, message, &request))
                c->override = SETTINGS_NULL;
        c->lowering = SETTINGS_NULL;
        return client_apply(c, message, NULL);
}

BUS_CHECK(check_suspend) {
        Client *c = userdata;
        char target[64];

        return bus_check_suspend(c->manager, message, streq(member, "Suspend"), client_target(c, target), error);
}

static int suspend(sd_bus_message *message, Client *c, bool suspended, sd_bus_error *error) {
        char target[64];
        const AuditObject o = client_object(c, target);

        if (!suspended && !c->suspended) {
                int r = bus_check_resumed(client_suspended_by(c), error);
                if (r < 0)
                        return r;
        }
        client_set_suspended(c, suspended);
        audit_suspended(c->manager, message, &o, suspended);
        return bus_answer(c->manager, message, NULL);
}

BUS_CHANGE(method_suspend, Client *c, c->manager) {
        return suspend(message, c, true, error);
}

BUS_CHANGE(method_resume, Client *c, c->manager) {
        return suspend(message, c, false, error);
}

static const GateRule client_rules[] = {
                BUS_SETTABLE_RULES,
                {},
};

static const sd_bus_vtable client_vtable[] = {
                SD_BUS_VTABLE_START(0),

                SD_BUS_PROPERTY("Id", "t", NULL, offsetof(Client, id), BUS_CONST),
                SD_BUS_PROPERTY("PID", "u", NULL, offsetof(Client, peer.pid), BUS_CONST),
                SD_BUS_PROPERTY("UID", "u", NULL, offsetof(Client, peer.uid), BUS_CONST),
                SD_BUS_PROPERTY("Command", "s", NULL, offsetof(Client, peer.command), BUS_CONST),
                SD_BUS_PROPERTY("ShimVersion", "s", NULL, offsetof(Client, shim_version), BUS_CONST),
                SD_BUS_PROPERTY("Group", "s", get_group, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("Unit", "s", NULL, offsetof(Client, peer.unit), BUS_CHANGES),
                SD_BUS_PROPERTY("Slice", "s", NULL, offsetof(Client, peer.slice), BUS_CHANGES),
                SD_BUS_PROPERTY("Container", "s", get_container, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("Pod", "s", get_container, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("PodQOS", "s", get_container, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("SlurmJob", "s", get_container, 0, BUS_CHANGES),
                // clang-format off
                SETTING_ROWS(BUS_SETTING_OF_CLIENT, )
                // clang-format on
                SD_BUS_PROPERTY("PolicySource", "s", bus_get_source, offsetof(Client, resolved.source), BUS_CHANGES),
                SD_BUS_PROPERTY("Suspended", "b", get_suspended, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("SuspendedBy", "s", get_suspended_by, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("Frozen", "b", get_frozen, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("State", "s", get_state, 0, 0),
                SD_BUS_PROPERTY("Waits", "a(sssttt)", get_waits, 0, 0),
                SD_BUS_PROPERTY("PrivilegedState", "s", get_privileged, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("NQueues", "u", NULL, offsetof(Client, n_queues), 0),
                SD_BUS_PROPERTY("Submitted", "t", get_submitted, 0, 0),
                SD_BUS_PROPERTY("Completed", "t", get_completed, 0, 0),
                SD_BUS_PROPERTY("HeldUSec", "t", get_held, 0, 0),
                SD_BUS_PROPERTY("LeaseExpired", "t", get_lease_expired, 0, 0),
                SD_BUS_PROPERTY("DrainUSec", "t", get_drain, 0, 0),
                SD_BUS_PROPERTY("NEdges", "t", NULL, offsetof(Client, n_edges), 0),

                BUS_SETTABLE_METHODS,

                SD_BUS_VTABLE_END,
};

int client_from_path(Manager *m, const char *path, Client **ret) {
        uint64_t id;

        int r = bus_path_to_id(path, CLIENT_PREFIX, &id);
        if (r <= 0)
                return r;
        Client *c = client_find(m, id);
        if (!c)
                return 0;
        *ret = c;
        return 1;
}

BUS_FIND(client_object_find) {
        return client_from_path(userdata, path, (Client **) found);
}

const sd_bus_vtable *client_vtable_get(void) {
        return client_vtable;
}

int client_dbus_attach(Manager *m) {
        const GateInterface i = {
                        .path = CLIENT_PREFIX,
                        .name = BUS_INTERFACE ".Client",
                        .vtable = client_vtable,
                        .rules = client_rules,
                        .find = client_object_find,
                        .userdata = m,
        };

        return gate_add(m->gate, &i);
}
