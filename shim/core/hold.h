/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Holds beyond the gate: the control thread's work for queues whose backend can stop submitted work
 */

#include "control.h"

void hold_turn(Control *c);                         /* brings every queue to its verdict, a batch per device */
void hold_forget_queue(Control *c, XschedQueue *q); /* releases a queue that is dropped */
uint64_t hold_next_ns(const Control *c);            /* when hold_turn() is to be called again; NSEC_INFINITY */
