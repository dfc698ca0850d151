/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Virtual time; see virtual.h.
 */

#include "virtual.h"
#include "fair.h"

static bool is_later(uint64_t a, uint64_t b) {
        return (int64_t) (a - b) > 0;
}

void virtual_set_weight(OrderEntity *e, uint64_t weight) {
        if (weight == e->weight)
                return;
        e->weight = weight;
        e->remainder = 0;
}

void virtual_enqueue(Order *o, OrderEntity *e) {
        if (is_later(o->clock, e->virtual_time))
                e->virtual_time = o->clock;
        e->rank = e->virtual_time;
}

/* What is lost by rounding counts next time: short turns at a high weight are not for nothing. */
void virtual_charge(Order *o, OrderEntity *e, uint64_t ns) {
        fair_wide_t cost = (fair_wide_t) MIN(ns, FAIR_STEP_MAX) * (fair_wide_t) VIRTUAL_SCALE + e->remainder;
        uint64_t slice = e->slice_ns * VIRTUAL_SCALE / e->weight;

        e->virtual_time += (uint64_t) (cost / (fair_wide_t) e->weight);
        e->remainder = (uint64_t) (cost % (fair_wide_t) e->weight);
        if (is_later(e->virtual_time - slice, o->clock))
                o->clock = e->virtual_time - slice;
}

void virtual_tick(Order *o, OrderEntity *e) {
        e->rank = e->virtual_time;
}
