/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Keep: which clients have room in the file-descriptor store
 *
 * The service manager's file-descriptor store has room for FileDescriptorStoreMax= fds, and the names of all of them
 * have to fit one variable of the environment, $LISTEN_FDNAMES, or the next service cannot even be started. It silently
 * drops fds beyond the first limit. So keep.c counts them: each user has a share of the store, and when the store is
 * full nevertheless, a user with fewer clients in it gets the place of one with more. A client that is not kept works
 * normally, registers again after a restart, and is named in Degraded; it is kept as soon as there is room.
 */

#include "service/core/client.h"

/* Asks the service manager for its limits. Call it before there are clients. */
void keep_init(Manager *m);

/* Called for an adopted client, which is in the store already. */
void keep_adopted(Client *c);

/* The manager's client_hook: keeps the client, or gives its place back. */
void keep_client(Client *c, ClientEvent event, void *userdata);
