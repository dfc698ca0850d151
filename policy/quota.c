/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Quotas: quota.h has the rules.
 */

#include "quota.h"
#include "common/macro.h"
#include "common/time-util.h"

/* Periods that are over take their quotas with them. */
static void quota_roll(Quota *q, uint64_t now_ns) {
        uint64_t n = ns_sub(now_ns, q->begin_ns) / q->period_ns;

        if (n == 0)
                return;
        q->begin_ns += n * q->period_ns;
        q->used_ns = n > q->used_ns / q->quota_ns ? 0 : q->used_ns - n * q->quota_ns;
}

void quota_configure(Quota *q, uint32_t percent, uint64_t period_ns, uint64_t now_ns) {
        uint64_t quota_ns = period_ns / 100 * percent;

        if (quota_ns == q->quota_ns && period_ns == q->period_ns)
                return;
        if (quota_is_limited(q))
                quota_roll(q, now_ns);
        else
                *q = (Quota){.begin_ns = now_ns};
        q->quota_ns = quota_ns;
        q->period_ns = period_ns;
}

void quota_charge(Quota *q, uint64_t from_ns, uint64_t ns) {
        quota_roll(q, from_ns);

        uint64_t end_ns = q->begin_ns + q->period_ns, first = MIN(ns, end_ns - from_ns);

        q->used_ns = ns_add(q->used_ns, first);
        if (ns > first) {
                quota_roll(q, end_ns);
                q->used_ns = ns_add(q->used_ns, ns - first);
        }
}

bool quota_is_in_use(Quota *q, uint64_t now_ns) {
        if (!quota_is_limited(q))
                return false;
        quota_roll(q, now_ns);
        return q->used_ns > 0;
}

bool quota_is_spent(Quota *q, uint64_t now_ns) {
        quota_roll(q, now_ns);
        return q->used_ns >= q->quota_ns;
}

uint64_t quota_left(const Quota *q) {
        return ns_sub(q->quota_ns, q->used_ns);
}

uint64_t quota_refill(const Quota *q) {
        uint64_t n = q->used_ns / q->quota_ns;

        return n > NSEC_INFINITY / 2 / q->period_ns ? NSEC_INFINITY : q->begin_ns + n * q->period_ns;
}
