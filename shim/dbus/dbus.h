/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A connection to a message bus, or to one peer, with nothing but libc
 *
 * libxsched is loaded into programs of other people: in containers there is often no libsystemd and no libdbus, and
 * where there is one it would bring its own libraries with it. So the control thread speaks the part of D-Bus itself
 * that it needs: calls with a reply or without, who has a name, and descriptors that are handed to it.
 *
 * A connection that broke is reported once, by dbus_process() or by what sends; its calls get no further reply, and
 * there is nothing to do but to close it. What others call here is answered with an error, as far as there is room.
 *
 * Thread safety: none; one connection belongs to one thread. No signal is raised by a peer that went.
 */

#include "shim/dbus/dbus-message.h"

typedef struct Dbus Dbus;

/* A reply, or an error: the bus's, the callee's, or one of ours when time is up (org.freedesktop.DBus.Error.NoReply).
 * The message goes when the handler returns. It may call, and must not close the connection. */
typedef void (*DbusHandler)(const DbusMessage *m, void *userdata);

/* Connects to the first of the addresses ("unix:path=...;unix:abstract=...") that can be connected to; sockets of other
 * kinds are passed over. `is_bus`: there is a bus behind it, and not just a peer. Where many wait to be let in, waits
 * behind them for 10 ms at most; does not block otherwise. Returns 0; -EINVAL: none is an address of a kind that is
 * known here; -ENOMEM; or why the last one cannot be connected to. */
int dbus_open(const char *addresses, bool is_bus, Dbus **ret);
Dbus *dbus_close(Dbus *d); /* returns NULL */

int dbus_fd(const Dbus *d);
bool dbus_is_accepted(const Dbus *d); /* the other side has taken us in */
short dbus_events(const Dbus *d);     /* of poll() */
uint64_t dbus_next_ns(
                const Dbus *d); /* when to call dbus_process() whatever poll() says; NSEC_INFINITY: never */

/* Sends what waits, and handles one message, or one call whose time is up. Returns 1, 0 when there is nothing to do, or
 * why the connection is no more. */
int dbus_process(Dbus *d);

/* Begins a call that starts no service. */
void dbus_call_begin(DbusWriter *w, const char *destination, const char *path, const char *interface,
                const char *member, const char *signature);

/* Sends it. Without a handler nobody replies. Returns 0, -ENOTCONN, or the writer's error. */
int dbus_call(Dbus *d, DbusWriter *w, DbusHandler handler, void *userdata, uint64_t timeout_ns);
/* The same, and waits. An error is -EREMOTEIO, no reply -ETIMEDOUT. What else comes meanwhile is handled. */
int dbus_call_and_wait(Dbus *d, DbusWriter *w, uint64_t timeout_ns, DbusMessage **ret);

/* Tells of each new owner of a name, and of its end (""): from the bus alone, whoever else says so. */
int dbus_watch_name(Dbus *d, const char *name, void (*handler)(const char *owner, void *userdata),
                void *userdata);
