/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service's objects, by one call
 */

#include "tools/shared/object.h"
#include "common/array.h"
#include "tools/shared/ctl-bus.h"

static const char *const object_kind_table[_OBJECT_KIND_MAX] = {
                [OBJECT_MANAGER] = "manager",
                [OBJECT_DEVICE] = "device",
                [OBJECT_GROUP] = "group",
                [OBJECT_CLIENT] = "client",
                [OBJECT_QUEUE] = "queue",
};

const char *object_kind_to_string(ObjectKind k) {
        return object_kind_table[k];
}

const char *object_kind_interface(ObjectKind k) {
        static const char *const interfaces[_OBJECT_KIND_MAX] = {
                        [OBJECT_MANAGER] = BUS_INTERFACE,
                        [OBJECT_DEVICE] = BUS_INTERFACE ".Device",
                        [OBJECT_GROUP] = BUS_INTERFACE ".Group",
                        [OBJECT_CLIENT] = BUS_INTERFACE ".Client",
                        [OBJECT_QUEUE] = BUS_INTERFACE ".Queue",
        };

        return interfaces[k];
}

static int object_kind_from_interface(const char *interface) {
        for (ObjectKind k = 0; k < _OBJECT_KIND_MAX; k++)
                if (streq(object_kind_interface(k), interface))
                        return (int) k;
        return -EINVAL;
}

void object_done(Object *o) {
        free(o->path);
        value_done(&o->properties);
        *o = (Object){};
}

void snapshot_done(Snapshot *s) {
        object_done(&s->manager);
        for (size_t i = 0; i < s->n_objects; i++)
                object_done(s->objects + i);
        free(s->objects);
        *s = (Snapshot){};
}

int object_fetch(Ctl *c, ObjectKind kind, const char *path, sd_bus_error *e, Object *ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(object_done)
        Object o = {.kind = kind};
        int r;

        r = ctl_call_method(c, path, BUS_PROPERTIES, "GetAll", e, &reply, "s", object_kind_interface(kind));
        if (r < 0)
                return r;
        o.path = strdup(path);
        if (!o.path)
                return -ENOMEM;
        r = value_read(reply, &o.properties);
        if (r < 0)
                return r;
        *ret = TAKE_GENERIC(o, (Object){});
        return 0;
}

/* The key by which objects are sorted and found. */
typedef struct ObjectKey {
        ObjectKind kind;
        uint64_t id;      /* of clients and queues */
        const char *name; /* of devices and groups, else "" */
} ObjectKey;

static ObjectKey object_key(const Object *o) {
        ObjectKey k = {.kind = o->kind, .name = ""};

        if (o->kind == OBJECT_CLIENT || o->kind == OBJECT_QUEUE)
                k.id = object_get_uint(o, "Id");
        else
                k.name = object_get_string(o, o->kind == OBJECT_GROUP ? "Name" : "Id");
        return k;
}

static int object_key_compare(const ObjectKey *a, const ObjectKey *b) {
        if (a->kind != b->kind)
                return a->kind < b->kind ? -1 : 1;
        if (a->id != b->id)
                return a->id < b->id ? -1 : 1;
        return strcmp(a->name, b->name);
}

static int object_compare(const void *a, const void *b) {
        const ObjectKey x = object_key(a), y = object_key(b);

        return object_key_compare(&x, &y);
}

static int object_compare_key(const void *key, const void *o) {
        const ObjectKey k = object_key(o);

        return object_key_compare(key, &k);
}

static int snapshot_add(Snapshot *s, ObjectKind kind, const char *path, Value *properties) {
        Object *objects = array_grow(s->objects, s->n_objects, sizeof(Object));
        char *copy;

        if (!objects)
                return -ENOMEM;
        s->objects = objects;
        copy = strdup(path);
        if (!copy)
                return -ENOMEM;
        objects[s->n_objects++] =
                        (Object){.kind = kind, .path = copy, .properties = TAKE_GENERIC(*properties, (Value){})};
        return 0;
}

/* Reads one entry of a{oa{sa{sv}}}. Other interfaces of the object are skipped. */
static int snapshot_read_object(Snapshot *s, sd_bus_message *m) {
        const char *path, *interface;
        int r, kind;

        r = sd_bus_message_read_basic(m, 'o', &path);
        if (r < 0)
                return r;
        r = sd_bus_message_enter_container(m, 'a', "{sa{sv}}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'e', "sa{sv}")) > 0) {
                _cleanup_(value_done)
                Value properties = {};

                r = sd_bus_message_read_basic(m, 's', &interface);
                if (r < 0)
                        return r;
                r = value_read(m, &properties);
                if (r < 0)
                        return r;
                kind = object_kind_from_interface(interface);
                if (kind > OBJECT_MANAGER) {
                        r = snapshot_add(s, (ObjectKind) kind, path, &properties);
                        if (r < 0)
                                return r;
                }
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int snapshot_read(Snapshot *s, sd_bus_message *m) {
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{oa{sa{sv}}}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'e', "oa{sa{sv}}")) > 0) {
                r = snapshot_read_object(s, m);
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        return r;
}

int snapshot_fetch(Ctl *c, sd_bus_error *e, Snapshot *ret) {
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        _cleanup_(snapshot_done)
        Snapshot s = {};
        int r;

        r = object_fetch(c, OBJECT_MANAGER, BUS_PATH, e, &s.manager);
        if (r < 0)
                return r;
        r = ctl_call_method(c, NULL, BUS_OBJECTS, "GetManagedObjects", e, &reply, NULL);
        if (r < 0)
                return r;
        r = snapshot_read(&s, reply);
        if (r < 0)
                return r;
        if (s.n_objects > 0)
                qsort(s.objects, s.n_objects, sizeof(Object), object_compare);
        *ret = TAKE_GENERIC(s, (Snapshot){});
        return 0;
}

