/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Telling: PropertiesChanged of queues, below verdicts and calls
 *
 * A change of a client's settings is one of all its queues, and a signal takes longer to make than the change. So the
 * signals are made later, a few at a time; what has changed twice by then is told once, with the values that it then
 * has.
 */

#include "service/core/queue.h"

/* The queue's settings have changed. */
void tell_settings(Queue *q);

/* The queue is freed: no change of it is told any more. */
void tell_forget(Queue *q);

void tell_done(Manager *m);
