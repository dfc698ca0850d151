/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * list-devices, list-clients, list-queues, list-groups, list-policies, list-classes, list-settings
 *
 * Most columns show a property of the object, by its name. For others (a user's name, the pid behind a queue) the
 * column has a function.
 */

#include <inttypes.h>
#include <pwd.h>

#include "tools/queues/kernel-queues.h"
#include "tools/shared/ctl-bus.h"
#include "tools/xschedctl/xschedctl-list.h"
#include "tools/xschedctl/xschedctl.h"

typedef struct PropertyColumn {
        Column column;
        const char *property;
        Value (*compute)(const Snapshot *s, const Object *o); /* instead of a property */
} PropertyColumn;

static bool users_are_elsewhere;

void list_users_are_elsewhere(bool elsewhere) {
        users_are_elsewhere = elsewhere;
}

Value value_user(uint64_t uid) {
        const struct passwd *pw = users_are_elsewhere ? NULL : getpwuid((uid_t) uid);
        char buf[32];

        if (pw)
                return value_string(pw->pw_name);
        snprintf(buf, sizeof(buf), "%" PRIu64, uid);
        return value_string(buf);
}

const char *group_state(const Snapshot *s, const Object *group) {
        static const char *const by_rank[] = {"idle", "held", "running", "suspended"};
        const char *name = object_get_string(group, "Name");
        const Value *suspended = object_get(group, "Suspended");
        const Object *client;
        size_t rank = 0;

        if (suspended->type == VALUE_BOOL && suspended->b)
                return "suspended";
        SNAPSHOT_FOREACH(client, s, OBJECT_CLIENT) {
                if (!streq(object_get_string(client, "Group"), name))
                        continue;
                for (size_t i = rank + 1; i < ELEMENTSOF(by_rank); i++)
                        if (streq(object_get_string(client, "State"), by_rank[i]))
                                rank = i;
        }
        return by_rank[rank];
}

static Value compute_user(const Snapshot *s, const Object *o) {
        return value_user(object_get_uint(o, "UID"));
}

static Value compute_group_state(const Snapshot *s, const Object *o) {
        return value_string(group_state(s, o));
}

/* What started the process, other than systemd: the Slurm job, the pod, or the container. */
static Value compute_engine(const Snapshot *s, const Object *o) {
        static const struct {
                const char *property, *prefix;
        } kinds[] = {{"SlurmJob", "slurm:"}, {"Pod", "pod:"}, {"Container", ""}};
        char text[512];

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                const char *id = object_get_string(o, kinds[i].property);

                if (isempty(id))
                        continue;
                (void) snprintf(text, sizeof(text), "%s%s", kinds[i].prefix, id);
                return value_string(text);
        }
        return (Value){};
}

static Value compute_queue_client(const Snapshot *s, const Object *o) {
        return value_uint(object_id_from_path(object_get_string(o, "Client")));
}

static Value compute_queue_pid(const Snapshot *s, const Object *o) {
        const Object *client =
                        snapshot_find_by_id(s, OBJECT_CLIENT, object_id_from_path(object_get_string(o, "Client")));

        return client ? value_uint(object_get_uint(client, "PID")) : (Value){};
}

/* Only for suspended objects; empty for others. */
static Value compute_suspended_by(const Snapshot *s, const Object *o) {
        const char *by = object_get_string(o, "SuspendedBy");

        return isempty(by) ? (Value){} : value_string(by);
}

#define PLAIN(title, key, property, flags)                                                                             \
        { {title, key, CELL_PLAIN, flags}, property, NULL }
#define STATE(title, key, property)                                                                                    \
        { {title, key, CELL_STATE, 0}, property, NULL }
#define USEC(title, key, property, flags)                                                                              \
        { {title, key, CELL_USEC, COLUMN_RIGHT | (flags)}, property, NULL }
#define LIMIT(title, key, property, flags)                                                                             \
        { {title, key, CELL_LIMIT, COLUMN_RIGHT | (flags)}, property, NULL }
#define COMPUTED(title, key, f, flags)                                                                                 \
        { {title, key, CELL_PLAIN, flags}, NULL, f }

#define DEFINE_METRIC(name, key)                                                                                       \
        static Value name(const Snapshot *s, const Object *o) {                                                        \
                return value_copy(object_get_metric(o, key));                                                          \
        }

DEFINE_METRIC(compute_utilisation, "Utilisation")
DEFINE_METRIC(compute_vram_used, "VRAMUsed")
DEFINE_METRIC(compute_vram_total, "VRAMTotal")
DEFINE_METRIC(compute_temperature, "Temperature")
DEFINE_METRIC(compute_power, "Power")
DEFINE_METRIC(compute_metrics_source, "Source")

