/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Ahead: has the CPU fetch from memory what an edge is about to read
 *
 * Of many clients the next one to make an edge is in no cache, and its objects are found one by the other: the client,
 * its slot, the queue, the entity, its part of the policy. Each would be waited for in turn. So their addresses are
 * noted with each edge, and all of them are fetched at once when the next one is reported. An address of an object that
 * was freed is fetched in vain.
 */

#include "client.h"

/* Called when the client's eventfd was reported, before anything of it is read. */
void ahead_fetch(Manager *m, uint64_t client_id);

/* Called for an edge of the queue, before its slot is read; and when that was handled. Of several edges of one client
 * in a row only the first matters. */
void ahead_fetch_more(const Queue *q);
void ahead_note(const Queue *q);
