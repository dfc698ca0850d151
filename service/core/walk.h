/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Walk: over all objects of a kind, with pauses in which objects come and go
 *
 * An object that exists during the whole walk is met once, in order of age. An object that is freed before it is met is
 * left out, and a new one is met last.
 */

#include "manager.h"

typedef enum WalkTable {
        WALK_DEVICES,
        WALK_GROUPS,
        WALK_CLIENTS,
        WALK_QUEUES,
        _WALK_ON_BUS_MAX, /* the tables above are of objects on the bus */

        WALK_JOBS = _WALK_ON_BUS_MAX,
        WALK_CLAIMS, /* the newest first: new ones are not met */
        _WALK_TABLE_MAX,
} WalkTable;

typedef struct Walk {
        Manager *manager;
        WalkTable table;
        void *next;    /* NULL: the walk is at its end, or */
        bool at_start; /* has not begun */
        struct Walk *walks_prev, *walks_next;
} Walk;

void walk_begin(Walk *w, Manager *m, WalkTable table);
void walk_end(Walk *w);

/* Returns the next object; NULL when there is none (for now). */
void *walk_next(Walk *w);

/* Called by x_free(), while the object is still in its table. */
void walks_forget(Manager *m, WalkTable table, const void *object);
