/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Usage: where the time of devices went, and what groups waited for, between two moments or since the counters began
 */

#include "tools/shared/object.h"
#include "tools/shared/table.h"

/* What ListStatistics returns, as a list. A service that has no such method is one without statistics: then *ret is
 * empty. 0 or a negative errno. */
int statistics_fetch(Ctl *c, sd_bus_error *e, Value *ret);

/* A device with statistics, and the time between two snapshots of them (`before` NULL: since the device was made). */
typedef struct DeviceUse {
        const char *id, *name;
        uint64_t busy_us, kept_us, idle_us;
} DeviceUse;

/* *i from 0. False at the end. */
bool device_use_next(const Value *now, const Value *before, size_t *i, DeviceUse *ret);

/* The groups that ran on a device, longest first: "NAME 62%, NAME 12%, others 1%", of `whole_us`; "": none ran.
 * Newly allocated; NULL: no memory. */
char *device_use_runners(const Value *now, const Value *before, const char *device, double whole_us);

/* The same in percent of the time between the two. */
typedef struct DeviceShare {
        const char *id;
        bool known; /* there is such a time */
        double run, kept, idle;
} DeviceShare;

bool device_share_next(const Value *now, const Value *before, double whole_us, size_t *i, DeviceShare *ret);

/* As a table for people, with who ran. The caller owns *ret, also on failure. 0 or a negative errno. */
int device_share_table(const Value *now, const Value *before, double whole_us, Table *ret);

/* What a group waited for, in microseconds: the property itself holds the three. */
typedef struct WaitParts {
        uint64_t policy_us, drain_us, service_us;
} WaitParts;

WaitParts group_wait_parts(const Object *group);

/* "driver", "sampled", ... "" where the service does not say. time_source_mark() returns a character for a table: "~"
 * for estimated times, "?" for unknown ones. */
const char *group_time_source(const Object *group);
const char *time_source_mark(const char *source, const char *state);

/* For people: of all devices of the snapshot, and of all its groups that ran or waited. */
void print_device_use(const Snapshot *s, const Value *statistics);
void print_group_use(const Snapshot *s);
