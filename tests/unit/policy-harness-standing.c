/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The harness: grants of idle jobs that may stand, and thresholds
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"

void harness_note_crowd(Harness *h, int highest, bool contends) {
        if (contends)
                h->contended_ns = h->now_ns;
        if (!contends || highest != h->highest || h->contending_since_ns == 0)
                h->contending_since_ns = contends ? h->now_ns : 0;
        if (contends && h->now_ns - h->contending_since_ns >= 2 * POLICY_CROWD_NS)
                h->crowded_ns = h->now_ns;
}

bool harness_may_stand(const Harness *h, const Job *j) {
        bool crowded = h->crowded_ns > h->highest_since_ns && h->now_ns < h->crowded_ns + RECENT_NS && !h->maxima;

        return !j->ready && j->drain_order == 0 && !crowded && !(h->minima && h->n > 1) && !j->is_limited &&
                        h->highest >= h->outside;
}

void harness_check_thresholds(const Harness *h) {
        int highest = h->highest;
        size_t n_highest = 0;
        bool minima = h->minima, maxima = h->maxima;

        for (size_t i = 0; i < h->n; i++)
                n_highest += h->jobs[i]->level == highest;

        for (size_t i = 0; i < h->n; i++) {
                const Job *j = h->jobs[i];
                uint32_t own = j->settings.threshold ?: h->config.threshold;

                if (j->grant.verdict == VERDICT_HOLD)
                        continue;
                CHECK(h, j->grant.threshold == own || j->grant.threshold == 0);
                if (j->level < highest || j->is_limited || (minima && h->n > 1))
                        CHECK(h, j->grant.threshold == own);
                else if (harness_may_stand(h, j) || maxima || highest < h->outside)
                        continue; /* it keeps its last one, or the contending jobs depend on the stopped ones */
                else if (n_highest == 1)
                        CHECK(h, j->grant.threshold == 0);
                else if (h->now_ns < h->contended_ns + RECENT_NS)
                        CHECK(h, j->grant.threshold == own);
                else if (h->now_ns >= h->highest_since_ns + RECENT_NS &&
                                h->now_ns >= h->may_be_contended_ns + RECENT_NS)
                        CHECK(h, j->grant.threshold == 0);
        }
}
