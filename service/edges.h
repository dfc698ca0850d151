/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Edges: what clients say through their pages, and what the policy is told of it
 *
 * An edge is heard of some time after it happened, and time is charged by when it happened: by the client's stamp. A stamp counts between what was
 * known before and now, and for EDGE_LATE_MAX at most: so a client that stamps its ends too early is charged less by that for each of its edges, and
 * nobody else is charged differently.
 *
 * Of a client that is quicker than we are, edges are missed: it is ready as it was before, and has been idle in between, or the other
 * way round. The stamps tell of the last time, so that the policy learns its gaps and counts it as kept for, not as run, as far as is known. That is
 * looked at where an entity is one queue.
 */

#include "arbiter.h"

/* Older than this is a client's fancy, or the fault of a service that was absent. */
#define EDGE_LATE_MAX (2 * NSEC_PER_MSEC)

/* When something happened, by the client's stamp (0: none), as far as it is believed. */
uint64_t edge_time(const Queue *q, uint64_t stamp, uint64_t now);

/* Looks at the slot, which was named as dirty. */
void edge_look(Queue *q);
