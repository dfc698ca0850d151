/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Freezing: the last rung, below which nothing runs at all
 *
 * A group that is suspended keeps its CPUs busy all the same: its processes prepare, wait and try. One that is held may
 * go on past the hold (overdue.h). Where the class of the group has Freeze=yes, its unit is frozen as well, by
 * systemd's FreezeUnit, and never by writing cgroup.freeze, of which systemd would not know.
 *
 * Only whole units of the system's manager are frozen, while they have clients. Two kinds are not: those that others
 * need to get anything done, the service itself, the bus, systemd's own, and sessions, in which the person may sit who
 * would resume it; and those with a queue in them that may run, on whichever device and in whichever group below. A
 * unit is thawed as soon as one may.
 *
 * A freezer belongs to a unit. Invariant: a unit that may be frozen by us stands in the record, a file of the runtime
 * directory, from before the call to after the thaw. So whoever comes after us thaws it: our own end
 * (freeze_thaw_all()), ExecStopPost= of our unit after an end of any other kind (freeze_recover()), or the next start
 * (freeze_load()). Without a runtime directory nothing is frozen.
 */

#include "service/core/group.h"

typedef struct Freezer Freezer;

/* After anything that it depends on: the suspension, the class, clients. `joined`: with a client that has just come, so
 * that the unit cannot be frozen, whatever we did before. */
void freeze_group_changed(Group *g, bool joined);
void freeze_group_gone(Group *g);

/* A queue begins or ceases to be held. */
void freeze_queue_turned(const Queue *q);

bool group_is_frozen(const Group *g);

/* Whether the unit that the group is in is frozen by us, or on the way there or back. */
bool freeze_is_ours(const Group *g);

/* Takes the record of a service that did not come to its own end: what is in it is thawed, unless it is to be frozen.
 * The second part comes when all clients are there again. */
int freeze_load(Manager *m);
void freeze_settle(Manager *m);

/* Thaws everything, and waits for it: for the end. */
void freeze_thaw_all(Manager *m);
void freeze_free(Manager *m);

/* For a service that is gone: 0 when nothing is frozen any more. */
int freeze_recover(void);
