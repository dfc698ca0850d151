/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Snapshots, from the bus
 */

#include "tools/exporter/snapshot.h"
#include "common/array.h"

#include <math.h>

/* --- objects --- */

static void device_done(SnapshotDevice *d) {
        free(d->id);
        free(d->path);
        free(d->name);
        free(d->backend);
        free(d->policy);
}

static void group_done(SnapshotGroup *g) {
        free(g->name);
        free(g->device);
        free(g->unit);
        free(g->class);
        free(g->container);
        free(g->pod);
        free(g->slurm_job);
        free(g->held_reason);
        free(g->source);
}

Snapshot *snapshot_free(Snapshot *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n_devices; i++)
                device_done(s->devices + i);
        for (size_t i = 0; i < s->n_groups; i++)
                group_done(s->groups + i);
        for (char **p = s->degraded; p && *p; p++)
                free(*p);
        free(s->devices);
        free(s->groups);
        free(s->degraded);
        free(s->version);
        free(s);
        return NULL;
}

static void unknown(uint64_t *counters, size_t n) {
        for (size_t i = 0; i < n; i++)
                counters[i] = UNKNOWN;
}

Snapshot *snapshot_new(void) {
        Snapshot *s = calloc(1, sizeof(*s));

        if (s)
                s->n_clients = s->n_queues = s->n_edges = s->n_verdicts = s->n_wakeups = s->n_lease_expired = UNKNOWN;
        return s;
}

static int device_add(Snapshot *s, const char *path, const char *id, SnapshotDevice **ret) {
        SnapshotDevice *all = array_grow(s->devices, s->n_devices, sizeof(*all)), *d;

        if (!all)
                return -ENOMEM;
        s->devices = all;
        d = all + s->n_devices;
        *d = (SnapshotDevice){
                        .id = strdup(id),
                        .path = strdup(path),
                        .utilisation = UINT32_MAX,
                        .memory = UNKNOWN,
                        .memory_used = UNKNOWN,
                        .temperature = NAN,
                        .power = NAN,
        };
        unknown(d->counters, ELEMENTSOF(d->counters));
        s->n_devices++;
        if (!d->id || !d->path)
                return -ENOMEM;
        *ret = d;
        return 0;
}

static int group_add(Snapshot *s, const char *name, const char *device, SnapshotGroup **ret) {
        SnapshotGroup *all = array_grow(s->groups, s->n_groups, sizeof(*all)), *g;

        if (!all)
                return -ENOMEM;
        s->groups = all;
        g = all + s->n_groups;
        *g = (SnapshotGroup){.name = strdup(name), .device = strdup(device)};
        unknown(g->counters, ELEMENTSOF(g->counters));
        s->n_groups++;
        if (!g->name || !g->device)
                return -ENOMEM;
        *ret = g;
        return 0;
}

/* --- values --- */

typedef struct Field {
        const char *key;
        const char *type; /* 'H': a histogram; 'M': what was measured */
        size_t offset;
} Field;

static const Field service_fields[] = {
                {"Version", "s", offsetof(Snapshot, version)},
                {"NClients", "u", offsetof(Snapshot, n_clients)},
                {"NQueues", "u", offsetof(Snapshot, n_queues)},
                {"NEdges", "t", offsetof(Snapshot, n_edges)},
                {"NVerdicts", "t", offsetof(Snapshot, n_verdicts)},
                {"NWakeups", "t", offsetof(Snapshot, n_wakeups)},
                {"NLeaseExpired", "t", offsetof(Snapshot, n_lease_expired)},
                {"Degraded", "as", offsetof(Snapshot, degraded)},
                {"DecisionHistogram", "(a(tt)tt)", offsetof(Snapshot, decision)},
                {},
};

