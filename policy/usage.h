/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Usage: which entities have the device, to which of them time is charged, and how the device as a whole was used
 */

#include "core.h"

/* entity_account() adds the time so far to the entity's usage; it is called before `ready` or the reported verdict
 * changes. entity_usage_at() returns the usage at `now_ns`. */
void entity_account(PolicyEntity *e);
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
