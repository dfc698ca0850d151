/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Spreading: what was set for one goes to all that it is for, in steps
 *
 * A setting of a group is one of all groups below it, of their clients, and of their queues: thousands, of one user.
 * Where it was set it counts at once; the others follow in steps of the call that has set it (call_go_on()), which is
 * answered when all have followed: who then reads finds what was set. In between other calls are answered, and the
 * later one wins: each step takes what is set by then.
 *
 * A spread knows its client by its number, and groups by name: all of them may go meanwhile. Who comes meanwhile takes
 * what is set by itself.
 */

#include "service/core/client.h"

/* For a handler, or a setter, that has changed settings of the client, of the process, or of the group of this name,
 * which need not exist: the own part of client and group is done. Answers the call, now or later. Returns what the
 * handler returns. */
int spread_client(Client *c, sd_bus_message *message);
int spread_process(Manager *m, const Peer *peer,
                sd_bus_message *message); /* of all its clients; nothing is done yet */
int spread_group(Manager *m, const char *name, sd_bus_message *message);
