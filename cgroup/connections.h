/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The latest time at which a connection of the bus was made
 *
 * The bus names the process that made a connection by the pid of that time. The process may have ended since and left
 * the socket to another one, and its pid may be reused. A bus that keeps a pidfd of the process (ProcessFD) settles
 * that. For a bus that does not (those of Debian 12, or on a kernel before 6.5) the time decides: a process that was
 * started after the connection was made has not made it.
 *
 * The bus reports each connection as it is made (NameOwnerChanged), before any message from it. So a connection was
 * made before its report, and one without a report before we began to listen. So the process that made a connection is
 * never refused by this. An attack would need a process that starts between the making of a connection and its report,
 * with a reused pid; to get that, it has to use up all other pids in that time.
 *
 * A bus that has pidfds is not listened to.
 */

#include <stdint.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef struct Connections Connections;

/* Asks the bus for pidfds, and begins to listen if it has none. */
int connections_new(sd_bus *bus, Connections **ret);
Connections *connections_free(Connections *c);

/* Returns whether the bus has pidfds: a connection without one has then outlived the process that made it. */
bool connections_have_pidfds(const Connections *c);

/* Returns the latest time at which the connection was made, in ns of CLOCK_BOOTTIME, as the start times in /proc. */
uint64_t connections_made_by(const Connections *c, const char *name);

typedef struct Credentials {
        pid_t pid;
        uid_t uid;
        int pidfd;        /* -EBADF: the bus has none */
        const char *name; /* of a connection that is not of a bus; owned by the caller */
        uint64_t made_by; /* if that pidfd was opened by pid: as connections_made_by(); else 0 */
} Credentials;

#define CREDENTIALS_NULL ((Credentials){.pidfd = -EBADF})

/* Asks the bus for the credentials of the process that made a connection; the caller gives *ret back by
 * credentials_done(). -ESRCH: there is no such connection (any more). */
int credentials_ask(sd_bus *bus, const char *name, Credentials *ret);

/* The same from the reply to an asynchronous GetConnectionCredentials(). The pid is 0 when it is not visible from
 * here. */
int credentials_read(sd_bus_message *answer, Credentials *ret);
void credentials_done(Credentials *c);

/* Provides known credentials for the message that is about to be dispatched, so that the bus need not be asked. The
 * credentials of a connection never change; the caller keeps owning them. NULL: none are known. */
void connections_lend(Connections *c, const sd_bus_message *m, const Credentials *known);

/* Returns the pid of the sender of a message if connections_lend() has provided it; else 0. It tells who the sender is
 * not: the process that has this pid now may not be the one that made the connection (peer.h). */
pid_t connections_pid(const Connections *c, const sd_bus_message *m);

/* Returns the credentials of the sender of a message. */
int connections_credentials(const Connections *c, sd_bus_message *m, Credentials *ret);

/* Returns the name of the connection that a message came by: its unique name on the bus, or the one from
 * connections_lend(). */
const char *connections_sender(const Connections *c, sd_bus_message *m);
