/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Gate: every call over the bus passes it before it reaches an object
 *
 * A call passes only by a rule. A rule belongs to the function that does the work: a method's handler, or a property's
 * setter. The gate reads from the exported vtable which calls lead to it, and with which arguments. A method or
 * writable property whose function has no rule is refused for every caller, and so is a call that no vtable names.
 *
 *         static const GateRule rules[] = {
 *                         {.method = method_list},                         // changes nothing: for everybody
 *                         {.method = method_reload, .check = check_reload}, // needs an authorisation
 *                         {.setter = set_level, .check = check_level},
 *                         {.method = method_join, .check = check_join, .guests = true}, // also without a bus
 *                         {},
 *         };
 *
 * The check reads the arguments (of a property: the value), refuses invalid ones, and decides whether this call is
 * allowed: it ends with auth_check(), or with auth_grant() if it decides by itself. It changes nothing, because it runs
 * again when polkit has answered. The grant is for this message and this dispatch only: the function that makes the
 * change takes the grant (auth_take()), and refuses without it. BUS_CHANGE() and BUS_SETTER() in bus-util.h do that.
 *
 * Unicast signals are dropped: the service only listens to broadcasts, and the bus does not check that a unicast signal
 * comes from the owner of the name in the match.
 */

#include <limits.h>
#include <systemd/sd-bus.h>

#include "service/base/auth.h"

/* With the message at the first argument, or inside the variant with the value. `object` is what the vtable's find()
 * found, `member` the method or the property. Returns as auth_check() does. */
typedef int (*gate_check_t)(sd_bus_message *message, void *object, const char *member, sd_bus_error *error);

/* A setter returns this when it answers the call itself, now or later. */
#define SETTER_ANSWERS INT_MAX

typedef struct GateRule {
        sd_bus_message_handler_t method;
        sd_bus_property_set_t setter;
        gate_check_t check; /* NULL: changes nothing, allowed for all */
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

/* Handles a call from the service's own socket, where no objects are exported. Returns as a filter of sd-bus does. The
 * call is answered, waits, or is refused with *error. */
int gate_call(Gate *g, sd_bus_message *message, sd_bus_error *error);
