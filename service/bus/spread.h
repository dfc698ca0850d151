/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Spread: applies changed settings to all clients and queues that they are for, in steps
 *
 * A setting of a group counts for all groups below it, their clients, and their queues: thousands, for one user. It
 * counts at once for the object where it was set; the others follow in steps of the call that has set it
 * (call_go_on()). The call is answered after the last step, so that its caller then reads the new settings. Other calls
 * are answered in between, and a later one wins: each step takes the settings of that moment.
 *
 * A spread refers to its client by id, and to groups by name, because all of them may be freed meanwhile. New objects
 * take the settings when they are made.
 */

#include <systemd/sd-bus.h>

#include "service/core/client.h"

/* For a handler, or a setter, that has changed settings of the client, of the process, or of the group of this name,
 * which need not exist: the own part of client and group is done. Answers the call, now or later. Returns what the
 * handler returns. */
int spread_client(Client *c, sd_bus_message *message);
int spread_process(Manager *m, const Peer *peer, sd_bus_message *message); /* of all its clients; nothing is done yet */
int spread_group(Manager *m, const char *name, sd_bus_message *message);
