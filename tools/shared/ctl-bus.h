/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The connection to the service
 */

#include "common/bus-names.h"
#include "tools/shared/ctl.h"

/* The address of a bus that is neither the system's nor the user's; NULL when it is one of these. */
const char *ctl_bus_address(const Ctl *c);

/* The system's bus, or the user's, here or where --host= and --machine= say. 0 or a negative errno; silent. */
int ctl_open_standard_bus(const Ctl *c, bool user, sd_bus **ret);

bool bus_has_owner(sd_bus *bus, const char *name);

/* Opens c->bus, unless it is open. 0 or a negative errno; silent. */
int ctl_open_bus(Ctl *c);

/* The same for verbs that cannot go on without: an exit status, 0 when connected. */
int ctl_connect(Ctl *c);

/* "the system bus", "the bus unix:path=...", "the system bus of HOST" */
const char *ctl_bus_describe(const Ctl *c, char *buf, size_t size);

/* Whether the error says that the service's name has no owner, or that there is no bus. */
bool error_is_not_running(const sd_bus_error *e, int r);

/* Whether the bus of another machine cannot be reached. Nothing is then known of the service. */
bool error_is_unreachable(const Ctl *c, const sd_bus_error *e, int r);

/* Tells in plain words why a call failed. `what` names the object that the person asked for; NULL for the service
 * itself. Returns EXIT_FAILURE. */
int ctl_call_failed(const Ctl *c, const sd_bus_error *e, int r, const char *what);

/* A call of the service: path and interface NULL are the manager's. No automatic start: asking must not start what is
 * asked about. 0 or a negative errno. */
int ctl_new_call(Ctl *c, const char *path, const char *interface, const char *member, sd_bus_message **ret);
int ctl_call(Ctl *c, sd_bus_message *m, sd_bus_error *e, sd_bus_message **ret_reply);

/* How long a call may take: longer where a person types a password meanwhile. 0 is the default of sd-bus. */
uint64_t ctl_call_timeout(const Ctl *c);

/* Makes a whole call with simple arguments, as sd_bus_call_method() does. */
int ctl_call_method(Ctl *c, const char *path, const char *interface, const char *member, sd_bus_error *e,
                sd_bus_message **ret_reply, const char *types, ...);
