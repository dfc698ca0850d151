/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Quotas: how much a node may run in each period
 *
 * Periods follow each other without a gap from the first use on. What is run beyond the quota (the last grant could not
 * be taken back in time) is owed to the next periods; what is not used is gone. So nobody runs for more than quota_ns
 * in any period, but for what comes late, and for not more than that share in the long run. Nothing happens when nobody
 * looks: a period that is over is seen by whoever asks next.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Quota {
        uint64_t quota_ns; /* 0: no limit */
        uint64_t period_ns;
        uint64_t used_ns; /* in the period that began at begin_ns */
        uint64_t begin_ns;
} Quota;

/* `percent` of each period, 0: no limit. What was used in this period stays. */
void quota_configure(Quota *q, uint32_t percent, uint64_t period_ns, uint64_t now_ns);

static inline bool quota_is_limited(const Quota *q) {
        return q->quota_ns > 0;
}

/* Something of the period that goes on, or of later ones, was used. */
bool quota_is_in_use(Quota *q, uint64_t now_ns);

/* One place was used from then on, for so long. */
void quota_charge(Quota *q, uint64_t from_ns, uint64_t ns);

/* Looks at the periods that have ended. */
bool quota_is_spent(Quota *q, uint64_t now_ns);

/* Not spent: how much is left before it is. */
uint64_t quota_left(const Quota *q);

/* Spent: when it is not so any more. */
uint64_t quota_refill(const Quota *q);
