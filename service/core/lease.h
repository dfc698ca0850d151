/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Leases: one timer for all clients that have held slots
 */

#include "client.h"

/* Called when a slot of the client begins or ceases to be held. */
int lease_init(Manager *m);
void lease_begin(Client *c);
void lease_end(Client *c);