static const Field device_fields[] = {
                {"Name", "s", offsetof(SnapshotDevice, name)},
                {"Backend", "s", offsetof(SnapshotDevice, backend)},
                {"Policy", "s", offsetof(SnapshotDevice, policy)},
                {"NEntities", "u", offsetof(SnapshotDevice, n_entities)},
                {"NReady", "u", offsetof(SnapshotDevice, n_ready)},
                {"NQueues", "u", offsetof(SnapshotDevice, n_queues)},
                {"NQueuesCalls", "u", offsetof(SnapshotDevice, n_hooked[HOOKED_KIND_CALLS])},
                {"NQueuesDoorbell", "u", offsetof(SnapshotDevice, n_hooked[HOOKED_KIND_DOORBELL])},
                {"NQueuesCreate", "u", offsetof(SnapshotDevice, n_hooked[HOOKED_KIND_CREATE])},
                {"NQueuesPoll", "u", offsetof(SnapshotDevice, n_hooked[HOOKED_KIND_POLL])},
                {"NQueuesNone", "u", offsetof(SnapshotDevice, n_hooked[HOOKED_KIND_NONE])},
                {"NQueuesUnknown", "u", offsetof(SnapshotDevice, n_hooked[HOOKED_KIND_UNKNOWN])},
                {"NQueuesUnheld", "u", offsetof(SnapshotDevice, n_unheld)},
                {"BusyUSec", "t", offsetof(SnapshotDevice, counters[DEVICE_BUSY])},
                {"KeptUSec", "t", offsetof(SnapshotDevice, counters[DEVICE_KEPT])},
                {"IdleUSec", "t", offsetof(SnapshotDevice, counters[DEVICE_IDLE])},
                {"NPreempted", "t", offsetof(SnapshotDevice, counters[DEVICE_PREEMPTED])},
                {"ReadyToRunHistogram", "(a(tt)tt)", offsetof(SnapshotDevice, ready_to_run)},
                {"Metrics", "a{sv}", 0},
                {},
};

static const Field measured_fields[] = {
                {"Utilisation", "u", offsetof(SnapshotDevice, utilisation)},
                {"VRAMTotal", "t", offsetof(SnapshotDevice, memory)},
                {"VRAMUsed", "t", offsetof(SnapshotDevice, memory_used)},
                {"Temperature", "d", offsetof(SnapshotDevice, temperature)},
                {"Power", "d", offsetof(SnapshotDevice, power)},
                {},
};

static const Field group_fields[] = {
                {"Unit", "s", offsetof(SnapshotGroup, unit)},
                {"Class", "s", offsetof(SnapshotGroup, class)},
                {"Container", "s", offsetof(SnapshotGroup, container)},
                {"Pod", "s", offsetof(SnapshotGroup, pod)},
                {"SlurmJob", "s", offsetof(SnapshotGroup, slurm_job)},
                {"HeldReason", "s", offsetof(SnapshotGroup, held_reason)},
                {"GPUTimeSource", "s", offsetof(SnapshotGroup, source)},
                {"Priority", "i", offsetof(SnapshotGroup, priority)},
                {"Weight", "u", offsetof(SnapshotGroup, weight)},
                {"NClients", "u", offsetof(SnapshotGroup, n_clients)},
                {"NQueues", "u", offsetof(SnapshotGroup, n_queues)},
                {"NHeld", "u", offsetof(SnapshotGroup, n_held)},
                {"HeldUSec", "t", offsetof(SnapshotGroup, held_us)},
                {"RunUSec", "t", offsetof(SnapshotGroup, counters[GROUP_RUN])},
                {"KeptUSec", "t", offsetof(SnapshotGroup, counters[GROUP_KEPT])},
                {"WaitUSec", "t", offsetof(SnapshotGroup, counters[GROUP_WAIT])},
                {"DrainWaitUSec", "t", offsetof(SnapshotGroup, counters[GROUP_DRAIN_WAIT])},
                {"ServiceWaitUSec", "t", offsetof(SnapshotGroup, counters[GROUP_SERVICE_WAIT])},
                {"NPreempted", "t", offsetof(SnapshotGroup, counters[GROUP_PREEMPTED])},
                {},
};

