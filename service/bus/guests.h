/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Guests: who speaks to the service on its own socket, without a bus
 *
 * A program that registers needs four members of the interface, and nobody else's help. On a bus it waits for the bus,
 * which others can keep busy. So there is a socket, too (service/base/door.h), that speaks D-Bus from peer to peer and
 * on which nothing but those members is answered: whose rule says `guests` (gate.h). Objects, properties and signals
 * are on the bus.
 *
 * A guest is a caller like those of the bus (callers.h): its calls take turns with all others by user, and are paid for
 * from the same budgets. But no call of a guest is taken in before its turn: it waits in the kernel, and who sends more
 * waits, too. While the bus takes nothing, guests are answered still, until too much waits for the bus.
 *
 * A guest that has not authenticated itself, or has not taken an answer, for GUEST_WAIT_NS is hung up on. Of all places
 * a user has an eighth. A guest's end is nothing but that: its client's is told by lifeline and pidfd, as any client's.
 */

#include "service/core/manager.h"

#define GUEST_WAIT_NS (10 * NSEC_PER_SEC)

typedef struct Guests Guests;

/* Opens the socket at this path. -EADDRINUSE: another service has it. */
int guests_open(Manager *m, const char *path, Guests **ret);
Guests *guests_free(Guests *g); /* returns NULL */
