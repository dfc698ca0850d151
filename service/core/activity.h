/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Activity: the policy `awf` follows logind's active sessions (seats.h)
 *
 * An entity is active if its cgroup belongs to an active session, or if a setting says so (entity_settings()). Sessions
 * are followed once a device has had the policy.
 */

#include "entity.h"

/* Called before a device gets the policy. */
void activity_follow(Manager *m, const PolicyOps *ops);
