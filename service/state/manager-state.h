/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Manager state: settings of groups and devices that were made at run time, jobs, and the next ids, kept over a restart
 *
 * It has its own ledger. The last record of the manager counts; {"job": ...} and {"group": ...} count until another
 * record of the same object, or {"job_gone": TOKEN} and {"group_gone": NAME}. Each write of a change also writes some
 * unchanged objects again, so that all old records become outdated in time. Ids are reserved ahead, for hundreds of
 * clients or queues. Claims are not kept: their holders take them again.
 */

#include "service/core/manager.h"

/* Opens the ledger: that of the former service if `fd` is one, else a new one. `fd` stays the caller's. Call it before
 * clients are adopted, which need the groups that are restored here. */
int manager_state_open(Manager *m, int fd);

void manager_state_changed(Manager *m); /* devices and next ids */
void manager_state_job(Job *j);
void manager_state_job_gone(Job *j);
void manager_state_group(Group *g);
void manager_state_group_gone(Group *g);

/* Called before the objects are freed: saves the exact next ids for the next service. */
void manager_state_close(Manager *m);
