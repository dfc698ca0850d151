/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The harness's own accounts: divides each moment among the jobs by the events that it gave the policy and the policy's
 * grants
 */

#include "policy-harness.h"
#include "policy-naive.h"

/* The draining job that follows `order`. */
static Job *next_drainer(const Harness *h, uint64_t order) {
        Job *best = NULL;

        for (size_t i = 0; i < h->n; i++) {
                Job *j = h->jobs[i];

                if (j->drain_order > order && (!best || j->drain_order < best->drain_order))
                        best = j;
        }
        return best;
}

static bool has_tail(const Job *j) {
        const Job *d = NULL;

        if (j->drain_order == 0)
                return false;
        for (uint32_t i = 0; i < j->h->config.concurrency; i++) {
                d = next_drainer(j->h, d ? d->drain_order : 0);
                if (!d || d == j)
                        break;
        }
        return d == j;
}

/* Whether the job is granted but waits for a tail: tails take places from the jobs granted last. */
static bool is_blocked(const Job *j) {
        const Harness *h = j->h;
        size_t tails = 0, running = 0, later = 0, waiting;

        if (!job_runs(j) || !next_drainer(h, 0))
                return false;
        for (size_t i = 0; i < h->n; i++) {
                tails += has_tail(h->jobs[i]);
                running += job_runs(h->jobs[i]);
                later += job_runs(h->jobs[i]) && h->jobs[i]->grant_order > j->grant_order;
        }
        waiting = tails + running > h->config.concurrency ? tails + running - h->config.concurrency : 0;
        waiting = MIN(waiting, tails);
        return later < waiting;
}

static bool job_has_device(const Job *j) {
        return job_runs(j) ? !is_blocked(j) : has_tail(j);
}

static void job_account(Job *j, uint64_t ns) {
        if (!j->ready && !has_tail(j))
                return;
        j->ready_ns += ns;
        if (!job_has_device(j)) {
                j->usage.wait_ns += ns;
                j->usage.drain_wait_ns += job_runs(j) ? ns : 0;
                return;
        }
        j->usage.run_ns += ns;
        for (HarnessNode *n = j->node; n; n = n->parent)
                n->run_ns += ns;
}

void harness_account(Harness *h, uint64_t ns) {
        uint64_t now_ns = h->now_ns, end_ns = h->now_ns + ns;

        while (now_ns < end_ns) {
                Job *d = next_drainer(h, 0);
                uint64_t step_ns = MIN(d ? d->drain_until_ns : end_ns, end_ns) - now_ns;
                bool busy = false;

                for (size_t i = 0; i < h->n; i++)
                        busy = busy || job_has_device(h->jobs[i]);
                for (size_t i = 0; i < h->n; i++)
                        job_account(h->jobs[i], step_ns);
                if (busy)
                        h->usage.busy_ns += step_ns;
                else if (h->n > 0)
                        h->usage.idle_ns += step_ns; /* or kept */
                now_ns += step_ns;
                if (d && d->drain_until_ns <= now_ns)
                        d->drain_order = 0;
        }
}

void harness_check_usage(const Harness *h) {
        PolicyDeviceUsage d;
        uint64_t kept_ns = 0;

        for (size_t i = 0; i < h->n; i++) {
                const Job *j = h->jobs[i];
                PolicyUsage u, awaited = {};

                h->ops->entity_usage(j->entity, h->now_ns, &u);
                CHECK(h, u.run_ns == j->usage.run_ns);
                CHECK(h, u.wait_ns == j->usage.wait_ns);
                if (h->oracle)
                        policy_naive_ops.entity_usage(j->twin, h->now_ns, &awaited);
                CHECK(h, u.drain_wait_ns >= j->usage.drain_wait_ns + awaited.drain_wait_ns);
                CHECK(h, !h->oracle || u.drain_wait_ns == j->usage.drain_wait_ns + awaited.drain_wait_ns);
                CHECK(h, u.n_preempted == j->usage.n_preempted);
                CHECK(h, u.run_ns + u.wait_ns == j->ready_ns);
                CHECK(h, u.kept_ns >= j->usage.kept_ns);
                kept_ns += u.kept_ns;
        }
        h->ops->device_usage(h->policy, h->now_ns, &d);
        CHECK(h, d.busy_ns == h->usage.busy_ns);
        CHECK(h, d.kept_ns + d.idle_ns == h->usage.idle_ns);
        if (h->config.linger_ns == 0 && !h->reconfigured)
                CHECK(h, kept_ns == 0);
}

void harness_pass(Harness *h, uint64_t ns) {
        if (h->now_ns + ns > h->wake_ns)
                h->late = true;
        harness_account(h, ns);
        h->now_ns += ns;
}

static bool tail_is_beside(const Job *j) {
        for (size_t i = 0; i < j->h->n; i++)
                if (is_blocked(j->h->jobs[i]))
                        return has_tail(j);
        return false;
}

/* As if the job did not drain, but the time in which its tail counts goes on. */
static void pass_without_tail(Job *j, uint64_t ns) {
        Harness *h = j->h;
        uint64_t order = j->drain_order;

        j->drain_order = 0;
        harness_pass(h, ns);
        j->drain_order = h->now_ns < j->drain_until_ns ? order : 0;
}

void harness_tail_had(Job *j, uint64_t ns, uint64_t had_ns) {
        Harness *h = j->h;

        harness_dispatch(h);
        bool beside = tail_is_beside(j);
        uint64_t first_ns = beside ? MIN(had_ns, ns) : ns;

        h->seen.n_divided += beside && first_ns < ns;
        harness_pass(h, first_ns);
        if (first_ns < ns && j->drain_order > 0)
                pass_without_tail(j, ns - first_ns);
        else
                harness_pass(h, ns - first_ns);
        h->ops->entity_tail_had(j->entity, had_ns, h->now_ns);
        if (h->oracle)
                policy_naive_ops.entity_tail_had(j->twin, had_ns, h->now_ns);
}

void harness_run(Harness *h, uint64_t ns) {
        uint64_t end = h->now_ns + ns;

        while (h->wake_ns < end) {
                harness_pass(h, ns_sub(h->wake_ns, h->now_ns));
                harness_dispatch(h);
        }
        harness_pass(h, end - h->now_ns);
        harness_dispatch(h);
}
