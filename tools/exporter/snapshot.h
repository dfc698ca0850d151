/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Snapshot: the numbers of the service, its devices, and the groups that use them, at one moment
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"
#include "tools/exporter/host.h"

#define SNAPSHOT_BOUNDS_MAX  64U
#define SNAPSHOT_REASONS_MAX 64U

/* The value of a counter or a number that the service does not tell. */
#define UNKNOWN UINT64_MAX

typedef struct SnapshotHistogram {
        size_t n_bounds; /* 0: the service tells none */
        uint64_t bounds_us[SNAPSHOT_BOUNDS_MAX], counts[SNAPSHOT_BOUNDS_MAX];
        uint64_t sum_us, count;
} SnapshotHistogram;

/* Counters, by the service's names. Spans are microseconds. */
typedef enum DeviceCounter {
        DEVICE_BUSY,
        DEVICE_KEPT,
        DEVICE_IDLE,
        DEVICE_PREEMPTED,
        _DEVICE_COUNTER_MAX,
} DeviceCounter;

/* How the launches of a queue are seen. */
typedef enum HookedKind {
        HOOKED_KIND_CALLS,
        HOOKED_KIND_DOORBELL,
        HOOKED_KIND_CREATE,
        HOOKED_KIND_POLL,
        HOOKED_KIND_NONE,
        HOOKED_KIND_UNKNOWN,
        _HOOKED_KIND_MAX,
} HookedKind;

typedef struct SnapshotDevice {
        char *id, *path, *name, *backend, *policy;
        uint32_t n_entities, n_ready, n_queues;
        uint32_t n_hooked[_HOOKED_KIND_MAX], n_unheld; /* of these */
        uint64_t counters[_DEVICE_COUNTER_MAX];
        SnapshotHistogram ready_to_run;

        /* As measured last. */
        uint32_t utilisation; /* percent; UINT32_MAX: not known */
        uint64_t memory, memory_used;
        double temperature, power; /* NaN: not known */
} SnapshotDevice;

typedef enum GroupCounter {
        GROUP_RUN,
        GROUP_KEPT,
        GROUP_WAIT,
        GROUP_DRAIN_WAIT,
        GROUP_SERVICE_WAIT,
        GROUP_PREEMPTED,
        _GROUP_COUNTER_MAX,
} GroupCounter;

/* A group on a device. */
typedef struct SnapshotGroup {
        char *name, *device, *unit, *class, *container, *pod, *slurm_job, *held_reason, *source;
        int32_t priority;
        uint32_t weight, n_clients, n_queues, n_held;
        uint64_t held_us;
        uint64_t counters[_GROUP_COUNTER_MAX];
} SnapshotGroup;

typedef struct Snapshot {
        bool up; /* the service answered */
        char *version;
        char **degraded; /* NULL-terminated; may be NULL */
        uint64_t n_clients, n_queues, n_edges, n_verdicts, n_wakeups, n_lease_expired;
        SnapshotHistogram decision;

        SnapshotDevice *devices;
        size_t n_devices;
        SnapshotGroup *groups;
        size_t n_groups;

        HostMetrics host; /* where it is asked for */

        double seconds; /* that it took to ask */
} Snapshot;

Snapshot *snapshot_free(Snapshot *s);
DEFINE_TRIVIAL_CLEANUP_FUNC(Snapshot *, snapshot_free);

/* An empty one, for a service that did not answer. NULL: no memory. */
Snapshot *snapshot_new(void);

/* Makes a snapshot of an answer to ListStatistics. Skips unknown entries, so that a newer service can say more. Returns
 * 0 or a negative errno. */
int snapshot_parse(sd_bus_message *m, Snapshot **ret);

/* Reads an answer to Measure of one of its devices. */
int snapshot_parse_measured(sd_bus_message *m, SnapshotDevice *d);
