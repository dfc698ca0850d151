/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Which object suspends another
 */

#include "client.h"

/* The group that suspends the group: itself, or the nearest above. NULL: it is not suspended. */
const Group *group_suspended_by(const Group *g);

/* The group that suspends the client: its own, one above, or, in a job, that of the process's cgroup.
 * NULL: none. */
const Group *client_suspended_by(const Client *c);

/* Whether the queue, its client or its group is suspended. */
static inline bool queue_is_suspended(const Queue *q) {
        return q->suspended || q->client->suspended || (q->manager->n_suspended > 0 && client_suspended_by(q->client));
}
