/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * When connections of the bus were made, at the latest
 *
 * The bus names the process that made a connection, by the number that it had then. The process may have ended since,
 * and left the socket to somebody else; its number may be another's. A bus that keeps a pidfd of the process
 * (ProcessFD) settles that. Beside one that does not (those of Debian 12, or on a kernel before 6.5) the time does: a
 * process that was started after the connection was made has not made it.
 *
 * The bus tells of each connection as it is made (NameOwnerChanged), before anything that comes from it. So a
 * connection has been made by the time that it is heard of, and one that was never heard of by the time that the
 * listening began. Who makes a connection is therefore never refused for it. What is missed is a process that started
 * between a connection's making and our hearing of it; to have a number again somebody has to use up all the others in
 * that time.
 *
 * A bus that has pidfds is not listened to.
 */

#include <stdint.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"

typedef struct Connections Connections;

/* Asks the bus, and begins to listen where that is needed. */
int connections_new(sd_bus *bus, Connections **ret);
Connections *connections_free(Connections *c);

/* The bus has pidfds: a connection without one has outlived the process that made it. */
bool connections_have_pidfds(const Connections *c);

/* By when the connection was made, in ns of CLOCK_BOOTTIME: with what /proc says of the start of processes. */
uint64_t connections_made_by(const Connections *c, const char *name);

typedef struct Credentials {
        pid_t pid;
        uid_t uid;
        int pidfd;        /* -EBADF: the bus has none */
        const char *name; /* of a connection that is no bus's, and in the place of a sender; the caller's own */
        uint64_t made_by; /* of such a one whose pidfd was opened by its number: as connections_made_by(); else 0 */
} Credentials;

#define CREDENTIALS_NULL ((Credentials){.pidfd = -EBADF})

/* What the bus itself knows of who made a connection. -ESRCH when there is no such connection (any more). */
int credentials_ask(sd_bus *bus, const char *name, Credentials *ret);

/* The same from the answer to GetConnectionCredentials(), for who does not wait for it. The pid is 0 when it cannot be
 * seen from here. */
int credentials_read(sd_bus_message *answer, Credentials *ret);
void credentials_done(Credentials *c);

/* They are known already, for the message that is about to be dispatched: the bus need not be asked, and waited for.
 * They never change for a connection, and stay the caller's. NULL: nothing is known. */
void connections_lend(Connections *c, const sd_bus_message *m, const Credentials *known);

/* Of the sender of a message. */
int connections_credentials(const Connections *c, sd_bus_message *m, Credentials *ret);

/* What the connection is called that a message came by: its unique name on the bus, or what was lent. */
const char *connections_sender(const Connections *c, sd_bus_message *m);