/* A column for people, shown where a device has the value. */
#define METRIC(title, key, format, f)                                                                                  \
        { {title, key, format, COLUMN_RIGHT | COLUMN_IF_KNOWN}, NULL, f }

static const PropertyColumn device_columns[] = {
                PLAIN("DEVICE", "device", "Id", COLUMN_ELASTIC),
                PLAIN("NAME", "name", "Name", COLUMN_ELASTIC),
                PLAIN("BACKEND", "backend", "Backend", 0),
                PLAIN("POLICY", "policy", "Policy", 0),
                PLAIN("CONC", "concurrency", "Concurrency", COLUMN_RIGHT),
                USEC("SLICE", "timeslice_usec", "TimeSliceUSec", 0),
                PLAIN("THRESH", "threshold", "Threshold", COLUMN_RIGHT),
                PLAIN("", "preemption", "Preemption", COLUMN_JSON),
                PLAIN("", "accounting", "Accounting", COLUMN_JSON),
                USEC("", "linger_usec", "LingerUSec", COLUMN_JSON),
                USEC("", "starve_usec", "StarveUSec", COLUMN_JSON),
                USEC("", "starve_run_usec", "StarveRunUSec", COLUMN_JSON),
                PLAIN("ENTITIES", "entities", "NEntities", COLUMN_RIGHT),
                PLAIN("READY", "ready", "NReady", COLUMN_RIGHT),
                PLAIN("PREEMPTED", "preempted", "NPreempted", COLUMN_RIGHT),
                USEC("", "busy_usec", "BusyUSec", COLUMN_JSON),
                USEC("", "kept_usec", "KeptUSec", COLUMN_JSON),
                USEC("", "hold_cost_usec", "HoldCostUSec", COLUMN_JSON),
                USEC("", "release_cost_usec", "ReleaseCostUSec", COLUMN_JSON),
                METRIC("UTIL%", "utilisation_percent", CELL_PLAIN, compute_utilisation),
                METRIC("VRAM", "vram_used_bytes", CELL_BYTES, compute_vram_used),
                {{"", "vram_total_bytes", CELL_BYTES, COLUMN_JSON}, NULL, compute_vram_total},
                METRIC("TEMP", "temperature_celsius", CELL_PLAIN, compute_temperature),
                METRIC("POWER", "power_watts", CELL_PLAIN, compute_power),
                {{"", "metrics_source", CELL_PLAIN, COLUMN_JSON}, NULL, compute_metrics_source},
};

#define SUSPENDED_BY                                                                                                   \
        PLAIN("", "suspended_by", "SuspendedBy", COLUMN_JSON),                                                         \
                        COMPUTED("SUSPENDED BY", "", compute_suspended_by,                                             \
                                        COLUMN_IF_KNOWN | COLUMN_ELASTIC | COLUMN_TEXT)

static const PropertyColumn client_columns[] = {
                PLAIN("CLIENT", "client", "Id", COLUMN_RIGHT),
                PLAIN("PID", "pid", "PID", COLUMN_RIGHT),
                COMPUTED("USER", "user", compute_user, 0),
                PLAIN("", "uid", "UID", COLUMN_JSON),
                PLAIN("COMMAND", "command", "Command", COLUMN_ELASTIC),
                STATE("STATE", "state", "State"),
                SUSPENDED_BY,
                PLAIN("CLASS", "class", "Class", 0),
                PLAIN("PRIO", "priority", "Priority", COLUMN_RIGHT),
                PLAIN("WEIGHT", "weight", "Weight", COLUMN_RIGHT),
                PLAIN("", "threshold", "Threshold", COLUMN_JSON),
                PLAIN("", "preemption", "Preemption", COLUMN_JSON),
                PLAIN("SOURCE", "source", "PolicySource", 0),
                PLAIN("QUEUES", "queues", "NQueues", COLUMN_RIGHT),
                PLAIN("", "submitted", "Submitted", COLUMN_JSON),
                PLAIN("", "completed", "Completed", COLUMN_JSON),
                USEC("HELD", "held_usec", "HeldUSec", 0),
                PLAIN("GROUP", "group", "Group", COLUMN_ELASTIC),
                PLAIN("", "unit", "Unit", COLUMN_JSON),
                PLAIN("", "slice", "Slice", COLUMN_JSON),
                PLAIN("", "container", "Container", COLUMN_JSON),
                PLAIN("", "pod", "Pod", COLUMN_JSON),
                PLAIN("", "pod_qos", "PodQOS", COLUMN_JSON),
                PLAIN("", "slurm_job", "SlurmJob", COLUMN_JSON),
};

