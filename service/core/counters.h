/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Counters: what clients count in their pages, and how long queues wait
 */

#include "client.h"

void client_counters_add(ClientCounters *sum, const ClientCounters *add);

/* Sums over all queues of the client, freed ones included. */
void client_counters(const Client *c, ClientCounters *ret);

/* Called after `ready` or the verdict changed. */
void queue_note_wait(Queue *q);

void queue_counters(const Queue *q, ClientCounters *ret);
