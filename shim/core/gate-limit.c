/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How many launches a gate lets be in flight
 */

#include "gate-limit.h"
#include "common/macro.h"
#include "common/time-util.h"
#include "shim/core/gate.h"

uint64_t gate_lead(const Gate *g) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        return MIN(atomic_load_explicit(&s->lead_us, memory_order_relaxed), UINT32_C(1000)) * NSEC_PER_USEC;
}

uint32_t gate_limit_for(const Gate *g, uint64_t each_ns) {
        const PageSlot *s = atomic_load_explicit(&g->slot, memory_order_acquire);
        uint32_t threshold = atomic_load_explicit(&s->threshold, memory_order_relaxed);
        if (likely(threshold == 0))
                return 0;

        uint64_t budget = atomic_load_explicit(&s->budget_us, memory_order_relaxed) * NSEC_PER_USEC;
        if (budget == 0 || each_ns == 0)
                return threshold;
        return (uint32_t) CLAMP(budget / each_ns, (uint64_t) threshold, (uint64_t) UINT32_MAX);
}

uint32_t gate_limit(const Gate *g) {
        return gate_limit_for(g, atomic_load_explicit(&g->mean_ns, memory_order_relaxed));
}
