/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Registration and removal of queues over the connection
 */

#include "control.h"

void link_forget_queue(Control *c, uint64_t id);

void link_send_queue_hints(Control *c);
void link_send_goners(Control *c);
void link_send_queues(Control *c);
