/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Who is kept over a restart
 *
 * The service manager's file-descriptor store has room for FileDescriptorStoreMax= fds, and the names of all of them
 * have to fit one variable of the environment, $LISTEN_FDNAMES, or the next service cannot even be started. What goes
 * beyond the first it drops in silence. So here it is counted: a user has a share of the store, and where it is full
 * all the same, a user with fewer clients in it gets the place of one with more. What is not kept works as ever,
 * registers anew after a restart, and is named in Degraded; it is kept as soon as there is room.
 */

#include "service/core/client.h"

/* Asks the service manager how much it keeps. Before there are clients. */
void keep_init(Manager *m);

/* It is in the store from before the restart. */
void keep_adopted(Client *c);

/* For the manager's client_hook. */
void keep_client(Client *c, ClientEvent event, void *userdata);
