/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * A connection to a message bus, or to one peer, with nothing but libc
 *
 * libxsched is loaded into programs of other people. Containers often have neither libsystemd nor libdbus, and each
 * would load further libraries. So the control thread speaks the part of D-Bus itself that it needs: calls with or
 * without a reply, owners of names, and descriptors in messages.
 *
 * A broken connection is reported once, by dbus_process() or by a function that sends. Its calls get no further reply,
 * and the caller closes it. Calls from others are answered with an error, as far as there is room.
 *
 * Thread safety: none; one connection belongs to one thread. A peer that is gone raises no signal.
 */

#include "shim/dbus/dbus-message.h"

typedef struct Dbus Dbus;

/* Gets a reply, or an error: from the bus, from the callee, or our own at the timeout
 * (org.freedesktop.DBus.Error.NoReply). The message is freed when the handler returns. The handler may make calls, and
 * must not close the connection. */
typedef void (*DbusHandler)(const DbusMessage *m, void *userdata);

/* Connects to the first of the addresses ("unix:path=...;unix:abstract=...") that accepts; skips other kinds of
 * sockets. `is_bus`: the address is of a bus, not of a peer. Blocks only for a full backlog, for 10 ms at most. Returns
 * 0 and *ret, which the caller gives back by dbus_close(); -EINVAL: no address is of a known kind; -ENOMEM; or the
 * error of the last address. */
int dbus_open(const char *addresses, bool is_bus, Dbus **ret);
Dbus *dbus_close(Dbus *d); /* returns NULL */

int dbus_fd(const Dbus *d);
bool dbus_is_accepted(const Dbus *d); /* the other side has accepted us */
bool dbus_is_hung_up(const Dbus *d);  /* it has ended, because the other side hung up */
short dbus_events(const Dbus *d);     /* for poll() */
uint64_t dbus_next_ns(const Dbus *d); /* when to call dbus_process() in any case; NSEC_INFINITY: never */

/* Sends waiting data, and handles one message or one timeout. Returns 1; 0: nothing to do; or the error that broke the
 * connection. */
int dbus_process(Dbus *d);

/* Begins a call that does not start a service. */
void dbus_call_begin(DbusWriter *w, const char *destination, const char *path, const char *interface,
                const char *member, const char *signature);

/* Sends the call. Without a handler it asks for no reply. Returns 0, -ENOTCONN, or the writer's error. */
int dbus_call(Dbus *d, DbusWriter *w, DbusHandler handler, void *userdata, uint64_t timeout_ns);
/* Sends the call and waits for the reply, handling other messages meanwhile. Returns 0 and the reply in *ret;
 * -EINVAL: an error reply that the arguments are invalid; -EHOSTUNREACH: nobody has the name, or who had it has ended;
 * -EREMOTEIO: another error reply; -ETIMEDOUT; or an error of dbus_call(). */
int dbus_call_and_wait(Dbus *d, DbusWriter *w, uint64_t timeout_ns, DbusMessage **ret);

/* Calls the handler for each new owner of a name, and with "" when it has none. Only signals from the bus itself
 * count. */
int dbus_watch_name(Dbus *d, const char *name, void (*handler)(const char *owner, void *userdata), void *userdata);

/* Asks the bus who owns the watched name: the handler is called if there is an owner. Who had the name before the watch
 * began is known by this alone. */
int dbus_ask_owner(Dbus *d);
