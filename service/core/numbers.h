/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ids of clients and queues: reserves them, and finds what they belong to
 */

#include "client.h"

Client *client_find(Manager *m, uint64_t id);

/* The place of a client with that id. Its present owner may be another one. */
static inline ClientPlace *client_place(Manager *m, uint64_t id) {
        return m->found + id % ELEMENTSOF(m->found);
}

/* Called when the client has left the table of clients. */
void client_lost(Manager *m, const Client *c);

/* The newest client of a process. `start_time` 0: any. */
Client *client_find_by_pid(Manager *m, pid_t pid, uint64_t start_time);

/* Called before a client or queue gets its id: reserves ids on disk, so that no later service gives one out again. */
void manager_reserve_ids(Manager *m);

Queue *queue_find(Manager *m, uint64_t id);
