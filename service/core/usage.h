/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Usage of entities and groups
 */

#include "client.h"

void group_usage(const Group *g, uint64_t now, PolicyUsage *ret);

/* Part of the group's wait time that the service caused: from the event that let it run to the written verdict. In ns.
 */
uint64_t group_service_wait(const Group *g);

/* Run time, in ns, of the group and of everything that is or was below it. */
uint64_t group_gpu_time(const Group *g, uint64_t now);

/* Run time, in ns, that was counted by watching since the entity was made. */
uint64_t entity_counted(const Entity *e, uint64_t now);

/* Usage since the entity was made, for display: no counter ever goes back, not even in the next service. */
void entity_usage(Entity *e, uint64_t now, PolicyUsage *ret);

void usage_add(PolicyUsage *sum, const PolicyUsage *add);
