/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Otherwise: changed parameters of the policy, and changed settings of groups, for a replay
 */

#include "replay.h"

/* Apply the changes to recorded parameters and settings. Return 0, or -EINVAL with the reason in `why`. Note groups
 * that have changes as `known`. */
int otherwise_config(const Otherwise *o, PolicyConfig *c, char *why, size_t size);
int otherwise_entity(Otherwise *o, const char *group, PolicySettings *s, char *why, size_t size);
int otherwise_node(Otherwise *o, const char *group, PolicyNodeSettings *s, char *why, size_t size);

/* Whether the recording has all groups for which settings were given. */
int otherwise_check_groups(const Otherwise *o, char *why, size_t size);