static const PropertyColumn queue_columns[] = {
                PLAIN("QUEUE", "queue", "Id", COLUMN_RIGHT),
                COMPUTED("CLIENT", "client", compute_queue_client, COLUMN_RIGHT),
                COMPUTED("PID", "pid", compute_queue_pid, COLUMN_RIGHT),
                PLAIN("DEVICE", "device", "Device", COLUMN_ELASTIC),
                PLAIN("", "backend", "Backend", COLUMN_JSON),
                PLAIN("LABEL", "label", "Label", COLUMN_ELASTIC),
                PLAIN("", "slot", "Slot", COLUMN_JSON),
                PLAIN("", "kfd_gpu", "KfdGpuId", COLUMN_JSON),
                PLAIN("", "kfd_queue", "KfdQueueId", COLUMN_JSON),
                STATE("STATE", "state", "State"),
                PLAIN("HOOKED", "hooked", "Hooked", COLUMN_WIDE),
                PLAIN("WATCHED", "watched", "Watched", COLUMN_WIDE),
                PLAIN("PRIO", "priority", "Priority", COLUMN_RIGHT),
                PLAIN("WEIGHT", "weight", "Weight", COLUMN_RIGHT),
                PLAIN("", "threshold", "Threshold", COLUMN_JSON),
                PLAIN("", "preemption", "Preemption", COLUMN_JSON),
                PLAIN("", "source", "PolicySource", COLUMN_JSON),
                PLAIN("BACKLOG", "backlog", "Backlog", COLUMN_RIGHT | COLUMN_WIDE),
                PLAIN("SUBMITTED", "submitted", "Submitted", COLUMN_RIGHT),
                PLAIN("COMPLETED", "completed", "Completed", COLUMN_RIGHT | COLUMN_WIDE),
                USEC("HELD", "held_usec", "HeldUSec", 0),
                USEC("MEAN", "mean_usec", "MeanUSec", COLUMN_WIDE),
                PLAIN("", "level", "Level", COLUMN_JSON),
                PLAIN("", "max_level", "MaxLevel", COLUMN_JSON),
};

static const PropertyColumn group_columns[] = {
                PLAIN("GROUP", "group", "Name", COLUMN_ELASTIC | COLUMN_TREE),
                PLAIN("", "parent", "Parent", COLUMN_JSON),
                PLAIN("", "kind", "Kind", COLUMN_JSON),
                COMPUTED("ENGINE", "engine", compute_engine, COLUMN_ELASTIC | COLUMN_IF_KNOWN | COLUMN_TEXT),
                PLAIN("UNIT", "unit", "Unit", COLUMN_ELASTIC | COLUMN_WIDE),
                PLAIN("", "container", "Container", COLUMN_JSON),
                PLAIN("", "pod", "Pod", COLUMN_JSON),
                PLAIN("", "pod_qos", "PodQOS", COLUMN_JSON),
                PLAIN("", "slurm_job", "SlurmJob", COLUMN_JSON),
                {{"STATE", "state", CELL_STATE, 0}, NULL, compute_group_state},
                SUSPENDED_BY,
                PLAIN("CLASS", "class", "Class", 0),
                PLAIN("PRIO", "priority", "Priority", COLUMN_RIGHT),
                PLAIN("WEIGHT", "weight", "Weight", COLUMN_RIGHT),
                PLAIN("", "threshold", "Threshold", COLUMN_JSON),
                PLAIN("", "preemption", "Preemption", COLUMN_JSON),
                LIMIT("MAX", "max", "Max", COLUMN_WIDE),
                LIMIT("MIN", "min", "Min", COLUMN_WIDE),
                USEC("", "period_usec", "Period", COLUMN_JSON),
                PLAIN("", "accounting", "Accounting", COLUMN_JSON),
                PLAIN("SOURCE", "source", "PolicySource", COLUMN_WIDE),
                PLAIN("CLIENTS", "clients", "NClients", COLUMN_RIGHT),
                USEC("GPU", "gpu_time_usec", "GPUTimeUSec", 0),
                PLAIN("", "gpu_time_source", "GPUTimeSource", COLUMN_JSON),
                USEC("RUN", "run_usec", "RunUSec", COLUMN_WIDE),
                USEC("", "kept_usec", "KeptUSec", COLUMN_JSON),
                USEC("WAIT", "wait_usec", "WaitUSec", COLUMN_WIDE),
                USEC("", "drain_wait_usec", "DrainWaitUSec", COLUMN_JSON),
                USEC("", "service_wait_usec", "ServiceWaitUSec", COLUMN_JSON),
                PLAIN("PREEMPTED", "preempted", "NPreempted", COLUMN_RIGHT | COLUMN_WIDE),
};

