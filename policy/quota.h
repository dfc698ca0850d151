/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Quota: how long a node may run in each period
 *
 * Periods follow each other without a gap from the first use on. Run time beyond the quota (the last grant could not be
 * taken back in time) is charged to the next periods; unused quota is lost. So a node runs for at most quota_ns in any
 * period, plus that lateness, and for at most that share in the long run. There is no timer: the next call sees that a
 * period has ended.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Quota {
        uint64_t quota_ns; /* 0: no limit */
        uint64_t period_ns;
        uint64_t used_ns; /* in the period that began at begin_ns */
        uint64_t begin_ns;
} Quota;

/* Sets the quota to `percent` of each period, 0: no limit. Use of the present period stays counted. */
void quota_configure(Quota *q, uint32_t percent, uint64_t period_ns, uint64_t now_ns);

static inline bool quota_is_limited(const Quota *q) {
        return q->quota_ns > 0;
}

/* Whether any quota of the present period, or of later ones, is used. */
bool quota_is_in_use(Quota *q, uint64_t now_ns);

/* Charges the use of one place for `ns` from `from_ns` on. */
void quota_charge(Quota *q, uint64_t from_ns, uint64_t ns);

/* Whether the quota is used up at `now_ns`; ends periods that are over. */
bool quota_is_spent(Quota *q, uint64_t now_ns);

/* The rest of a quota that is not used up, in ns. */
uint64_t quota_left(const Quota *q);

/* When a used-up quota has time again. */
uint64_t quota_refill(const Quota *q);
