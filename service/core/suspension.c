/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Suspension
 */

#include <utlist.h>

#include "arbiter.h"
#include "gone.h"
#include "observer.h"
#include "suspension.h"

static void client_sync(Client *c) {
        for (uint32_t i = 0; i < c->n_slots; i++)
                if (c->slots[i].queue) {
                        queue_sync(c->slots[i].queue);
                        turn_look(c->manager);
                }
}

void client_suspension_changed(Client *c) {
        client_sync(c);
        observers_client_changed(c, CLIENT_SUSPENSION);
}

void client_set_suspended(Client *c, bool suspended) {
        if (c->suspended == suspended)
                return;
        c->suspended = suspended;
        client_suspension_changed(c);
        observers_client_changed(c, CLIENT_SUSPENDED);
}

void queue_sync(Queue *q) {
        entity_update_queue(q);
        arbiter_sync_queue(q);
}

void queue_set_suspended(Queue *q, bool suspended) {
        if (q->suspended == suspended)
                return;
        q->suspended = suspended;
        queue_sync(q);
        observers_queue_changed(q, QUEUE_SUSPENSION);
}

/* Recurses as deep as the groups are nested. */
static void suspension_changed(Group *g) {
        Group *below;
        Client *c;

        DL_FOREACH2(g->clients, c, group_next)
                client_suspension_changed(c);
        observers_group_changed(g, GROUP_SUSPENSION);
        DL_FOREACH2(g->children, below, children_next)
                suspension_changed(below);
}

void group_set_suspended(Group *g, bool suspended) {
        Client *c, *tmp;

        if (g->suspended == suspended)
                return;
        g->suspended = suspended;
        g->manager->n_suspended += suspended ? 1U : -1U;
        if (suspended)
                gone_note(g);
        suspension_changed(g);
        HASH_ITER(hh, g->manager->clients, c, tmp)
                if (c->group->kind == GROUP_JOB)
                        client_suspension_changed(c); /* a group that holds one of its processes may be below */
}
