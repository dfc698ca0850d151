/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What ends with a cgroup
 *
 * A suspension does: of a unit with the unit, of a slice with the slice, and not with the last process in it. Settings
 * do where nobody comes back to find them: of a cgroup that is no unit, whose name (a job's number, a container's) is
 * not given again, and of all in a scope. Settings of services and slices are the unit's, and wait for it.
 *
 * The kernel tells of a cgroup's end (origin.h watches its directory); what went while the service was away is found at
 * the start, by the number that the cgroup had. A cgroup that has never been seen is none that is gone: what was made
 * for it in advance stays.
 */

#include "group.h"

typedef struct Gone Gone;

/* The group was suspended, or given settings: notes which cgroup that was for. */
void gone_note(Group *g);

/* gone-watch.c: the directory of the origin was removed. */
void gone_cgroup(Origin *o);

/* Something was stored for this name, or forgotten: its cgroup is watched while there is something. */
void gone_watch(Manager *m, const char *name);

/* Forgets what is stored for cgroups that went while nobody looked, and watches the others. */
void gone_start(Manager *m);
void gone_free(Manager *m);

/* Whether the cgroup that had this number (0: unknown) is gone. */
bool gone_since(const char *cgroup, uint64_t id);

/* Whether settings that were made for the cgroup end with it. */
bool gone_forgets(const char *cgroup);

void gone_log_resumed(const char *cgroup);
void gone_log_forgotten(const char *cgroup);
