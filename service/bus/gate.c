/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate: rules for calls, found by the vtables
 *
 * It is a filter of sd-bus: it sees every message before any object does, also those for paths that do not exist, and
 * again when a message comes back from polkit.
 */

#include "gate.h"
#include "common/bus-names.h"

#define GATE_INTERFACES_MAX 16U

struct Gate {
        sd_bus *bus;
        Auth *auth;
        sd_bus_slot *filter;
        GateInterface interfaces[GATE_INTERFACES_MAX];
        size_t n_interfaces;
};

static const sd_bus_vtable *vtable_next(const sd_bus_vtable *all, const sd_bus_vtable *v) {
        return (const sd_bus_vtable *) ((const char *) v + all[0].x.start.element_size);
}

static const sd_bus_vtable *find_method(const sd_bus_vtable *all, const char *member) {
        for (const sd_bus_vtable *v = all; v->type != _SD_BUS_VTABLE_END; v = vtable_next(all, v))
                if (v->type == _SD_BUS_VTABLE_METHOD && streq(v->x.method.member, member))
                        return v;
        return NULL;
}

static const sd_bus_vtable *find_property(const sd_bus_vtable *all, const char *member) {
        for (const sd_bus_vtable *v = all; v->type != _SD_BUS_VTABLE_END; v = vtable_next(all, v))
                if ((v->type == _SD_BUS_VTABLE_PROPERTY || v->type == _SD_BUS_VTABLE_WRITABLE_PROPERTY) &&
                                streq(v->x.property.member, member))
                        return v;
        return NULL;
}

static const GateRule *rule_of_method(const GateInterface *i, sd_bus_message_handler_t method) {
        for (const GateRule *r = i->rules; r->method || r->setter; r++)
                if (method && r->method == method)
                        return r;
        return NULL;
}

static const GateRule *rule_of_setter(const GateInterface *i, sd_bus_property_set_t setter) {
        for (const GateRule *r = i->rules; r->method || r->setter; r++)
                if (setter && r->setter == setter)
                        return r;
        return NULL;
}

static bool path_is_below(const char *path, const char *prefix) {
        const char *rest = startswith(path, prefix);
        return rest && (*rest == '\0' || *rest == '/');
}

/* Finds the object of the path and its interface. Messages to anything else are refused. */
static int find_object(Gate *g, const char *path, const char *name, const GateInterface **ret, void **ret_object,
                sd_bus_error *error) {
        bool known = false;

        for (const GateInterface *i = g->interfaces; i < g->interfaces + g->n_interfaces; i++) {
                void *object = i->userdata;

                if (i->find ? !path_is_below(path, i->path) : !streq(path, i->path))
                        continue;
                if (i->find) {
                        int r = i->find(g->bus, path, i->name, i->userdata, &object, error);
                        if (r < 0)
                                return r;
                        if (r == 0)
                                continue;
                }
                known = true;
                if (!streq(i->name, name))
                        continue;
                *ret = i;
                *ret_object = object;
                return 0;
        }
        return known ? sd_bus_error_setf(error, SD_BUS_ERROR_UNKNOWN_INTERFACE, "Unknown interface '%s'", name)
                     : sd_bus_error_setf(error, SD_BUS_ERROR_UNKNOWN_OBJECT, "Unknown object '%s'", path);
}

static int no_rule(const char *member, sd_bus_error *error) {
        return sd_bus_error_setf(
                        error, SD_BUS_ERROR_ACCESS_DENIED, "Not authorised: no rule allows the use of %s", member);
}

static int not_here(const char *member, sd_bus_error *error) {
        return sd_bus_error_setf(error, SD_BUS_ERROR_ACCESS_DENIED,
                        "This socket is for registrations: %s is to be called on the bus", member);
}

