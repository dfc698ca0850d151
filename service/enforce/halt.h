/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Halted clients: those whose cgroup is frozen
 *
 * Who is frozen (systemctl freeze, podman pause, a suspended job of Slurm) keeps its launches and does not go on with
 * them, so that nobody waits for it: while it is halted, its queues count as idle, whatever they have outstanding. When
 * it is thawed they count at once.
 *
 * "frozen" in cgroup.events says so, of a cgroup that is frozen itself as well as of one below such a cgroup, once all
 * its processes have stopped; and the kernel tells when the file changes, every 10 ms at most. One watch for each
 * cgroup that has clients.
 *
 * A unit that the service itself has frozen (freeze.h) is not meant: it is held, and is thawed when it is its turn,
 * which would never come to somebody who counts as idle.
 */

#include "service/core/manager.h"

typedef struct Halts Halts;
typedef struct HaltCgroup HaltCgroup;

/* The client is in the cgroup that its peer says, or in another now. Without a hierarchy, or memory, or watches, it is
 * never halted. */
void halt_join(Client *c);
void halt_leave(Client *c);

/* Freezers of ours have changed. */
void halts_reconsider(Manager *m);

Halts *halts_free(Halts *h);
