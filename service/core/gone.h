/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Gone: suspensions and settings that end with their cgroup
 *
 * A suspension ends with its unit or slice, and not with the last process in it. Settings end with a cgroup whose name
 * is not used again: a scope and everything in it, and a cgroup that is no unit (a job's number, a container's).
 * Settings of services and slices belong to the unit, and wait until it is started again.
 *
 * The kernel reports the end of a cgroup (origin.h watches its directory). Cgroups that ended while the service was
 * away are found at the start, by their ids. A cgroup that was never seen does not count as gone: settings that were
 * made for it in advance stay.
 */

#include "group.h"

typedef struct Gone Gone;

/* Called when the group was suspended or given settings: notes the cgroup's id. */
void gone_note(Group *g);

/* Whether the cgroup with this id (0: unknown) is gone. */
bool gone_since(const char *cgroup, uint64_t id);

/* Whether settings of the cgroup end with it. */
bool gone_forgets(const char *cgroup);

void gone_log_resumed(const char *cgroup);
void gone_log_forgotten(const char *cgroup);
