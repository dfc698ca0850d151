/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The internal interface of the connection's files
 *
 *   link.c            the connection: states, going down, trying again
 *   link-open.c       which connection: the service's own socket, or a bus
 *   link-register.c   registration: what the process tells, and the page, lifeline and wake descriptor that it gets
 *   link-units.c      what the user's manager says about our units
 *   link-queue.c      registration and removal of queues
 *
 * For the control thread only.
 */

#include "common/time-util.h"
#include "shim/core/control.h"

#define LINK_CALL_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define LINK_BACKOFF_MAX_NS  (30 * NSEC_PER_SEC)

void link_set_state(Control *c, LinkState state);
void link_back_off(Control *c);

/* Reports a failure once for each time that it begins: attempts go on in the background, and the system may have no
 * service at all. */
void link_tell(Control *c, const char *what, const char *why);

/* Handles an error of a call, or of the whole bus. */
void link_failed(Control *c, int r);

/* The service is absent: delays calls for a moment. */
void link_stall(Control *c);

/* link-open.c: opens a connection to the service's own socket, or to a bus. `configured`: XSCHED_BUS_ADDRESS= or "".
 * Returns as dbus_open(), or -ENOENT when no socket is named. */
int link_open_socket(const char *configured, Dbus **ret);
int link_open_bus(const char *configured, Dbus **ret);

/* --- calls --- */

/* Begins a call of the service. */
void link_begin_call(DbusWriter *w, const char *method, const char *signature);
/* Write an entry of a{sv}. An empty string writes none. */
void link_write_string(DbusWriter *w, const char *key, const char *value);
void link_write_u32(DbusWriter *w, const char *key, uint32_t value);
void link_write_i32(DbusWriter *w, const char *key, int32_t value);
/* Returns whether the error says that the service's name has no owner. */
bool link_error_is_no_owner(const DbusMessage *m);
/* Returns whether the error says that the callee was absent, rather than unwilling. */
bool link_error_is_absence(const DbusMessage *m);

/* --- what is sent --- */

int link_register(Control *c);
/* Writes an entry of a{sv}: what a user's manager says about our units; writes none for processes outside of its
 * units. */
void link_write_units(DbusWriter *w);
/* Sends hints. `queue`: the service's id of the queue, or 0 for the process. */
int link_send_hints(Control *c, uint64_t queue, const HintSet *hints);
void link_send_queue_hints(Control *c);
void link_send_goners(Control *c);
void link_send_queues(Control *c);
