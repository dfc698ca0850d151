/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Patience: credit for gaps that are longer than foreseen
 *
 * gaps.h derives the wait from past gaps, but now and then a gap is longer, by an interrupt or a page fault. An entity
 * that loses its place by that gets it back only when the other's launch has ended. Beside launches of 10 ms, one late
 * gap in 10 ms costs half of a share of three quarters.
 *
 * So an entity earns credit while it has a place, and the wait for it is longer by its credit. A gap that is longer
 * than foreseen costs the difference, and all credit when the entity was away for longer than the wait. The credit
 * begins at 0, grows by 1/PATIENCE_PART of the time for which the entity has a place, and is at most the limit of a
 * wait.
 *
 * Bound: waits beyond the foreseen gaps are at most 1/PATIENCE_PART of the time for which the entity had a place. So a
 * device idles for at most a hundredth of it, and that counts in the entity's share, like all time for which a place is
 * kept. Without a foreseen gap there is no wait, and none where no place is kept: keep.h.
 */

#include <stdint.h>

#define PATIENCE_PART 100U

typedef struct Patience {
        uint64_t earned_ns;   /* time in places; the credit is 1/PATIENCE_PART of it */
        uint64_t foreseen_ns; /* foreseen length of the present gap */
} Patience;

/* The entity had a place for `ns`. */
void patience_earn(Patience *p, uint64_t ns, uint64_t limit_ns);

/* The entity is idle from now on. Returns how long to wait, 0..limit_ns; 0 without a foreseen gap. */
uint64_t patience_begin_gap(Patience *p, uint64_t foreseen_ns, uint64_t limit_ns);

/* The entity is back after `gap_ns`. */
void patience_end_gap(Patience *p, uint64_t gap_ns);
