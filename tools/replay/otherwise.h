/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What is to be otherwise: parameters of the policy, and settings of groups
 */

#include "replay.h"

/* What becomes of recorded parameters and settings. 0, or -EINVAL with why. */
int otherwise_config(const Otherwise *o, PolicyConfig *c, char *why, size_t size);
int otherwise_entity(const Otherwise *o, const char *group, PolicySettings *s, char *why, size_t size);
int otherwise_node(const Otherwise *o, const char *group, PolicyNodeSettings *s, char *why, size_t size);
