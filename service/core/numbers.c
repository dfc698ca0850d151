/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Ids of clients and queues: reserves them, and finds what they belong to
 */

#include "numbers.h"
#include "client.h"
#include "observer.h"

/* Number of ids that one write reserves. */
#define IDS_AHEAD 256U

void manager_reserve_ids(Manager *m) {
        if (m->next_client_id < m->client_ids_end && m->next_queue_id < m->queue_ids_end)
                return;
        m->client_ids_end = m->next_client_id + IDS_AHEAD;
        m->queue_ids_end = m->next_queue_id + IDS_AHEAD;
        observers_manager_changed(m);
}

/* Each edge asks this. Ids are given out in turn, so nearly all clients are found at the places of theirs: the way
 * through the table reads other clients, which are in no cache. */
Client *client_find(Manager *m, uint64_t id) {
        ClientPlace *place = client_place(m, id);
        Client *c = place->client;

        if (c && c->id == id)
                return c;
        HASH_FIND(hh, m->clients, &id, sizeof(id), c);
        if (c)
                place->client = c;
        return c;
}

void client_lost(Manager *m, const Client *c) {
        ClientPlace *place = client_place(m, c->id);

        if (place->client == c)
                place->client = NULL;
}

Client *client_find_by_pid(Manager *m, pid_t pid, uint64_t start_time) {
        Client *c, *tmp, *found = NULL;

        HASH_ITER(hh, m->clients, c, tmp) {
                if (c->peer.pid != pid || (start_time != 0 && c->peer.start_time != start_time))
                        continue;
                if (!found || c->id > found->id)
                        found = c;
        }
        return found;
}

Queue *queue_find(Manager *m, uint64_t id) {
        Queue *q;

        HASH_FIND(hh, m->queues, &id, sizeof(id), q);
        return q;
}
