/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Patience with a gap that is late: patience.h describes the rule.
 */

#include "patience.h"
#include "common/macro.h"
#include "common/time-util.h"

static uint64_t patience_most(uint64_t limit_ns) {
        return limit_ns <= UINT64_MAX / PATIENCE_PART ? limit_ns * PATIENCE_PART : UINT64_MAX;
}

void patience_earn(Patience *p, uint64_t ns, uint64_t limit_ns) {
        uint64_t earned_ns = ns_add(p->earned_ns, ns), most_ns = patience_most(limit_ns);

        p->earned_ns = MIN(earned_ns, most_ns);
}

uint64_t patience_begin_gap(Patience *p, uint64_t foreseen_ns, uint64_t limit_ns) {
        uint64_t wait_ns;

        patience_earn(p, 0, limit_ns); /* it may have become less */
        p->foreseen_ns = foreseen_ns;
        wait_ns = foreseen_ns == 0 ? 0 : ns_add(foreseen_ns, p->earned_ns / PATIENCE_PART);
        return MIN(wait_ns, limit_ns);
}

void patience_end_gap(Patience *p, uint64_t gap_ns) {
        uint64_t late_ns = p->foreseen_ns == 0 ? 0 : ns_sub(gap_ns, p->foreseen_ns);

        p->earned_ns = ns_sub(p->earned_ns, patience_most(late_ns));
}
