/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "announce.h"
#include "calls.h"
#include "device-metrics.h"
#include "paths.h"
#include "service/base/notify.h"
#include "service/core/client.h"
#include "service/core/device.h"
#include "service/core/entity-facts.h"
#include "service/core/entity.h"
#include "service/core/group.h"
#include "service/core/manager-degraded.h"
#include "service/core/observer.h"
#include "service/core/queue.h"
#include "service/core/turn.h"
#include "tell.h"

#define PREEMPTED_INTERVAL_NS (100 * NSEC_PER_MSEC)
#define PROPERTIES_MAX        32U

/* A change, and the properties that it announces. */
typedef struct Changed {
        unsigned change;
        const char *const *properties; /* NULL-terminated */
} Changed;

#define CHANGED(c, ...)                                                                                                \
        {                                                                                                              \
                .change = (c), .properties = (const char *const[]) {                                                   \
                        __VA_ARGS__, NULL                                                                              \
                }                                                                                                      \
        }

static const Changed client_changes[] = {
                CHANGED(CLIENT_SETTINGS, SETTING_ROWS(SETTING_OF_CLIENT, ) "PolicySource"),
                CHANGED(CLIENT_GROUP, "Group", "Unit", "Slice", "Container", "Pod", "PodQOS", "SlurmJob"),
                CHANGED(CLIENT_SUSPENSION, "Suspended", "SuspendedBy"),
                CHANGED(CLIENT_FROZEN, "Frozen"),
                CHANGED(CLIENT_PRIVILEGED, "PrivilegedState"),
};

static const Changed queue_changes[] = {
                CHANGED(QUEUE_SUSPENSION, "Suspended"),
};

static const Changed group_changes[] = {
                CHANGED(GROUP_SETTINGS, SETTING_ROWS(SETTING_OF_GROUP, ) "PolicySource"),
                CHANGED(GROUP_PARENT, "Parent"),
                CHANGED(GROUP_SUSPENSION, "Suspended", "SuspendedBy"),
                CHANGED(GROUP_FROZEN, "Frozen"),
};

static const Changed device_changes[] = {
                CHANGED(DEVICE_POLICY, "Policy", "Concurrency", "TimeSliceUSec", "Threshold", "LingerUSec",
                                "StarveUSec", "StarveRunUSec"),
                CHANGED(DEVICE_TUNING, "Preemption", "AllowMESPreemption", "Accounting"),
};

static void emit_changed(WalkTable objects, const void *object, Manager *m, const char *interface, const Changed *table,
                size_t n, unsigned changes) {
        const char *names[PROPERTIES_MAX + 1];
        size_t n_names = 0;

        for (size_t i = 0; i < n; i++)
                for (const char *const *p = table[i].properties;
                                changes & table[i].change && *p && n_names < PROPERTIES_MAX; p++)
                        names[n_names++] = *p;
        names[n_names] = NULL;
        if (n_names == 0)
                return;
        _cleanup_free_ char *path = object_path(objects, object);
        (void) sd_bus_emit_properties_changed_strv(calls_bus(m->calls), path, interface, (char **) names);
}

/* --- clients --- */

static void on_client_added(Client *c, void *userdata) {
        _cleanup_free_ char *path = client_path(c);
        Manager *m = userdata;

        c->announced = true;
        (void) sd_bus_emit_object_added(calls_bus(m->calls), path);
        (void) sd_bus_emit_signal(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "ClientAdded", "to", c->id, path);
}

static void on_client_removed(Client *c, void *userdata) {
        Manager *m = userdata;

        if (!c->announced)
                return;
        _cleanup_free_ char *path = client_path(c);
        (void) sd_bus_emit_signal(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "ClientRemoved", "to", c->id, path);
        (void) sd_bus_emit_object_removed(calls_bus(m->calls), path);
}

static void on_client_changed(Client *c, unsigned changes, void *userdata) {
        if (c->announced)
                emit_changed(WALK_CLIENTS, c, userdata, BUS_INTERFACE ".Client", client_changes,
                                ELEMENTSOF(client_changes), changes);
}

/* --- queues --- */

static void on_queue_added(Queue *q, void *userdata) {
        _cleanup_free_ char *path = queue_path(q);
        Manager *m = userdata;

        q->announced = true;
        (void) sd_bus_emit_object_added(calls_bus(m->calls), path);
        turn_look(m);
        (void) sd_bus_emit_signal(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "QueueAdded", "to", q->id, path);
}

