/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Usage: which entities have the device, to which of them time is charged, and how the device as a whole was used
 */

#include "core.h"

/* Adds the time until then to the entity's usage. */
void entity_settle(PolicyEntity *e, uint64_t until_ns);

/* Called before `ready` or the reported verdict changes. */
static inline void entity_account(PolicyEntity *e) {
        entity_settle(e, e->policy->now_ns);
}

/* The entity's usage at `now_ns`. */
PolicyUsage entity_usage_at(const PolicyEntity *e, uint64_t now_ns);

/* The device's usage at `now_ns`. */
PolicyDeviceUsage core_usage_at(const Policy *p, uint64_t now_ns);

/* Accounts all time up to `until_ns` under the present verdicts. */
void core_account(Policy *p, uint64_t until_ns);

/* Whether its tail has the device now. */
bool entity_has_tail(const PolicyEntity *e);

/* How many granted and ready entities wait for tails. They are the first ready ones in Policy.granted. */
size_t core_n_blocked(const Policy *p);
bool entity_is_blocked(const PolicyEntity *e);

/* Whether an entity could run and has no place. */
bool core_is_wanted(const Policy *p);
