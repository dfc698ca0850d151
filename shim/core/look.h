/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Looks: the control thread looks, now and then, for who would have to pay much to be told
 *
 * A layer asks by xsched_queue_look(), as often as it likes; its look() is called once for that, within LOOK_NS.
 * While somebody asks the control thread is woken by its own timer, and asking costs two loads; after LOOK_NS
 * without, it sleeps, and the next to ask wakes it.
 */

#include "shim/core/control.h"

#define LOOK_NS (750 * NSEC_PER_USEC)

void look_turn(Control *c);
uint64_t look_next_ns(const Control *c); /* when look_turn() is to be called again; NSEC_INFINITY */

/* In a child after fork. */
void look_forget(void);
