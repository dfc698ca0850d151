/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What is to be otherwise: parameters of the policy, and settings of groups
 */

#include "replay.h"

/* What becomes of recorded parameters and settings. 0, or -EINVAL with why. A group that is asked for is `known`. */
int otherwise_config(const Otherwise *o, PolicyConfig *c, char *why, size_t size);
int otherwise_entity(Otherwise *o, const char *group, PolicySettings *s, char *why, size_t size);
int otherwise_node(Otherwise *o, const char *group, PolicyNodeSettings *s, char *why, size_t size);

/* Whether all groups that have settings were asked for. */
int otherwise_check_groups(const Otherwise *o, char *why, size_t size);
