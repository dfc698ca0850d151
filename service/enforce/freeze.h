/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Freeze: freezes the unit of a suspended or overdue group, the last rung
 *
 * A suspended group still keeps CPUs busy: its processes prepare, wait and retry. A held one may launch past the hold
 * (overdue.h). If the group's class has Freeze=yes, its unit is frozen as well, by systemd's FreezeUnit, and never by
 * writing cgroup.freeze, which systemd would not notice.
 *
 * Only whole units of the system's manager are frozen, while they have clients. Two kinds of units are not frozen.
 * First, those that people need to resume anything: the service itself, the bus, systemd's own units, and sessions.
 * Second, those with a queue that may run, on any device and in any group below. A frozen unit is thawed as soon as one
 * of its queues may run.
 *
 * A freezer belongs to a unit. Invariant: a unit that the service may have frozen is in the record, a file of the
 * runtime directory, from before the call until after the thaw. So it is thawed in any case: at an orderly end
 * (freeze_thaw_all()), by ExecStopPost= after any other end (freeze_recover()), or at the next start (freeze_load()).
 * Without a runtime directory no unit is frozen.
 */

#include "service/core/group.h"

typedef struct Freezer Freezer;

/* Called after the group's suspension, class or clients changed. `joined`: a client has just come, so the unit is not
 * frozen now, even if the service froze it before. */
void freeze_group_changed(Group *g, bool joined);
void freeze_group_gone(Group *g);

/* Called when a queue begins or ceases to be held. */
void freeze_queue_turned(const Queue *q);

bool group_is_frozen(const Group *g);

/* Whether the service has frozen the unit that the group is in, or is freezing or thawing it. */
bool freeze_is_ours(const Group *g);

/* Takes over the record of a service that did not end orderly: thaws its units, unless they are to stay frozen.
 * freeze_settle() is called when all clients are adopted. */
int freeze_load(Manager *m);
void freeze_settle(Manager *m);

/* Thaws all units, and waits for that; called at the service's end. */
void freeze_thaw_all(Manager *m);
void freeze_free(Manager *m);

/* Thaws all units of a service that has ended. Returns 0 when no unit is frozen any more. */
int freeze_recover(void);
