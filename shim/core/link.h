/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The connection to the service: states, going down, trying again
 *
 *   link-open.h       which connection: the service's own socket, or a bus
 *   link-register.h   registration: what the process tells, and the page, lifeline and wake descriptor that it gets
 *   link-units.h      what the user's manager says about our units
 *   link-queue.h      registration and removal of queues
 *
 * For the control thread only.
 */

#include "common/time-util.h"
#include "control.h"

#define LINK_CALL_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define LINK_BACKOFF_MAX_NS  (30 * NSEC_PER_SEC)

const char *link_state_to_string(LinkState s);

void link_init(Control *c);
void link_turn(Control *c);              /* does what is due: connect, register, send, receive */
void link_lifeline(Control *c);          /* reads the lifeline */
uint64_t link_next_ns(const Control *c); /* when link_turn() is to be called again; NSEC_INFINITY */

void link_set_state(Control *c, LinkState state);
void link_back_off(Control *c);

/* Reports a failure once for each time that it begins: attempts go on in the background, and the system may have no
 * service at all. */
void link_tell(Control *c, const char *what, const char *why);

/* Handles an error of a call, or of the whole bus. */
void link_failed(Control *c, int r);

/* The service is absent: delays calls for a moment. */
void link_stall(Control *c);

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
