/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Client state: saves each client in its `meta` memfd, and makes it again after a restart of the service
 */

#include "service/core/client.h"

/* Makes c->meta and saves the client. The next three functions keep it up to date. */
int client_serialize(Client *c);
void client_write(Client *c);
void queue_write(Queue *q);
void queue_write_gone(Queue *q);

/* Makes a client from its saved state. Takes the five fds on success; on failure they stay the caller's, and the
 * client, if it still lives, sees the hang-up when they are closed and registers again. */
int client_adopt(Manager *m, int meta, int page, int lifeline, int wake, int pidfd, Client **ret);
