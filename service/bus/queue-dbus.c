/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queues on the bus
 */

#include <inttypes.h>

#include "audit.h"
#include "manager-dbus.h"
#include "paths.h"
#include "queue-dbus.h"
#include "service/core/counters.h"
#include "service/core/hooked.h"
#include "service/core/ladder.h"
#include "service/core/numbers.h"
#include "service/core/resolve.h"
#include "service/core/suspended.h"
#include "service/core/suspension.h"
#include "service/state/client-state.h"
#include "suspend-dbus.h"
#include "waits-dbus.h"

static const char *queue_target(const Queue *q, char buf[static 64]) {
        (void) snprintf(buf, 64, "queue %" PRIu64, q->id);
        return buf;
}

static AuditObject queue_object(const Queue *q, char buf[static 64]) {
        return (AuditObject){
                        .fields = {.client = q->client->id,
                                        .queue = q->id,
                                        .pid = q->client->peer.pid,
                                        .group = q->client->group->name},
                        .name = queue_target(q, buf),
        };
}

BUS_GETTER(get_level) {
        return sd_bus_message_append(reply, "u", queue_slot(userdata)->level);
}

BUS_GETTER(get_waits) {
        return waits_append_queue(reply, userdata);
}

BUS_GETTER(get_client) {
        const Queue *q = userdata;
        _cleanup_free_ char *of_client = client_path(q->client);

        return sd_bus_message_append(reply, "o", of_client);
}

BUS_GETTER(get_device) {
        const Queue *q = userdata;
        return sd_bus_message_append(reply, "s", q->device->id);
}

BUS_GETTER(get_state) {
        return sd_bus_message_append(reply, "s", queue_state_to_string(queue_state(userdata)));
}

BUS_GETTER(get_watched) {
        return sd_bus_message_append(reply, "s", queue_watched(userdata));
}

BUS_GETTER(get_hooked) {
        return sd_bus_message_append(reply, "s", page_hooked_to_string(queue_look_hooked(userdata)));
}

BUS_GETTER(get_unheld) {
        Queue *q = userdata;

        (void) queue_look_hooked(q);
        return sd_bus_message_append(reply, "b", (int) q->unheld);
}

BUS_GETTER(get_suspended) {
        return sd_bus_message_append(reply, "b", (int) queue_is_suspended(userdata));
}

BUS_GETTER(get_backlog) {
        const Queue *q = userdata;
        uint32_t n = atomic_load_explicit(&q->page_slot->outstanding, memory_order_relaxed);
        return sd_bus_message_append(reply, "u", n & ~PAGE_OUTSTANDING_UNTRACKED);
}

BUS_GETTER(get_mean) {
        const Queue *q = userdata;
        uint32_t ns = atomic_load_explicit(&q->page_slot->mean_ns, memory_order_relaxed);
        return sd_bus_message_append(reply, "d", (double) ns / (double) NSEC_PER_USEC);
}

BUS_GETTER(get_drain) {
        uint64_t ns = ladder_queue_drain(userdata);
        return sd_bus_message_append(reply, "t", ns == PREEMPTION_UNKNOWN ? ns : ns / NSEC_PER_USEC);
}

BUS_GETTER(get_max_level) {
        return sd_bus_message_append(reply, "u", (uint32_t) ladder_queue_max_level(userdata));
}

BUS_GETTER(get_submitted) {
        ClientCounters n;
        queue_counters(userdata, &n);
        return sd_bus_message_append(reply, "t", n.submitted);
}

BUS_GETTER(get_completed) {
        ClientCounters n;
        queue_counters(userdata, &n);
        return sd_bus_message_append(reply, "t", n.completed);
}

BUS_GETTER(get_held) {
        ClientCounters n;
        queue_counters(userdata, &n);
        return sd_bus_message_append(reply, "t", n.held_ns / NSEC_PER_USEC);
}

/* `set` NULL: settings were reset. */
static int queue_apply(Queue *q, sd_bus_message *message, const Settings *set) {
        const SettingsResolved before = q->resolved;
        _cleanup_(audit_done)
        Audit a = AUDIT_NULL;
        char target[64];
        const AuditObject o = queue_object(q, target);

        int r = queue_settings_changed(q);
        if (r < 0)
                return r;
        queue_write(q);
        audit_begin(q->manager, message, &a);
        if (set)
                audit_settings(&a, &o, &before, &q->resolved, set);
        else
                audit_reset(&a, &o, &before, &q->resolved);
        return 0;
}

BUS_SETTINGS_GETTER(Queue)

static int check_settings(sd_bus_message *message, Queue *q, const Settings *s, sd_bus_error *error) {
        char target[64];

        AuthRequest request = queue_set_request(q, s, queue_target(q, target));
        return auth_check(q->manager->auth, message, &request, error);
}

static int take_settings(sd_bus_message *message, Queue *q, const Settings *s) {
        AuthRequest request = queue_set_request(q, s, NULL);
        bool lowers = auth_is_for_owner(q->manager->auth, message, &request);

        bus_take_settings(q->manager, s, lowers, &q->override, &q->lowering);
        return queue_apply(q, message, s);
}

BUS_CHECK(check_setting) {
        Queue *q = userdata;
        Settings s = SETTINGS_NULL;

        int r = bus_read_setting(q->manager, message, member, &s, error);
        return r < 0 ? r : check_settings(message, q, &s, error);
}

BUS_SETTER(set_setting, Queue *q, q->manager) {
        Settings s = SETTINGS_NULL;

        int r = bus_read_setting(q->manager, value, property, &s, error);
        return r < 0 ? r : take_settings(value, q, &s);
}

