/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Guarantees: how much of its minimum a node is owed
 *
 * While something below the node could run, its credit grows by `percent` of the time that passes, and shrinks by the
 * time that it runs. When it has reached a quantum the node is due: a turn of one quantum is what it is owed then. So a
 * node that gets its minimum by weight and priority is never due, and one that gets nothing runs for a quantum of every
 * quantum * 100 / percent. The quantum is what the minimum is worth in a period, and not more than a time slice: a
 * guarantee is no reason to keep the others waiting for longer than anybody else may.
 *
 * Time in which nothing could run earns nothing, and credit is kept between minus one quantum (what was run by weight a
 * moment ago counts, what was run long ago does not) and GUARANTEE_CREDIT_MAX quanta (all minima together may be worth
 * more than the device).
 */

#include <stdbool.h>
#include <stdint.h>

#define GUARANTEE_CREDIT_MAX 3

typedef struct Guarantee {
        uint32_t percent; /* 0: none */
        uint64_t quantum_ns;
        int64_t credit; /* ns times 100 */
        uint64_t at_ns; /* `credit` is complete up to here */
        bool wanting;   /* something could run */
} Guarantee;

void guarantee_configure(Guarantee *g, uint32_t percent, uint64_t quantum_ns, uint64_t now_ns);
void guarantee_set_wanting(Guarantee *g, bool wanting, uint64_t now_ns);

static inline bool guarantee_is_wanting(const Guarantee *g) {
        return g->percent > 0 && g->wanting;
}

/* It ran for so long up to now. */
void guarantee_charge(Guarantee *g, uint64_t ns, uint64_t now_ns);

/* Wanting: when it is due if it does not run until then. */
uint64_t guarantee_due(Guarantee *g, uint64_t now_ns);

/* Whatever it was owed, it is owed nothing. */
void guarantee_forget(Guarantee *g, uint64_t now_ns);
