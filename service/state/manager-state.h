/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the manager itself keeps over a restart: settings of groups and devices that were made at run time, jobs, and
 * the next numbers
 *
 * One record in a journal of its own, written anew when something of it changes (rare: an administrator did something,
 * a job began or ended, or hundreds of clients or queues came: their numbers are written down ahead). Priority holds
 * are not kept: their holders take them again.
 */

#include "service/core/manager.h"

/* Makes the journal; with what the former service left when `fd` is one of its. Does not take fd. To be called before
 * clients are adopted: they are put into the groups that are found here. */
int manager_state_open(Manager *m, int fd);

void manager_state_changed(Manager *m);

/* Before the objects go: the next service goes on with the next numbers. */
void manager_state_close(Manager *m);
