/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Guarantee: how much of its minimum a node is owed
 *
 * While an entity below the node could run, the node's credit grows by `percent` of the time that passes, and shrinks
 * by its run time. A node with a credit of one quantum is due: it is owed a turn of one quantum. So a node that gets
 * its minimum by weight and priority is never due, and one that gets nothing else runs for a quantum of every quantum *
 * 100 / percent. The quantum is the minimum's part of a period, and at most a time slice, so that a guarantee makes the
 * others wait no longer than an ordinary turn.
 *
 * Time in which no entity below could run earns no credit. Credit is GUARANTEE_CREDIT_MAX quanta at most (all minima
 * together may exceed the device). Run time by weight takes no more than leaves minus one quantum: only recent run time
 * counts. Turns count in full, with the launches that run on after them: these may be longer than a quantum, and a part
 * that was forgiven would be a share on top of the minimum.
 */

#include <stdbool.h>
#include <stdint.h>

#define GUARANTEE_CREDIT_MAX 3

typedef struct Guarantee {
        uint32_t percent; /* 0: none */
        bool wanting;     /* an entity below could run */
        uint64_t quantum_ns;
        int64_t credit; /* ns times 100 */
        uint64_t at_ns; /* `credit` is complete up to here */
} Guarantee;

void guarantee_configure(Guarantee *g, uint32_t percent, uint64_t quantum_ns, uint64_t now_ns);
void guarantee_set_wanting(Guarantee *g, bool wanting, uint64_t now_ns);

static inline bool guarantee_is_wanting(const Guarantee *g) {
        return g->percent > 0 && g->wanting;
}

/* The node ran for `ns` up to `now_ns`. */
void guarantee_charge(Guarantee *g, uint64_t ns, bool by_turn, uint64_t now_ns);

/* When a wanting node is due if it does not run until then. */
uint64_t guarantee_due(Guarantee *g, uint64_t now_ns);

/* Clears the credit. */
void guarantee_forget(Guarantee *g, uint64_t now_ns);
