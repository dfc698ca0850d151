/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tree of objects
 */

#include "tree-dbus.h"
#include "answer.h"
#include "bus-util.h"
#include "client-dbus.h"
#include "common/bus-names.h"
#include "device-dbus.h"
#include "group-dbus.h"
#include "paths.h"
#include "queue-dbus.h"

typedef struct Branch {
        const char *path;      /* prefix of its objects' paths */
        const char *interface; /* of its objects */
        const sd_bus_vtable *(*vtable)(void);
} Branch;

static const Branch branches[_WALK_ON_BUS_MAX] = {
                [WALK_DEVICES] = {DEVICE_PREFIX, BUS_INTERFACE ".Device", device_vtable_get},
                [WALK_GROUPS] = {GROUP_PREFIX, BUS_INTERFACE ".Group", group_vtable_get},
                [WALK_CLIENTS] = {CLIENT_PREFIX, BUS_INTERFACE ".Client", client_vtable_get},
                [WALK_QUEUES] = {QUEUE_PREFIX, BUS_INTERFACE ".Queue", queue_vtable_get},
};

/* --- GetManagedObjects --- */

/* Appends a property without a getter: the field itself. */
static int append_field(sd_bus_message *reply, const char *signature, const void *field) {
        char type = signature[0];

        if (type == SD_BUS_TYPE_STRING)
                return sd_bus_message_append_basic(reply, type, strempty(*(char *const *) field));
        return sd_bus_message_append_basic(reply, type, field);
}

static int append_property(sd_bus *bus, const char *path, const char *interface, const sd_bus_vtable *v,
                sd_bus_message *reply, void *object) {
        _cleanup_(sd_bus_error_free)
        sd_bus_error error = SD_BUS_ERROR_NULL;
        const char *member = v->x.property.member, *signature = v->x.property.signature;
        void *field = (char *) object + v->x.property.offset;

        int r = sd_bus_message_open_container(reply, SD_BUS_TYPE_DICT_ENTRY, "sv");
        if (r >= 0)
                r = sd_bus_message_append_basic(reply, SD_BUS_TYPE_STRING, member);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, SD_BUS_TYPE_VARIANT, signature);
        if (r >= 0)
                r = v->x.property.get ? v->x.property.get(bus, path, interface, member, reply, field, &error)
                                      : append_field(reply, signature, field);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int append_properties(sd_bus *bus, const char *path, const Branch *b, sd_bus_message *reply, void *object) {
        const sd_bus_vtable *v = b->vtable();

        int r = sd_bus_message_open_container(reply, SD_BUS_TYPE_ARRAY, "{sv}");
        for (; r >= 0 && v->type != _SD_BUS_VTABLE_END; v++)
                if (v->type == _SD_BUS_VTABLE_PROPERTY || v->type == _SD_BUS_VTABLE_WRITABLE_PROPERTY)
                        r = append_property(bus, path, b->interface, v, reply, object);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* The interfaces that sd-bus adds to every object. */
static int append_standard(sd_bus_message *reply) {
        static const char *const interfaces[] = {
                        BUS_PEER,
                        BUS_INTROSPECT,
                        BUS_PROPERTIES,
        };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(interfaces); i++)
                r = sd_bus_message_append(reply, "{sa{sv}}", interfaces[i], 0);
        return r;
}

/* Approximate size of an object. Its names appear up to five times: in the path, group, unit, slice and container. */
static int object_size(WalkTable table, const void *object, const char *path) {
        size_t n = 1024 + strlen(path);

        if (table == WALK_GROUPS)
                n += 6 * strlen(((const Group *) object)->name);
        if (table == WALK_CLIENTS)
                n += 6 * strlen(((const Client *) object)->group->name) +
                                6 * strlen(((const Client *) object)->peer.cgroup);
        if (table == WALK_QUEUES)
                n += strlen(((const Queue *) object)->label);
        return (int) n;
}

