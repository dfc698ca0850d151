/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Jobs that wait for tails, as far as the harness can tell without knowing which the policy chose
 */

#include "policy-harness.h"

static bool is_awaited(const Job *j) {
        return j->drain_order > 0 && j->h->now_ns < j->drain_until_ns - POLICY_TAIL_MAX + POLICY_TAIL_WAIT;
}

size_t harness_count_awaited(const Harness *h, int priority) {
        size_t n = 0;

        for (size_t i = 0; i < h->n; i++)
                n += is_awaited(h->jobs[i]) && (h->minima || h->jobs[i]->level >= priority);
        return n;
}

bool harness_may_await_above(const Harness *h, int priority) {
        for (size_t i = 0; i < h->n; i++) {
                const Job *j = h->jobs[i];

                if (j->ready && j->grant.verdict == VERDICT_HOLD && j->level > priority &&
                                harness_count_awaited(h, j->level) > 0)
                        return true;
        }
        return false;
}

void harness_check_awaited(const Harness *h, int top, size_t n_running) {
        size_t n_owed = 0, n_tails = harness_count_awaited(h, top);

        for (size_t i = 0; i < h->n; i++)
                n_owed += job_runs(h->jobs[i]) && h->jobs[i]->waited_ns >= h->config.starve_ns;
        for (size_t i = 0; i < h->n; i++) {
                const Job *j = h->jobs[i];

                if (job_runs(j) && j->level == top && j->granted_step == h->step && !j->granted_from_tail &&
                                j->waited_ns < h->config.starve_ns)
                        CHECK(h, n_running + n_tails <= h->config.concurrency + n_owed);
        }
}
