/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Looks: the control thread polls for layers to which a notice of each completion would be expensive
 *
 * A layer asks by xsched_queue_look(), as often as it likes; its look() is called once for that, within LOOK_NS. While
 * looks are asked for, a timer wakes the control thread, and asking costs two loads. After LOOK_NS without a request
 * the thread sleeps, and the next request wakes it. A request by xsched_queue_look_in() makes the next look of all
 * queues earlier.
 */

#include "shim/core/control.h"

#define LOOK_NS (750 * NSEC_PER_USEC)

void look_turn(Control *c);
uint64_t look_next_ns(const Control *c); /* when look_turn() is to be called again; NSEC_INFINITY */

/* In a child after fork. */
void look_forget(void);
