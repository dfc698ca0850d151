/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The gate: what every call over the bus passes before it reaches an object
 *
 * Nothing passes that no rule lets pass. A rule belongs to the function that does the work: a method's handler, or a
 * property's setter; which calls lead to it, and with which arguments, the gate reads from the vtable that was
 * exported. A method or a writable property whose function has no rule is refused, whoever calls, and so is every call
 * that no vtable names.
 *
 *         static const GateRule rules[] = {
 *                         {.method = method_list},                         // changes nothing: for everybody
 *                         {.method = method_reload, .check = check_reload}, // needs an authorisation
 *                         {.setter = set_level, .check = check_level},
 *                         {.method = method_join, .check = check_join, .guests = true}, // also without a bus
 *                         {},
 *         };
 *
 * The check reads the arguments (of a property: the value), refuses what is wrong with them, and says whether this call
 * may change what it wants to: it ends with auth_check(), or with auth_grant() where it has found out by itself. It
 * changes nothing, because it runs again when polkit has answered. What it was granted is for this message and this
 * dispatch of it: the function that makes the change takes it (auth_take()), and without it refuses. BUS_CHANGE() and
 * BUS_SETTER() in bus-util.h do.
 *
 * Signals that are sent to the service alone are dropped: those that it listens to are for everybody, and the bus
 * itself does not say that a signal to one comes from the owner of the name that it was asked for.
 */

#include <limits.h>

#include "service/base/auth.h"

/* With the message at the first argument, or inside the variant with the value. `object` is what the vtable's find()
 * found, `member` the method or the property. Returns as auth_check() does. */
typedef int (*gate_check_t)(sd_bus_message *message, void *object, const char *member, sd_bus_error *error);

/* What a setter returns that answers the call by itself, now or when all that it began is done. */
#define SETTER_ANSWERS INT_MAX

typedef struct GateRule {
        sd_bus_message_handler_t method;
        sd_bus_property_set_t setter;
        gate_check_t check; /* NULL: nothing is changed */
        bool guests;        /* a method: may be called on the service's own socket, too (guests.h) */
} GateRule;

/* A vtable and its rules. All pointers have to stay valid. */
typedef struct GateInterface {
        const char *path;
        const char *name;
        const sd_bus_vtable *vtable;
        const GateRule *rules;     /* ended by an empty one */
        sd_bus_object_find_t find; /* of the objects at and below `path`; NULL: `path` is the object */
        void *userdata;
} GateInterface;

typedef struct Gate Gate;

int gate_new(sd_bus *bus, Auth *auth, Gate **ret);
Gate *gate_free(Gate *g); /* returns NULL */
DEFINE_TRIVIAL_CLEANUP_FUNC(Gate *, gate_free);

/* The only way to export objects on this bus. */
int gate_add(Gate *g, const GateInterface *i);

/* Of a call that came by the service's own socket, where no objects are exported: what a filter of sd-bus returns. The
 * call is answered, waits, or is refused with *error. */
int gate_call(Gate *g, sd_bus_message *message, sd_bus_error *error);
