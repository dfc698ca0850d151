/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Halt: clients whose cgroup is frozen
 *
 * A frozen process (systemctl freeze, podman pause, a suspended job of Slurm) makes no progress with its launches, so
 * others must not wait for it: while its client is halted, the client's queues count as idle, whatever they have
 * outstanding. After the thaw they count again at once.
 *
 * The service reads "frozen" in cgroup.events, which is set for a frozen cgroup and for those below it, once all their
 * processes have stopped. The kernel reports changes of the file, at most every 10 ms. Each cgroup with clients has one
 * watch.
 *
 * A unit that the service itself has frozen (freeze.h) is not halted: It is held, and thawed when it has its turn,
 * which would never come if it counted as idle.
 */

#include "service/core/manager.h"

typedef struct Halts Halts;
typedef struct HaltCgroup HaltCgroup;

/* Called when the client comes, or has changed its cgroup. Without a hierarchy, memory or watches, the client is never
 * halted. */
void halt_join(Client *c);
void halt_leave(Client *c);

/* Called when freeze_is_ours() has changed for a group. */
void halts_reconsider(Manager *m);

Halts *halts_free(Halts *h);