static int parse_histogram(sd_bus_message *m, SnapshotHistogram *h) {
        SnapshotHistogram read = {0};
        uint64_t bound, count;

        int r = sd_bus_message_enter_container(m, 'r', "a(tt)tt");
        if (r >= 0)
                r = sd_bus_message_enter_container(m, 'a', "(tt)");
        while (r >= 0 && (r = sd_bus_message_read(m, "(tt)", &bound, &count)) > 0) {
                /* The counts are cumulative and the bounds rise; anything else is refused. */
                if (read.n_bounds == ELEMENTSOF(read.bounds_us) ||
                                (read.n_bounds > 0 &&
                                                (bound <= read.bounds_us[read.n_bounds - 1] ||
                                                                count < read.counts[read.n_bounds - 1])))
                        return -EBADMSG;
                read.bounds_us[read.n_bounds] = bound;
                read.counts[read.n_bounds++] = count;
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r >= 0)
                r = sd_bus_message_read(m, "tt", &read.sum_us, &read.count);
        if (r >= 0 && read.n_bounds > 0 && read.count < read.counts[read.n_bounds - 1])
                return -EBADMSG;
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r >= 0)
                *h = read;
        return r;
}

static int parse_string(sd_bus_message *m, char **field) {
        const char *text;

        int r = sd_bus_message_read(m, "s", &text);
        if (r < 0)
                return r;
        free(*field);
        *field = strdup(text);
        return *field ? 0 : -ENOMEM;
}

static int parse_values(sd_bus_message *m, const Field *fields, void *object);

/* Parses a value of the type that the field names. A "u" is stored as wide as the field, which has 64 bits for the
 * service's own values, so that it can be unknown. */
static int parse_value(sd_bus_message *m, const Field *f, const Field *table, void *object) {
        void *field = (char *) object + f->offset;
        uint32_t u;

        switch (f->type[0]) {
        case 's':
                return parse_string(m, field);
        case '(':
                return parse_histogram(m, field);
        case 'a':
                return f->type[1] == 's' ? sd_bus_message_read_strv(m, field)
                                         : parse_values(m, measured_fields, object);
        case 'u':
                if (table != service_fields)
                        break;
                int r = sd_bus_message_read(m, "u", &u);
                if (r >= 0)
                        *(uint64_t *) field = u;
                return r;
        default:
                break;
        }
        return sd_bus_message_read_basic(m, f->type[0], field);
}

static int parse_entry(sd_bus_message *m, const Field *fields, void *object) {
        const char *key, *contents;
        const Field *f;
        char type;

        int r = sd_bus_message_read(m, "s", &key);
        if (r >= 0)
                r = sd_bus_message_peek_type(m, &type, &contents);
        if (r < 0)
                return r;
        for (f = fields; f->key && !(streq(f->key, key) && streq(f->type, contents)); f++)
                ;
        if (!f->key)
                return sd_bus_message_skip(m, "v");
        r = sd_bus_message_enter_container(m, 'v', contents);
        if (r >= 0)
                r = parse_value(m, f, fields, object);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int parse_values(sd_bus_message *m, const Field *fields, void *object) {
        int r = sd_bus_message_enter_container(m, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = parse_entry(m, fields, object);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

int snapshot_parse_measured(sd_bus_message *m, SnapshotDevice *d) {
        return parse_values(m, measured_fields, d);
}

static int parse_element(sd_bus_message *m, Snapshot *s) {
        static const Field none[] = {{}};
        const char *kind, *name, *device;
        SnapshotDevice *d;
        SnapshotGroup *g;

        int r = sd_bus_message_read(m, "sss", &kind, &name, &device);
        if (r < 0)
                return r;
        if (streq(kind, "service"))
                return parse_values(m, service_fields, s);
        if (streq(kind, "device")) {
                r = device_add(s, name, device, &d);
                return r < 0 ? r : parse_values(m, device_fields, d);
        }
        if (streq(kind, "group")) {
                r = group_add(s, name, device, &g);
                return r < 0 ? r : parse_values(m, group_fields, g);
        }
        return parse_values(m, none, s);
}

int snapshot_parse(sd_bus_message *m, Snapshot **ret) {
        _cleanup_(snapshot_freep)
        Snapshot *s = snapshot_new();

        if (!s)
                return -ENOMEM;
        int r = sd_bus_message_enter_container(m, 'a', "(sssa{sv})");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'r', "sssa{sv}")) > 0) {
                r = parse_element(m, s);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0)
                return r;
        s->up = true;
        *ret = TAKE_PTR(s);
        return 0;
}
