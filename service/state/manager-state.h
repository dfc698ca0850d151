/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the manager itself keeps over a restart: settings of groups and devices that were made at run time, jobs, and
 * the next numbers
 *
 * In a journal of its own: the last record of the manager holds, {"job": ...} and {"group": ...} hold until there is
 * another one of the same, or {"job_gone": TOKEN} and {"group_gone": NAME}. What has changed is written, and with it a
 * little of what has not, until all that stands before some record is outdated. Numbers are written down ahead, for
 * hundreds of clients or queues. Priority holds are not kept: their holders take them again.
 */

#include "service/core/manager.h"

/* Makes the journal; with what the former service left when `fd` is one of its. Does not take fd. To be called before
 * clients are adopted: they are put into the groups that are found here. */
int manager_state_open(Manager *m, int fd);

void manager_state_changed(Manager *m); /* devices, and numbers */
void manager_state_job(Job *j);
void manager_state_job_gone(Job *j);
void manager_state_group(Group *g);
void manager_state_group_gone(Group *g);

/* Before the objects go: the next service goes on with the next numbers. */
void manager_state_close(Manager *m);
