/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Registration of the process with the service: what the process tells, and what it gets
 */

#include "control.h"

int link_register(Control *c);

/* Sends hints. `queue`: the service's id of the queue, or 0 for the process. */
int link_send_hints(Control *c, uint64_t queue, const HintSet *hints);