static int add_object(const Snapshot *s, const Object *o, const PropertyColumn *columns, size_t parent, Table *t) {
        Value *cells = table_add(t, parent);

        if (!cells)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_columns; i++)
                cells[i] = columns[i].compute ? columns[i].compute(s, o)
                                              : value_copy(object_get(o, columns[i].property));
        return 0;
}

static int list_objects(const Snapshot *s, ObjectKind kind, const PropertyColumn *columns, size_t n_columns,
                Column *table_columns, Table *ret) {
        const Object *o;

        for (size_t i = 0; i < n_columns; i++)
                table_columns[i] = columns[i].column;
        *ret = (Table){.columns = table_columns, .n_columns = n_columns};

        SNAPSHOT_FOREACH(o, s, kind) {
                int r = add_object(s, o, columns, TABLE_NO_PARENT, ret);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Adds the groups below `parent` ("": no group), each with those below it. Recurses as deep as the cgroups are
 * nested. */
static int add_groups(const Snapshot *s, const char *parent, size_t row, Table *t) {
        const Object *o;

        SNAPSHOT_FOREACH(o, s, OBJECT_GROUP) {
                const char *name = object_get_string(o, "Name");
                size_t own = t->n_rows;

                if (!streq(strempty(object_get_string(o, "Parent")), parent))
                        continue;
                int r = add_object(s, o, group_columns, row, t);
                if (r >= 0 && !isempty(name))
                        r = add_groups(s, name, own, t);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int list_group_tree(const Snapshot *s, Table *ret) {
        static Column table_columns[ELEMENTSOF(group_columns)];

        for (size_t i = 0; i < ELEMENTSOF(group_columns); i++)
                table_columns[i] = group_columns[i].column;
        *ret = (Table){.columns = table_columns, .n_columns = ELEMENTSOF(group_columns)};
        return add_groups(s, "", TABLE_NO_PARENT, ret);
}

#define DEFINE_LIST(name, kind, columns)                                                                               \
        int name(const Snapshot *s, Table *ret) {                                                                      \
                static Column table_columns[ELEMENTSOF(columns)];                                                      \
                                                                                                                       \
                return list_objects(s, kind, columns, ELEMENTSOF(columns), table_columns, ret);                        \
        }

DEFINE_LIST(list_devices, OBJECT_DEVICE, device_columns)
DEFINE_LIST(list_clients, OBJECT_CLIENT, client_columns)
DEFINE_LIST(list_queues, OBJECT_QUEUE, queue_columns)
DEFINE_LIST(list_groups, OBJECT_GROUP, group_columns)

static int show_list(Ctl *c, int (*list)(const Snapshot *s, Table *ret), const char *singular, const char *plural) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(snapshot_done)
        Snapshot s = {};
        _cleanup_(table_done)
        Table t = {};
        int r;

        r = ctl_connect(c);
        if (r != 0)
                return r;
        r = snapshot_fetch(c, &error, &s);
        if (r < 0)
                return ctl_call_failed(c, &error, r, NULL);
        if (list == list_devices)
                snapshot_measure(c, &s);
        r = list(&s, &t);
        if (r < 0)
                return ctl_fail("out of memory");
        return table_show(c, &t, singular, plural);
}

int verb_list_devices(Ctl *c, int argc, char *argv[]) {
        return show_list(c, list_devices, "device", "devices");
}

int verb_list_clients(Ctl *c, int argc, char *argv[]) {
        return show_list(c, list_clients, "client", "clients");
}

static int show_kernel_queues(Ctl *c) {
        _cleanup_(kernel_queues_done)
        KernelQueues q = {};

        int r = kernel_queues_read(c, NULL, 0, false, &q);
        return r != 0 ? r : kernel_queues_show(c, &q);
}

int verb_list_queues(Ctl *c, int argc, char *argv[]) {
        if (c->kernel)
                return show_kernel_queues(c);
        return show_list(c, list_queues, "queue", "queues");
}

int verb_list_groups(Ctl *c, int argc, char *argv[]) {
        /* Without headings a program reads the list, which needs names and no lines between them. */
        return show_list(c, c->legend ? list_group_tree : list_groups, "group", "groups");
}

int list_fetch_array(Ctl *c, const char *member, Value *ret) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        int r;

        r = ctl_connect(c);
        if (r != 0)
                return r;
        r = ctl_call_method(c, NULL, NULL, member, &error, &reply, NULL);
        if (r < 0)
                return ctl_call_failed(c, &error, r, NULL);
        r = value_read(reply, ret);
        if (r < 0)
                return ctl_fail("cannot read the reply of %s: %s", member, strerror(-r));
        return 0;
}

/* A list whose structures have the columns of the table. */
static int list_array(Ctl *c, const char *member, const Column *columns, size_t n_columns, const char *singular,
                const char *plural) {
        _cleanup_(table_done)
        Table t = {.columns = columns, .n_columns = n_columns};
        _cleanup_(value_done)
        Value rows = {};
        int r;

        r = list_fetch_array(c, member, &rows);
        if (r != 0)
                return r;
        for (size_t i = 0; i < rows.n_items; i++) {
                const Value *row = rows.items + i;
                Value *cells = table_add(&t, TABLE_NO_PARENT);

                for (size_t k = 0; cells && k < MIN(row->n_items, n_columns); k++)
                        cells[k] = value_copy(row->items + k);
        }
        return table_show(c, &t, singular, plural);
}

int verb_list_policies(Ctl *c, int argc, char *argv[]) {
        static const Column columns[] = {
                        {"POLICY", "policy", CELL_PLAIN, 0},
                        {"DESCRIPTION", "description", CELL_PLAIN, COLUMN_ELASTIC},
        };
        return list_array(c, "ListPolicies", columns, ELEMENTSOF(columns), "policy", "policies");
}

int verb_list_classes(Ctl *c, int argc, char *argv[]) {
        static const Column columns[] = {
                        {"CLASS", "class", CELL_PLAIN, 0},
                        {"PRIO", "priority", CELL_PLAIN, COLUMN_RIGHT},
                        {"WEIGHT", "weight", CELL_PLAIN, COLUMN_RIGHT},
                        {"THRESH", "threshold", CELL_PLAIN, COLUMN_RIGHT},
                        {"", "preemption", CELL_PLAIN, COLUMN_JSON},
                        {"", "gang", CELL_PLAIN, COLUMN_JSON},
                        {"", "deadline_usec", CELL_USEC, COLUMN_JSON},
                        {"", "laxity_usec", CELL_USEC, COLUMN_JSON},
                        {"", "critical", CELL_PLAIN, COLUMN_JSON},
                        {"", "utilization", CELL_PLAIN, COLUMN_JSON},
                        {"", "active", CELL_PLAIN, COLUMN_JSON},
                        {"MAX", "max", CELL_PLAIN, COLUMN_RIGHT},
                        {"MIN", "min", CELL_PLAIN, COLUMN_RIGHT},
                        {"", "period_usec", CELL_USEC, COLUMN_JSON},
                        {"", "accounting", CELL_PLAIN, COLUMN_JSON},
                        {"DESCRIPTION", "description", CELL_PLAIN, COLUMN_ELASTIC},
        };
        static const char *const settings[] = {"Priority", "Weight", "Threshold", "Preemption", "Gang", "Deadline",
                        "Laxity", "Critical", "Utilization", "Active", "Max", "Min", "Period", "Accounting"};
        _cleanup_(table_done)
        Table t = TABLE_INIT(columns);
        _cleanup_(value_done)
        Value classes = {};
        int r;

        r = list_fetch_array(c, "ListClasses", &classes);
        if (r != 0)
                return r;
        for (size_t i = 0; i < classes.n_items; i++) {
                const Value *class = classes.items + i;
                Value *cells = table_add(&t, TABLE_NO_PARENT);

                if (!cells || class->n_items < 3)
                        continue;
                const Object o = {.properties = class->items[2]};
                cells[0] = value_copy(class->items);
                for (size_t k = 0; k < ELEMENTSOF(settings); k++)
                        cells[k + 1] = value_copy(object_get(&o, settings[k]));
                cells[1 + ELEMENTSOF(settings)] = value_copy(class->items + 1);
        }
        return table_show(c, &t, "class", "classes");
}

int verb_list_settings(Ctl *c, int argc, char *argv[]) {
        static const Column columns[] = {
                        {"TARGET", "target", CELL_PLAIN, 0},
                        {"LIFETIME", "lifetime", CELL_PLAIN, 0},
                        {"SETTINGS", "settings", CELL_PLAIN, COLUMN_ELASTIC},
        };
        return list_array(c, "ListSettings", columns, ELEMENTSOF(columns), "target", "targets");
}