static void on_queue_removed(Queue *q, void *userdata) {
        Manager *m = userdata;

        tell_forget(q);
        if (!q->announced || m->stopping)
                return;
        _cleanup_free_ char *path = queue_path(q);
        (void) sd_bus_emit_signal(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "QueueRemoved", "to", q->id, path);
        (void) sd_bus_emit_object_removed(calls_bus(m->calls), path);
}

static void on_queue_changed(Queue *q, unsigned changes, void *userdata) {
        if (changes & QUEUE_SETTINGS)
                tell_settings(q);
        emit_changed(WALK_QUEUES, q, userdata, BUS_INTERFACE ".Queue", queue_changes, ELEMENTSOF(queue_changes),
                        changes);
}

/* --- groups --- */

static void on_group_added(Group *g, void *userdata) {
        _cleanup_free_ char *path = group_path(g);
        Manager *m = userdata;

        (void) sd_bus_emit_object_added(calls_bus(m->calls), path);
        (void) sd_bus_emit_signal(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "GroupAdded", "so", g->name, path);
}

static void on_group_removed(Group *g, void *userdata) {
        _cleanup_free_ char *path = group_path(g);
        Manager *m = userdata;

        (void) sd_bus_emit_signal(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "GroupRemoved", "so", g->name, path);
        (void) sd_bus_emit_object_removed(calls_bus(m->calls), path);
}

static void on_group_changed(Group *g, unsigned changes, void *userdata) {
        emit_changed(WALK_GROUPS, g, userdata, BUS_INTERFACE ".Group", group_changes, ELEMENTSOF(group_changes),
                        changes);
}

/* --- devices --- */

static void on_device_added(Device *d, void *userdata) {
        _cleanup_free_ char *path = device_path(d);
        Manager *m = userdata;

        (void) sd_bus_emit_object_added(calls_bus(m->calls), path);
}

static void on_device_removed(Device *d, void *userdata) {
        Manager *m = userdata;

        _cleanup_free_ char *path = m->stopping ? NULL : device_path(d);
        if (path)
                (void) sd_bus_emit_object_removed(calls_bus(m->calls), path);
        d->metrics = device_metrics_free(d->metrics);
}

static void on_device_changed(Device *d, unsigned changes, void *userdata) {
        emit_changed(WALK_DEVICES, d, userdata, BUS_INTERFACE ".Device", device_changes, ELEMENTSOF(device_changes),
                        changes);
}

static void on_device_preempted(Device *d, const Entity *e, const Entity *by, void *userdata) {
        Manager *m = userdata;
        char name[128], by_name[128] = "";
        uint64_t now = now_ns();

        if (ns_sub(now, d->preempted_signal_at) < PREEMPTED_INTERVAL_NS)
                return;
        d->preempted_signal_at = now;
        /* The winner may have been granted the device earlier, in advance. */
        for (const Entity *o = by ? NULL : d->entities; o && !by; o = o->device_next)
                if (o != e && o->told_ready && o->grant.verdict == VERDICT_RUN)
                        by = o;
        if (by)
                (void) entity_name(by, by_name, sizeof(by_name));
        _cleanup_free_ char *path = device_path(d);
        (void) sd_bus_emit_signal(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "Preempted", "oss", path,
                        entity_name(e, name, sizeof(name)), by_name);
}

static void on_degraded_changed(Manager *m, void *userdata) {
        char status[512];

        (void) userdata;
        notify_status("%s", manager_status(m, status, sizeof(status)));
        (void) sd_bus_emit_properties_changed(calls_bus(m->calls), BUS_PATH, BUS_INTERFACE, "Degraded", NULL);
}

static const ObserverOps announce_ops = {
                .client_added = on_client_added,
                .client_removed = on_client_removed,
                .client_changed = on_client_changed,
                .queue_added = on_queue_added,
                .queue_removed = on_queue_removed,
                .queue_changed = on_queue_changed,
                .group_added = on_group_added,
                .group_removed = on_group_removed,
                .group_changed = on_group_changed,
                .device_added = on_device_added,
                .device_removed = on_device_removed,
                .device_changed = on_device_changed,
                .device_preempted = on_device_preempted,
                .degraded_changed = on_degraded_changed,
};

int announce_attach(Manager *m) {
        return observer_add(m, &announce_ops, m);
}
