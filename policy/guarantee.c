/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Guarantees: guarantee.h has the rules.
 */

#include "guarantee.h"
#include "common/macro.h"
#include "common/time-util.h"

/* No turn is waited for longer than this, which keeps the product below within its type. */
#define GUARANTEE_STEP_MAX (UINT64_C(1) << 48)

/* More than any turn and its tail, and far from the end of the type. */
#define GUARANTEE_DEBT_MAX (INT64_C(1) << 60)

static int64_t guarantee_quantum(const Guarantee *g) {
        return (int64_t) g->quantum_ns * 100;
}

/* Of a debt that is more than a quantum nothing is forgiven. */
static void guarantee_add(Guarantee *g, int64_t credit) {
        int64_t least = MIN(g->credit, -guarantee_quantum(g));

        g->credit = CLAMP(g->credit + credit, least, GUARANTEE_CREDIT_MAX * guarantee_quantum(g));
}

static void guarantee_account(Guarantee *g, uint64_t now_ns) {
        uint64_t ns = ns_sub(now_ns, g->at_ns);

        g->at_ns = now_ns;
        if (guarantee_is_wanting(g))
                guarantee_add(g, (int64_t) (MIN(ns, GUARANTEE_STEP_MAX) * g->percent));
}

void guarantee_configure(Guarantee *g, uint32_t percent, uint64_t quantum_ns, uint64_t now_ns) {
        guarantee_account(g, now_ns);
        g->percent = percent;
        g->quantum_ns = quantum_ns;
        guarantee_add(g, 0);
}

void guarantee_set_wanting(Guarantee *g, bool wanting, uint64_t now_ns) {
        guarantee_account(g, now_ns);
        g->wanting = wanting;
}

void guarantee_charge(Guarantee *g, uint64_t ns, bool by_turn, uint64_t now_ns) {
        int64_t charge = (int64_t) (MIN(ns, GUARANTEE_STEP_MAX) * 100);

        guarantee_account(g, now_ns);
        if (by_turn)
                g->credit = MAX(g->credit - charge, -GUARANTEE_DEBT_MAX);
        else
                guarantee_add(g, -charge);
}

uint64_t guarantee_due(Guarantee *g, uint64_t now_ns) {
        guarantee_account(g, now_ns);

        int64_t missing = guarantee_quantum(g) - g->credit;

        if (missing <= 0)
                return now_ns;
        return ns_add(now_ns, DIV_ROUND_UP((uint64_t) missing, g->percent));
}

void guarantee_forget(Guarantee *g, uint64_t now_ns) {
        guarantee_account(g, now_ns);
        g->credit = 0;
}