BUS_CHECK(check_set) {
        Queue *q = userdata;
        Settings s;

        int r = bus_read_set_of_member(q->manager, message, &s, error);
        return r < 0 ? r : check_settings(message, q, &s, error);
}

BUS_CHANGE(method_set, Queue *q, q->manager) {
        Settings s;

        int r = bus_read_set_of_member(q->manager, message, &s, error);
        if (r < 0)
                return r;
        r = take_settings(message, q, &s);
        return r < 0 ? r : bus_answer(q->manager, message, NULL);
}

BUS_CHECK(check_reset) {
        Queue *q = userdata;
        char target[64];

        AuthRequest request = bus_reset_request(&q->lowering, q->client->peer.uid, queue_target(q, target));
        return bus_check_reset(q->manager, message, &request, error);
}

BUS_CHANGE(method_reset, Queue *q, q->manager) {
        AuthRequest request = bus_reset_request(&q->lowering, q->client->peer.uid, NULL);

        if (!auth_is_for_owner(q->manager->auth, message, &request))
                q->override = SETTINGS_NULL;
        q->lowering = SETTINGS_NULL;
        int r = queue_apply(q, message, NULL);
        return r < 0 ? r : bus_answer(q->manager, message, NULL);
}

BUS_CHECK(check_suspend) {
        Queue *q = userdata;
        char target[64];

        return bus_check_suspend(q->manager, message, streq(member, "Suspend"), queue_target(q, target), error);
}

static int suspend(sd_bus_message *message, Queue *q, bool suspended, sd_bus_error *error) {
        char target[64];
        const AuditObject o = queue_object(q, target);

        if (!suspended && !q->suspended) {
                int r = bus_check_resumed(client_suspended_by(q->client), error);
                if (r < 0)
                        return r;
        }
        queue_set_suspended(q, suspended);
        queue_write(q);
        audit_suspended(q->manager, message, &o, suspended);
        return bus_answer(q->manager, message, NULL);
}

BUS_CHANGE(method_suspend, Queue *q, q->manager) {
        return suspend(message, q, true, error);
}

BUS_CHANGE(method_resume, Queue *q, q->manager) {
        return suspend(message, q, false, error);
}

static const GateRule queue_rules[] = {
                BUS_SETTABLE_RULES,
                {},
};

static const sd_bus_vtable queue_vtable[] = {
                SD_BUS_VTABLE_START(0),

                SD_BUS_PROPERTY("Id", "t", NULL, offsetof(Queue, id), BUS_CONST),
                SD_BUS_PROPERTY("Client", "o", get_client, 0, BUS_CONST),
                SD_BUS_PROPERTY("Device", "s", get_device, 0, BUS_CONST),
                SD_BUS_PROPERTY("Backend", "s", NULL, offsetof(Queue, backend), BUS_CONST),
                SD_BUS_PROPERTY("Label", "s", NULL, offsetof(Queue, label), BUS_CONST),
                SD_BUS_PROPERTY("Slot", "u", NULL, offsetof(Queue, slot), BUS_CONST),
                SD_BUS_PROPERTY("KfdGpuId", "u", NULL, offsetof(Queue, kfd_gpu_id), BUS_CONST),
                SD_BUS_PROPERTY("KfdQueueId", "u", NULL, offsetof(Queue, kfd_queue_id), BUS_CONST),
                // clang-format off
                SETTING_ROWS(BUS_SETTING_OF_CLIENT, )
                // clang-format on
                SD_BUS_PROPERTY("PolicySource", "s", bus_get_source, offsetof(Queue, resolved.source), BUS_CHANGES),
                SD_BUS_PROPERTY("Suspended", "b", get_suspended, 0, BUS_CHANGES),
                SD_BUS_PROPERTY("State", "s", get_state, 0, 0),
                SD_BUS_PROPERTY("Watched", "s", get_watched, 0, 0),
                SD_BUS_PROPERTY("Hooked", "s", get_hooked, 0, 0),
                SD_BUS_PROPERTY("Unheld", "b", get_unheld, 0, 0),
                SD_BUS_PROPERTY("Waits", "a(sssttt)", get_waits, 0, 0),
                SD_BUS_PROPERTY("Backlog", "u", get_backlog, 0, 0),
                SD_BUS_PROPERTY("Submitted", "t", get_submitted, 0, 0),
                SD_BUS_PROPERTY("Completed", "t", get_completed, 0, 0),
                SD_BUS_PROPERTY("HeldUSec", "t", get_held, 0, 0),
                SD_BUS_PROPERTY("MeanUSec", "d", get_mean, 0, 0),
                SD_BUS_PROPERTY("DrainUSec", "t", get_drain, 0, 0),
                SD_BUS_PROPERTY("Level", "u", get_level, 0, 0),
                SD_BUS_PROPERTY("MaxLevel", "u", get_max_level, 0, 0),

                BUS_SETTABLE_METHODS,

                SD_BUS_VTABLE_END,
};

int queue_from_path(Manager *m, const char *path, Queue **ret) {
        uint64_t id;

        int r = bus_path_to_id(path, QUEUE_PREFIX, &id);
        if (r <= 0)
                return r;
        Queue *q = queue_find(m, id);
        if (!q)
                return 0;
        *ret = q;
        return 1;
}

BUS_FIND(queue_object_find) {
        return queue_from_path(userdata, path, (Queue **) found);
}

const sd_bus_vtable *queue_vtable_get(void) {
        return queue_vtable;
}

int queue_dbus_attach(Manager *m) {
        const GateInterface i = {
                        .path = QUEUE_PREFIX,
                        .name = BUS_INTERFACE ".Queue",
                        .vtable = queue_vtable,
                        .rules = queue_rules,
                        .find = queue_object_find,
                        .userdata = m,
        };

        return gate_add(m->gate, &i);
}
