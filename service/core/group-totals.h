/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a group has used, over its end and the service's
 *
 * A group finds the counters of its entry in the table (totals.h) when it is made, and keeps the entry up to date.
 * Units of the system's manager go by their names: their counters go on when the unit is started again, after a reboot,
 * too (systemd begins CPUUsageNSec anew then). Everything else ends with the group, and outlives only the service. What
 * a group used in its life is one record in the journal.
 */

#include "group.h"

/* At the start, before there are groups; when the former service's clients are there, or not; and at the end. */
void totals_open(Manager *m, bool has_directories);
void totals_settle(Manager *m);
void totals_close(Manager *m);

void group_totals_join(Group *g);
void group_totals_leave(Group *g);

/* Of a device's entities, now and then; and what is told of one, before it is told: that does not go back however the
 * service ends. */
void device_save_totals(Device *d, uint64_t now);
void entity_save_totals(Entity *e, const PolicyUsage *u);
