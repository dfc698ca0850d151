/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Activity: the policy `awf` follows logind's active sessions (seats.h)
 *
 * Whose cgroup belongs to an active session is active (entity_settings()), beside those of whom a setting says so.
 * Sessions are followed from the first device on that has the policy.
 */

#include "entity.h"

/* Called before a device gets the policy. */
void activity_follow(Manager *m, const PolicyOps *ops);