static int append_object(Answer *a, WalkTable table, void *object) {
        const Branch *b = branches + table;
        _cleanup_free_ char *path = object_path(table, object);
        sd_bus_message *m = a->reply;

        if (!path)
                return -ENOMEM;
        int r = sd_bus_message_open_container(m, SD_BUS_TYPE_DICT_ENTRY, "oa{sa{sv}}");
        if (r >= 0)
                r = sd_bus_message_append_basic(m, SD_BUS_TYPE_OBJECT_PATH, path);
        if (r >= 0)
                r = sd_bus_message_open_container(m, SD_BUS_TYPE_ARRAY, "{sa{sv}}");
        if (r >= 0)
                r = append_standard(m);
        if (r >= 0)
                r = sd_bus_message_open_container(m, SD_BUS_TYPE_DICT_ENTRY, "sa{sv}");
        if (r >= 0)
                r = sd_bus_message_append_basic(m, SD_BUS_TYPE_STRING, b->interface);
        if (r >= 0)
                r = append_properties(calls_bus(a->manager->calls), path, b, m, object);
        for (unsigned i = 0; r >= 0 && i < 3; i++)
                r = sd_bus_message_close_container(m);
        return r < 0 ? r : object_size(table, object, path);
}

static int answer_objects(Manager *m, sd_bus_message *message) {
        static const AnswerOps ops = {
                        .object = append_object,
                        .end = answer_send,
                        .tables = {WALK_DEVICES, WALK_GROUPS, WALK_CLIENTS, WALK_QUEUES},
                        .n_tables = 4,
        };
        return answer_list(m, message, &ops, "{oa{sa{sv}}}");
}

/* --- Introspect --- */

static const char introspection[] = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n"
                                    "\"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n"
                                    "<node>\n"
                                    " <interface name=\"" BUS_PEER "\">\n"
                                    "  <method name=\"Ping\"/>\n"
                                    "  <method name=\"GetMachineId\">\n"
                                    "   <arg type=\"s\" name=\"machine_uuid\" direction=\"out\"/>\n"
                                    "  </method>\n"
                                    " </interface>\n"
                                    " <interface name=\"" BUS_INTROSPECT "\">\n"
                                    "  <method name=\"Introspect\">\n"
                                    "   <arg name=\"xml_data\" type=\"s\" direction=\"out\"/>\n"
                                    "  </method>\n"
                                    " </interface>\n";

static int print_begin(Answer *a, WalkTable table) {
        return fprintf(a->file, "%s", introspection);
}

/* The path is made of letters, digits and '_'. */
static int print_node(Answer *a, WalkTable table, void *object) {
        _cleanup_free_ char *path = object_path(table, object);

        if (!path)
                return -ENOMEM;
        return fprintf(a->file, " <node name=\"%s\"/>\n", path + strlen(a->prefix) + 1);
}

static int print_end(Answer *a) {
        if (fprintf(a->file, "</node>\n") < 0)
                return -ENOMEM;
        return answer_send_text(a);
}

static int answer_nodes(Manager *m, sd_bus_message *message, WalkTable table) {
#define NODES(t)                                                                                                       \
        { .begin = print_begin, .object = print_node, .end = print_end, .tables = {t}, .n_tables = 1 }
        static const AnswerOps ops[_WALK_ON_BUS_MAX] = {
                        [WALK_DEVICES] = NODES(WALK_DEVICES),
                        [WALK_GROUPS] = NODES(WALK_GROUPS),
                        [WALK_CLIENTS] = NODES(WALK_CLIENTS),
                        [WALK_QUEUES] = NODES(WALK_QUEUES),
        };
#undef NODES
        return answer_text(m, message, ops + table, branches[table].path);
}

int tree_answer(Manager *m, sd_bus_message *message) {
        const char *path = sd_bus_message_get_path(message);

        if (!path || !sd_bus_message_is_empty(message))
                return 0;
        if (sd_bus_message_is_method_call(message, BUS_OBJECTS, "GetManagedObjects"))
                return streq(path, BUS_PATH) ? answer_objects(m, message) : 0;
        if (!sd_bus_message_is_method_call(message, BUS_INTROSPECT, "Introspect"))
                return 0;
        for (WalkTable t = 0; t < _WALK_ON_BUS_MAX; t++)
                if (streq(path, branches[t].path))
                        return answer_nodes(m, message, t);
        return 0;
}
