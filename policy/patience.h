/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Patience with a gap that is late
 *
 * What is worth waiting for follows from the gaps before (gaps.h), and now and then one is longer: an interrupt, a page
 * that is missing. Who loses his place by that gets it back when the other's launch is over. Beside launches of 10 ms
 * one late gap in 10 ms costs half of a share of three quarters.
 *
 * So who has a place earns a credit, and it is waited for him by that much longer. A gap that is longer than was
 * foreseen takes from it what it was late, and all of it when he was away for longer than was waited. The credit begins
 * at nothing, grows by a PATIENCE_PART of the time for which he had the place, and is never more than the limit of a
 * wait.
 *
 * Bound: what is waited beyond what was foreseen is at most a PATIENCE_PART of the time for which he had the place.
 * So a device idles for no more than a hundredth of it, and that is a part of his share like any time for which a
 * place is kept. Where nothing is foreseen nothing is waited, and so it is where no place is kept: keep.h.
 */

#include <stdint.h>

#define PATIENCE_PART 100U

typedef struct Patience {
        uint64_t earned_ns;   /* in places; of PATIENCE_PART of it one is credit */
        uint64_t foreseen_ns; /* of the gap that has begun */
} Patience;

/* It had a place for so long. */
void patience_earn(Patience *p, uint64_t ns, uint64_t limit_ns);

/* It is idle from now on. How long to wait, 0..limit_ns; 0 where nothing is foreseen. */
uint64_t patience_begin_gap(Patience *p, uint64_t foreseen_ns, uint64_t limit_ns);

/* It is back. */
void patience_end_gap(Patience *p, uint64_t gap_ns);
