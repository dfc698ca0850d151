/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

/*
 * Virtual time, for orderings that rank by it: the time that an entity had, divided by its weight
 *
 * The order's clock is the virtual time at which the slice of whoever runs began (start-time fair queueing: Goyal, Vin
 * and Cheng, 1996), and never goes back. Who comes begins there, or at his own time if that is later: time away earns
 * nothing, and washes off no debt. So of those who have always had work no two are further apart than a slice of each.
 *
 * Virtual time wraps: only differences count, and rank.h compares ranks so.
 */

#include "order.h"

#define VIRTUAL_SCALE UINT64_C(10000) /* per ns, at weight 1 */

/* 1 or more. */
void virtual_set_weight(OrderEntity *e, uint64_t weight);

void virtual_enqueue(Order *o, OrderEntity *e);
void virtual_charge(Order *o, OrderEntity *e, uint64_t ns);
void virtual_tick(Order *o, OrderEntity *e);
