/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The service's objects
 *
 * A Snapshot is what one GetManagedObjects call returned: every device, group, client and queue with all properties, as
 * of one moment. Verbs that show several objects read one snapshot, so that what they print fits together.
 */

#include "tools/shared/ctl.h"

typedef enum ObjectKind {
        OBJECT_MANAGER,
        OBJECT_DEVICE,
        OBJECT_GROUP,
        OBJECT_CLIENT,
        OBJECT_QUEUE,
        _OBJECT_KIND_MAX,
} ObjectKind;

const char *object_kind_to_string(ObjectKind k);
const char *object_kind_interface(ObjectKind k);

typedef struct Object {
        ObjectKind kind;
        char *path;
        Value properties; /* a dict */
} Object;

typedef struct Snapshot {
        Object manager;
        Object *objects; /* by kind, then by number or name */
        size_t n_objects;
} Snapshot;

void object_done(Object *o);
void snapshot_done(Snapshot *s);

/* All properties of one object; 0 or a negative errno. */
int object_fetch(Ctl *c, ObjectKind kind, const char *path, sd_bus_error *e, Object *ret);

/* The objects, and the manager's own properties. 0 or a negative errno. */
int snapshot_fetch(Ctl *c, sd_bus_error *e, Snapshot *ret);

/* Keeps only the objects that belong to one of `targets`, each an object's path or "" for every device: the object
 * itself; its queues and those below it; and these queues' clients, groups and devices. Returns 0 or a negative
 * errno. */
int snapshot_narrow(Snapshot *s, const char *const *targets, size_t n_targets);

/* Has the service measure the device now, and puts the result into its property Metrics. Without a result the property
 * stays as it is. */
void object_measure(Ctl *c, Object *device);
void snapshot_measure(Ctl *c, Snapshot *s); /* all AMD GPUs */

/* A metric that is not known is a VALUE_NONE. */
const Value *object_get_metric(const Object *device, const char *key);

/* Never NULL: a VALUE_NONE for a property that the service does not have. */
const Value *object_get(const Object *o, const char *property);
const char *object_get_string(const Object *o, const char *property); /* never NULL */
uint64_t object_get_uint(const Object *o, const char *property);

/* The next object of a kind after *i, from *i = 0; NULL at the end. */
const Object *snapshot_next(const Snapshot *s, ObjectKind kind, size_t *i);

/* A client or a queue; NULL when there is none. */
const Object *snapshot_find_by_id(const Snapshot *s, ObjectKind kind, uint64_t id);
/* A group or a device. */
const Object *snapshot_find_by_name(const Snapshot *s, ObjectKind kind, const char *name);
uint64_t object_id_from_path(const char *path);

#define SNAPSHOT_FOREACH(o, s, kind)                                                                                   \
        for (size_t XS_CONCAT(_i, __LINE__) = 0; ((o) = snapshot_next((s), (kind), &XS_CONCAT(_i, __LINE__)));)
