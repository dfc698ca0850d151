/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the connection's parts have in common
 *
 *   link.c            the connection: states, going down, trying again
 *   link-open.c       which connection: the service's own socket, or a bus
 *   link-register.c   what the service is told of the process, and what it hands out: page, lifeline, wake descriptor
 *   link-units.c      what the user's manager says of our units
 *   link-queue.c      its queues, as they come and go
 *
 * For the control thread only.
 */

#include "common/time-util.h"
#include "shim/core/control.h"

#define LINK_CALL_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define LINK_BACKOFF_MAX_NS  (30 * NSEC_PER_SEC)

void link_set_state(Control *c, LinkState state);
void link_back_off(Control *c);

/* Once for each time that it happens: attempts go on in the background, and there may be no service here at all. */
void link_tell(Control *c, const char *what, const char *why);

/* Of a call, or of the bus as a whole. */
void link_failed(Control *c, int r);

/* The service is not there: calls wait a moment. */
void link_stall(Control *c);

/* link-open.c: a connection by what XSCHED_BUS_ADDRESS= says, or "": to the service's own socket, or to a bus. As
 * dbus_open() returns; -ENOENT, too, when no socket is named. */
int link_open_socket(const char *configured, Dbus **ret);
int link_open_bus(const char *configured, Dbus **ret);

/* --- calls --- */

/* Begins a call of the service. */
void link_begin_call(DbusWriter *w, const char *method, const char *signature);
/* Entries of a{sv}; none for "". */
void link_write_string(DbusWriter *w, const char *key, const char *value);
void link_write_u32(DbusWriter *w, const char *key, uint32_t value);
void link_write_i32(DbusWriter *w, const char *key, int32_t value);
/* Whether this is the error that nobody has the service's name. */
bool link_error_is_no_owner(const DbusMessage *m);
/* Whether it is one that says that the callee was not there, rather than unwilling. */
bool link_error_is_absence(const DbusMessage *m);

/* --- what is sent --- */

int link_register(Control *c);
/* An entry of a{sv}: what is said of the units of a user's manager that we are in; none elsewhere. */
void link_write_units(DbusWriter *w);
/* `queue`: the service's number, or 0 for all of the process. */
int link_send_hints(Control *c, uint64_t queue, const HintSet *hints);
void link_send_queue_hints(Control *c);
void link_send_goners(Control *c);
void link_send_queues(Control *c);