/* Runs the rule's check. Returns > 0: the message goes on to its function. 0: polkit was asked. */
static int run_check(Gate *g, const GateRule *rule, sd_bus_message *message, void *object, const char *member,
                sd_bus_error *error) {
        int r = rule->check(message, object, member, error);
        if (r <= 0)
                return r;
        if (!auth_is_granted(g->auth, message))
                return no_rule(member, error);
        /* The check has read the message, and sd-bus would go on reading where the check stopped. */
        r = sd_bus_message_rewind(message, true);
        return r < 0 ? r : 1;
}

/* Calls the setter in place of sd-bus, which would answer as soon as the setter returns. */
static int set_property(Gate *g, const GateInterface *i, const sd_bus_vtable *v, sd_bus_message *message, void *object,
                sd_bus_error *error) {
        const char *name, *property;

        int r = sd_bus_message_read(message, "ss", &name, &property);
        if (r >= 0)
                r = sd_bus_message_enter_container(message, 'v', v->x.property.signature);
        if (r >= 0)
                r = v->x.property.set(g->bus, sd_bus_message_get_path(message), i->name, property, message,
                                (char *) object + v->x.property.offset, error);
        if (r >= 0 && r != SETTER_ANSWERS)
                r = sd_bus_reply_method_return(message, NULL);
        return MIN(r, 0);
}

/* Returns 0: the call was answered, will be, or waits. */
static int pass_set(Gate *g, sd_bus_message *message, sd_bus_error *error) {
        const char *name, *property, *contents, *path = sd_bus_message_get_path(message);
        const GateInterface *i = NULL;
        void *object;

        if (!sd_bus_message_has_signature(message, "ssv"))
                return sd_bus_error_set(
                                error, SD_BUS_ERROR_INVALID_ARGS, "Set takes an interface, a property and a value");
        int r = sd_bus_message_read(message, "ss", &name, &property);
        if (r < 0)
                return r;
        r = find_object(g, path, name, &i, &object, error);
        if (r < 0 || !i)
                return r;
        const sd_bus_vtable *v = find_property(i->vtable, property);
        if (!v)
                return sd_bus_error_setf(error, SD_BUS_ERROR_UNKNOWN_PROPERTY, "Unknown property '%s'", property);
        if (v->type != _SD_BUS_VTABLE_WRITABLE_PROPERTY)
                return sd_bus_error_setf(
                                error, SD_BUS_ERROR_PROPERTY_READ_ONLY, "Property '%s' is read-only", property);
        r = sd_bus_message_peek_type(message, NULL, &contents);
        if (r < 0)
                return r;
        if (!streq(contents, v->x.property.signature))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "%s must be of type '%s', not '%s'",
                                property, v->x.property.signature, contents);
        r = sd_bus_message_enter_container(message, 'v', contents);
        if (r < 0)
                return r;
        const GateRule *rule = rule_of_setter(i, v->x.property.set);
        if (!rule || !rule->check)
                return no_rule(property, error);
        r = run_check(g, rule, message, object, property, error);
        return r <= 0 ? r : set_property(g, i, v, message, object, error);
}

/* The found method; only for the service's own socket. */
typedef struct Found {
        const sd_bus_vtable *method;
        void *object;
} Found;

static int pass_method(Gate *g, sd_bus_message *message, const char *name, Found *guest, sd_bus_error *error) {
        const char *member = sd_bus_message_get_member(message);
        const GateInterface *i = NULL;
        void *object;

        int r = find_object(g, sd_bus_message_get_path(message), name, &i, &object, error);
        if (r < 0 || !i)
                return r;
        const sd_bus_vtable *v = find_method(i->vtable, member);
        if (!v)
                return sd_bus_error_setf(error, SD_BUS_ERROR_UNKNOWN_METHOD, "Unknown method '%s'", member);
        if (!sd_bus_message_has_signature(message, strempty(v->x.method.signature)))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "%s takes '%s', not '%s'", member,
                                strempty(v->x.method.signature), strempty(sd_bus_message_get_signature(message, true)));
        const GateRule *rule = rule_of_method(i, v->x.method.handler);
        if (!rule)
                return no_rule(member, error);
        if (guest && !rule->guests)
                return not_here(member, error);
        if (guest)
                *guest = (Found){v, object};
        return rule->check ? run_check(g, rule, message, object, member, error) : 1;
}

