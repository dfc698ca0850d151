/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Walks
 */

#include <utlist.h>

#include "claim.h"
#include "client.h"
#include "job.h"
#include "walk.h"

static void *first(const Manager *m, WalkTable table) {
        switch (table) {
        case WALK_DEVICES:
                return m->devices;
        case WALK_GROUPS:
                return m->groups;
        case WALK_CLIENTS:
                return m->clients;
        case WALK_JOBS:
                return m->jobs;
        case WALK_CLAIMS:
                return m->claims.all;
        default:
                return m->queues;
        }
}

static void *after(WalkTable table, const void *object) {
        switch (table) {
        case WALK_DEVICES:
                return ((const Device *) object)->hh.next;
        case WALK_GROUPS:
                return ((const Group *) object)->hh.next;
        case WALK_CLIENTS:
                return ((const Client *) object)->hh.next;
        case WALK_JOBS:
                return ((const Job *) object)->hh.next;
        case WALK_CLAIMS:
                return ((const Claim *) object)->next;
        default:
                return ((const Queue *) object)->hh.next;
        }
}

void walk_begin(Walk *w, Manager *m, WalkTable table) {
        *w = (Walk){.manager = m, .table = table, .at_start = true};
        DL_PREPEND2(m->walks, w, walks_prev, walks_next);
}

void walk_end(Walk *w) {
        if (!w->manager)
                return;
        DL_DELETE2(w->manager->walks, w, walks_prev, walks_next);
        w->manager = NULL;
}

void *walk_next(Walk *w) {
        void *object = w->at_start ? first(w->manager, w->table) : w->next;

        w->at_start = w->at_start && !object;
        w->next = object ? after(w->table, object) : NULL;
        return object;
}

void walks_forget(Manager *m, WalkTable table, const void *object) {
        Walk *w;

        DL_FOREACH2(m->walks, w, walks_next)
                if (w->table == table && w->next == object)
                        w->next = after(table, object);
}
