/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Clients over a restart of the service: what is written down of each, in its `meta`, and how it is made again
 */

#include "service/core/client.h"

/* Makes c->meta and writes down what has to survive. The next three keep it up to date. */
int client_serialize(Client *c);
void client_write(Client *c);
void queue_write(Queue *q);
void queue_write_gone(Queue *q);

/* Makes a client from what was kept. Takes the five fds on success; on failure they stay the caller's, and the client,
 * if it still lives, sees the hang-up when they are closed and registers again. */
int client_adopt(Manager *m, int meta, int page, int lifeline, int wake, int pidfd, Client **ret);