/* Members that sd-bus answers by itself, for any object. */
static bool is_of_every_object(const char *name, const char *member) {
        static const char *const interfaces[] = {
                        BUS_PEER,
                        BUS_INTROSPECT,
                        BUS_OBJECTS,
        };

        for (size_t i = 0; i < ELEMENTSOF(interfaces); i++)
                if (streq(name, interfaces[i]))
                        return true;
        return streq(name, BUS_PROPERTIES) && !streq(member, "Set");
}

/* Returns > 0: the call goes on; 0: it waits. */
static int pass_call(Gate *g, sd_bus_message *message, sd_bus_error *error) {
        const char *name = sd_bus_message_get_interface(message), *member = sd_bus_message_get_member(message);

        if (!name || !member || !sd_bus_message_get_path(message))
                return sd_bus_error_set(error, SD_BUS_ERROR_UNKNOWN_METHOD, "A call has to name its interface");
        if (is_of_every_object(name, member))
                return 1;
        if (streq(name, BUS_PROPERTIES))
                return pass_set(g, message, error);
        return pass_method(g, message, name, NULL, error);
}

int gate_call(Gate *g, sd_bus_message *message, sd_bus_error *error) {
        const char *name = sd_bus_message_get_interface(message), *member = sd_bus_message_get_member(message);
        Found f = {0};

        auth_begin(g->auth, message);
        if (!name || !member || !sd_bus_message_get_path(message))
                return sd_bus_error_set(error, SD_BUS_ERROR_UNKNOWN_METHOD, "A call has to name its interface");
        int r = pass_method(g, message, name, &f, error);
        if (r <= 0 || !f.method)
                return r < 0 ? r : 1;
        r = f.method->x.method.handler(message, f.object, error);
        return r < 0 ? r : 1;
}

/* Signals of the bus driver itself pass. */
static bool is_foreign_signal(sd_bus_message *message) {
        return sd_bus_message_is_signal(message, NULL, NULL) > 0 && sd_bus_message_get_destination(message) &&
                        !streq_ptr(sd_bus_message_get_sender(message), DRIVER_NAME);
}

static int on_message(sd_bus_message *message, void *userdata, sd_bus_error *error) {
        Gate *g = userdata;

        auth_begin(g->auth, message);
        if (is_foreign_signal(message))
                return 1;
        if (sd_bus_message_is_method_call(message, NULL, NULL) <= 0)
                return 0;
        int r = pass_call(g, message, error);
        return r < 0 ? r : r == 0;
}

int gate_add(Gate *g, const GateInterface *i) {
        if (g->n_interfaces >= ELEMENTSOF(g->interfaces))
                return -ENOBUFS;
        int r = i->find ? sd_bus_add_fallback_vtable(g->bus, NULL, i->path, i->name, i->vtable, i->find, i->userdata)
                        : sd_bus_add_object_vtable(g->bus, NULL, i->path, i->name, i->vtable, i->userdata);
        if (r < 0)
                return r;
        g->interfaces[g->n_interfaces++] = *i;
        return 0;
}

int gate_new(sd_bus *bus, Auth *auth, Gate **ret) {
        Gate *g = calloc(1, sizeof(Gate));
        if (!g)
                return -ENOMEM;
        *g = (Gate){.bus = bus, .auth = auth};
        int r = sd_bus_add_filter(bus, &g->filter, on_message, g);
        if (r < 0) {
                free(g);
                return r;
        }
        *ret = g;
        return 0;
}

Gate *gate_free(Gate *g) {
        if (!g)
                return NULL;
        sd_bus_slot_unref(g->filter);
        free(g);
        return NULL;
}
