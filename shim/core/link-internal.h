/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the connection's parts have in common
 *
 *   link.c            the connection: states, going down, trying again
 *   link-register.c   what the service is told of the process, and what it hands out: page, lifeline, wake descriptor
 *   link-units.c      what the user's manager says of our units
 *   link-queue.c      its queues, as they come and go
 *
 * For the control thread only.
 */

#include "common/time-util.h"
#include "shim/core/control.h"
#include "shim/core/sdbus.h"

#define LINK_CALL_TIMEOUT_USEC UINT64_C(10000000)
#define LINK_BACKOFF_MAX_NS    (30 * NSEC_PER_SEC)

void link_set_state(Control *c, LinkState state);
void link_back_off(Control *c);

/* Once for each time that it happens: attempts go on in the background, and there may be no service here at all. */
void link_tell(Control *c, const char *what, const char *why);

/* Of a call, or of the bus as a whole. */
void link_failed(Control *c, int r);

/* The service is not there: calls wait a moment. */
void link_stall(Control *c);

/* --- calls --- */

void link_message_unrefp(sd_bus_message **m);
int link_new_call(Control *c, const char *method, sd_bus_message **ret);
/* An entry of a{sv}; none for "". */
int link_append_string(sd_bus_message *m, const char *key, const char *value);
/* Whether nobody has the service's name. */
bool link_error_is_no_owner(const sd_bus_error *e);
/* Whether the callee was not there, rather than unwilling. */
bool link_error_is_absence(const sd_bus_error *e);

/* --- what is sent --- */

int link_register(Control *c);
/* An entry of a{sv}: what is said of the units of a user's manager that we are in; none elsewhere. */
int link_append_units(sd_bus_message *m);
int link_send_hints(Control *c);
void link_send_goners(Control *c);
void link_send_queues(Control *c);
