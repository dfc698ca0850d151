/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Walks: over all objects of a kind, with pauses in which objects come and go
 *
 * What is there from the walk's beginning to its end is met once, in the order in which it came; what goes meanwhile is
 * left out if it was not met yet, what comes is met last.
 */

#include "manager.h"

typedef enum WalkTable {
        WALK_DEVICES,
        WALK_GROUPS,
        WALK_CLIENTS,
        WALK_QUEUES,
        _WALK_ON_BUS_MAX, /* those before are of objects of the bus */

        WALK_JOBS = _WALK_ON_BUS_MAX,
        WALK_HOLDS, /* the newest first: what comes is not met */
        _WALK_TABLE_MAX,
} WalkTable;

typedef struct Walk {
        Manager *manager;
        WalkTable table;
        void *next;    /* NULL: nothing is left, */
        bool at_start; /* or it has not begun */
        struct Walk *walks_prev, *walks_next;
} Walk;

void walk_begin(Walk *w, Manager *m, WalkTable table);
void walk_end(Walk *w);

/* The next object; NULL when there is none (for now). */
void *walk_next(Walk *w);

/* For x_free(), while the object is still in its table. */
void walks_forget(Manager *m, WalkTable table, const void *object);
