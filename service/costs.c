/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Costs
 */

#include "costs.h"
#include "common/macro.h"
#include "policy/preemption.h"

void costs_learn(uint64_t *estimate_ns, uint64_t sample_ns, uint64_t elapsed_ns) {
        uint64_t ceiling = CLAMP(elapsed_ns, (uint64_t) COSTS_MIN_NS, (uint64_t) COSTS_MAX_NS);
        uint64_t sample = CLAMP(sample_ns, (uint64_t) COSTS_MIN_NS, ceiling);

        if (*estimate_ns != 0)
                sample = CLAMP(sample, *estimate_ns / COSTS_SPREAD, *estimate_ns * COSTS_SPREAD);
        *estimate_ns = ns_learn(*estimate_ns, sample);
}

uint64_t costs_drain(uint64_t n, uint64_t mean_ns) {
        uint64_t sum;

        if (n == 0)
                return 0;
        if (mean_ns == 0)
                return PREEMPTION_UNKNOWN;
        if (__builtin_mul_overflow(n, mean_ns, &sum))
                return COSTS_DRAIN_MAX_NS;
        return MIN(sum, (uint64_t) COSTS_DRAIN_MAX_NS);
}

uint64_t costs_drain_add(uint64_t a, uint64_t b) {
        if (a == PREEMPTION_UNKNOWN || b == PREEMPTION_UNKNOWN)
                return PREEMPTION_UNKNOWN;
        return MIN(a + b, (uint64_t) COSTS_DRAIN_MAX_NS);
}
