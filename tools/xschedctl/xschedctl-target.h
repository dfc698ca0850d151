/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Target: the object that a person names
 *
 *   1234                a process
 *   client:3 queue:7    by number
 *   device:ID           device:all is every device
 *   group:NAME, NAME    a group as list-groups prints it, a cgroup path, or a unit
 */

#include "common/process.h"
#include "tools/shared/object.h"

typedef struct Target {
        ObjectKind kind;
        const char *text; /* as it was typed */
        const char *name; /* of a group or a device, inside text; "" is every device */
        char *path;       /* NULL: every device, or a group that does not exist yet */
        char *resolved;   /* what name became, when it is no part of text: a unit in full, or its cgroup */
} Target;

/* Tells why a process is no client; with its id, also what its library says of that. Returns EXIT_FAILURE. */
int target_client_failed(const Ctl *c, const sd_bus_error *e, int r, const char *what, const char *pid);

/* Tells why a name is not a group of the service, and why processes of its unit are not registered, where they say so.
 * Returns EXIT_FAILURE. */
int target_group_failed(Ctl *c, const Target *t, const sd_bus_error *e);

/* Gives a group's object, beside what it has from the bus, a property Unregistered where a process of its unit is no
 * client and says why: "process PID: " and what it says. 0 or -ENOMEM. */
int target_add_unregistered(Ctl *c, const Target *t, Object *group);

void target_done(Target *t);

typedef enum TargetFlags {
        TARGET_MAY_BE_NEW = 1 << 0,  /* a group need not exist, only its unit */
        TARGET_MAY_BE_GONE = 1 << 1, /* nor its unit */
} TargetFlags;

/* An exit status, 0 when there is such an object. A unit's alias becomes the unit's own name. Connects. */
int target_resolve(Ctl *c, const char *text, TargetFlags flags, Target *ret);

/* Reads the process that has the number in `text` now. Its start time is 0 if it cannot be looked at. An exit status.
 */
int target_read_pid(const char *text, ProcessId *ret);

/* Asks the service for the client of a process. Negative errno, and the error. */
int target_get_client(Ctl *c, const ProcessId *p, sd_bus_error *e, char **ret_path);

/* Whether the text is a number, and therefore a pid. */
bool target_is_pid(const char *text);
