/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Guests: callers on the service's own socket, without a bus
 *
 * A program needs only four members of the interface to register. On a bus it waits for the bus, which others can keep
 * busy. So the service also has a socket (service/base/door.h) that speaks peer-to-peer D-Bus and answers only these
 * members: their rules have `guests` (gate.h). Objects, properties and signals are on the bus only.
 *
 * A guest is a caller like those of the bus (callers.h): its calls take turns with all others by user, and are charged
 * to the same budgets. But a guest's call is not read before its turn: it waits in the kernel, and a guest that sends
 * more has to wait, too. While the bus takes no messages, guests are still answered, until too many messages wait for
 * the bus.
 *
 * A guest that has not authenticated itself, or has not taken an answer, for GUEST_WAIT_NS is disconnected. A user may
 * have an eighth of all places. The end of a guest does not end its client, which ends by its lifeline and pidfd like
 * any other.
 */

#include "service/core/manager.h"

#define GUEST_WAIT_NS (10 * NSEC_PER_SEC)

typedef struct Guests Guests;

/* Opens the socket at this path. -EADDRINUSE: another service has it. */
int guests_open(Manager *m, const char *path, Guests **ret);
Guests *guests_free(Guests *g); /* returns NULL */
