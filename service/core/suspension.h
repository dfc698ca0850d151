/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Suspension: called to suspend something, or to resume it
 */

#include "client.h"

/* Suspends or resumes the group and everything below, clients to come included. */
void group_set_suspended(Group *g, bool suspended);

/* Called after the client's group, or one above, was suspended or resumed. */
void client_suspension_changed(Client *c);
void client_set_suspended(Client *c, bool suspended);

void queue_set_suspended(Queue *q, bool suspended);

/* Called after the client or the group of the queue was suspended or resumed. */
void queue_sync(Queue *q);