const Value *object_get(const Object *o, const char *property) {
        static const Value none = {};
        const Value *p = &o->properties;

        for (size_t i = 0; p->type == VALUE_DICT && i + 1 < p->n_items; i += 2)
                if (streq_ptr(value_get_string(p->items + i), property))
                        return p->items + i + 1;
        return &none;
}

const Value *object_get_metric(const Object *device, const char *key) {
        const Object metrics = {.properties = *object_get(device, "Metrics")};

        return object_get(&metrics, key);
}

void object_measure(Ctl *c, Object *device) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        _cleanup_(sd_bus_message_unrefp)
        sd_bus_message *reply = NULL;
        Value *old = (Value *) object_get(device, "Metrics"), metrics = {};

        if (old->type != VALUE_DICT || !startswith(object_get_string(device, "Id"), "pci:"))
                return;
        if (ctl_call_method(c, device->path, object_kind_interface(OBJECT_DEVICE), "Measure", &error, &reply, "t",
                            UINT64_C(0)) < 0 ||
                        value_read(reply, &metrics) < 0)
                return;
        value_done(old);
        *old = metrics;
}

void snapshot_measure(Ctl *c, Snapshot *s) {
        for (size_t i = 0; i < s->n_objects; i++)
                if (s->objects[i].kind == OBJECT_DEVICE && streq(object_get_string(s->objects + i, "Backend"), "kfd"))
                        object_measure(c, s->objects + i);
}

const char *object_get_string(const Object *o, const char *property) {
        return strempty(value_get_string(object_get(o, property)));
}

uint64_t object_get_uint(const Object *o, const char *property) {
        return value_get_uint(object_get(o, property));
}

const Object *snapshot_next(const Snapshot *s, ObjectKind kind, size_t *i) {
        while (*i < s->n_objects) {
                const Object *o = s->objects + (*i)++;
                if (o->kind == kind)
                        return o;
        }
        return NULL;
}

static const Object *snapshot_find(const Snapshot *s, const ObjectKey *key) {
        if (s->n_objects == 0)
                return NULL;
        return bsearch(key, s->objects, s->n_objects, sizeof(Object), object_compare_key);
}

const Object *snapshot_find_by_id(const Snapshot *s, ObjectKind kind, uint64_t id) {
        return snapshot_find(s, &(const ObjectKey){.kind = kind, .id = id, .name = ""});
}

const Object *snapshot_find_by_name(const Snapshot *s, ObjectKind kind, const char *name) {
        return snapshot_find(s, &(const ObjectKey){.kind = kind, .name = name});
}

static bool is_target(const Object *o, const char *target) {
        if (isempty(target))
                return o->kind == OBJECT_DEVICE;
        return streq(o->path, target);
}

/* Whether the target is the group, or a group that it is in. */
static bool group_is_below(const Snapshot *s, const Object *group, const char *target) {
        for (size_t depth = 0; group && depth <= s->n_objects; depth++) {
                if (is_target(group, target))
                        return true;
                group = snapshot_find_by_name(s, OBJECT_GROUP, object_get_string(group, "Parent"));
        }
        return false;
}

/* Marks a queue with its client and group, or a client with its group, if one of them is wanted. */
static void mark_chain(const Snapshot *s, const Object *const *chain, size_t n, const char *target, bool *wanted) {
        bool found = false;

        for (size_t i = 0; i < n && !found; i++)
                found = chain[i] &&
                                (chain[i]->kind == OBJECT_GROUP ? group_is_below(s, chain[i], target)
                                                                : is_target(chain[i], target));
        for (size_t i = 0; i < n && found; i++)
                if (chain[i])
                        wanted[chain[i] - s->objects] = true;
}

static void mark_related(const Snapshot *s, const Object *o, const char *target, bool *wanted) {
        const Object *chain[4] = {o};

        if (o->kind == OBJECT_QUEUE) {
                chain[1] = snapshot_find_by_id(s, OBJECT_CLIENT, object_id_from_path(object_get_string(o, "Client")));
                chain[2] = snapshot_find_by_name(s, OBJECT_DEVICE, object_get_string(o, "Device"));
        } else if (o->kind == OBJECT_CLIENT)
                chain[1] = o;
        if (chain[1])
                chain[3] = snapshot_find_by_name(s, OBJECT_GROUP, object_get_string(chain[1], "Group"));
        mark_chain(s, chain, ELEMENTSOF(chain), target, wanted);
}

int snapshot_narrow(Snapshot *s, const char *const *targets, size_t n_targets) {
        _cleanup_free_ bool *wanted = calloc(s->n_objects + 1, sizeof(bool));
        size_t n = 0;

        if (!wanted)
                return -ENOMEM;
        for (size_t t = 0; t < n_targets; t++)
                for (size_t i = 0; i < s->n_objects; i++)
                        mark_related(s, s->objects + i, targets[t], wanted);
        for (size_t i = 0; i < s->n_objects; i++)
                if (wanted[i])
                        s->objects[n++] = s->objects[i];
                else
                        object_done(s->objects + i);
        s->n_objects = n;
        return 0;
}

uint64_t object_id_from_path(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? strtoull(slash + 1, NULL, 10) : 0;
}
