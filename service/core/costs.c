/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Costs
 */

#include <string.h>
#include <utlist.h>

#include "common/array.h"
#include "common/macro.h"
#include "costs.h"
#include "party.h"
#include "policy/preemption.h"

void costs_learn(uint64_t *estimate_ns, uint64_t sample_ns, uint64_t elapsed_ns) {
        uint64_t ceiling = CLAMP(elapsed_ns, (uint64_t) COSTS_MIN_NS, (uint64_t) COSTS_MAX_NS);
        uint64_t sample = CLAMP(sample_ns, (uint64_t) COSTS_MIN_NS, ceiling);

        if (*estimate_ns != 0)
                sample = CLAMP(sample, *estimate_ns / COSTS_SPREAD, *estimate_ns * COSTS_SPREAD);
        *estimate_ns = ns_learn(*estimate_ns, sample);
}

uint64_t costs_doubt(uint64_t estimate_ns, uint64_t age_ns) {
        if (estimate_ns == 0)
                return 0;
        uint64_t halvings = MIN(age_ns / COSTS_DOUBT_NS, UINT64_C(63));
        return MAX(estimate_ns >> halvings, UINT64_C(1));
}

static uint64_t age_of(uint64_t at, uint64_t now) {
        return at == 0 ? 0 : ns_sub(now, at);
}

/* --- votes --- */

/* Returns how many samples are less than `value`. */
static size_t poll_find(const CostPoll *p, uint64_t value) {
        size_t lo = 0, hi = p->n;

        while (lo < hi) {
                size_t mid = lo + (hi - lo) / 2;

                if (p->values[mid] < value)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

static void poll_remove(CostPoll *p, uint64_t value) {
        size_t i = poll_find(p, value);

        if (value == 0)
                return; /* was not measured */
        p->n--;
        memmove(p->values + i, p->values + i + 1, (p->n - i) * sizeof(p->values[0]));
}

static void poll_add(CostPoll *p, uint64_t value) {
        size_t i = poll_find(p, value);

        memmove(p->values + i + 1, p->values + i, (p->n - i) * sizeof(p->values[0]));
        p->values[i] = value;
        p->n++;
}

/* Makes room for one more than the values of n votes, of which some may not be measured yet. */
static int poll_grow(CostPoll *p, size_t n) {
        uint64_t *values = array_grow(p->values, n, sizeof(*values));

        if (!values)
                return -ENOMEM;
        p->values = values;
        return 0;
}

static void poll_done(CostPoll *p) {
        free(p->values);
        *p = (CostPoll){};
}

int costs_vote_get(CostVotes *v, const PolicyParty *party, CostVote **ret) {
        CostVote *vote;

        DL_FOREACH(v->votes, vote)
                if (party_is_same_owner(&vote->party, party)) {
                        vote->n_refs++;
                        *ret = vote;
                        return 0;
                }
        if (poll_grow(&v->hold, v->n) < 0 || poll_grow(&v->release, v->n) < 0)
                return -ENOMEM;
        vote = calloc(1, sizeof(*vote));
        if (!vote)
                return -ENOMEM;
        *vote = (CostVote){.party = *party, .n_refs = 1};
        DL_PREPEND(v->votes, vote);
        v->n++;
        *ret = vote;
        return 0;
}

CostVote *costs_vote_put(CostVotes *v, CostVote *vote) {
        if (!vote || --vote->n_refs > 0)
                return NULL;
        poll_remove(&v->hold, vote->costs.hold_ns);
        poll_remove(&v->release, vote->costs.release_ns);
        DL_DELETE(v->votes, vote);
        free(vote);
        if (--v->n == 0) {
                poll_done(&v->hold);
                poll_done(&v->release);
        }
        return NULL;
}

/* Sets an estimate that was in doubt back to its former value when a trial has confirmed it. To learn it again in steps
 * would take more trials. */
static void learn_after_doubt(uint64_t *estimate_ns, uint64_t sample_ns, uint64_t elapsed_ns, uint64_t age_ns) {
        uint64_t doubted = costs_doubt(*estimate_ns, age_ns), believed = MIN(sample_ns, elapsed_ns);

        if (believed < *estimate_ns)
                *estimate_ns = CLAMP(believed, doubted, *estimate_ns);
        costs_learn(estimate_ns, sample_ns, elapsed_ns);
}

void costs_vote_learn(CostVotes *v, CostVote *vote, bool hold, uint64_t sample_ns, uint64_t elapsed_ns, uint64_t now) {
        CostPoll *p = hold ? &v->hold : &v->release;
        uint64_t *estimate_ns = hold ? &vote->costs.hold_ns : &vote->costs.release_ns,
                 *at = hold ? &vote->hold_at : &vote->release_at;

        poll_remove(p, *estimate_ns);
        learn_after_doubt(estimate_ns, sample_ns, elapsed_ns, age_of(*at, now));
        poll_add(p, *estimate_ns);
        *at = now;
}

static uint64_t poll_median(const CostPoll *p) {
        return p->n > 0 ? p->values[(p->n - 1) / 2] : 0;
}

Costs costs_votes(const CostVotes *v) {
        return (Costs){.hold_ns = poll_median(&v->hold), .release_ns = poll_median(&v->release)};
}

Costs costs_for(const CostVote *vote, const Costs *device, uint64_t now) {
        if (!vote)
                return (Costs){};
        return (Costs){
                        .hold_ns = costs_doubt(MIN(vote->costs.hold_ns, device->hold_ns), age_of(vote->hold_at, now)),
                        .release_ns = costs_doubt(
                                        MIN(vote->costs.release_ns, device->release_ns), age_of(vote->release_at, now)),
        };
}

/* --- drains --- */

uint64_t costs_drain(uint64_t n, uint64_t mean_ns) {
        uint64_t sum;

        if (n == 0)
                return 0;
        if (mean_ns == 0)
                return PREEMPTION_UNKNOWN;
        if (__builtin_mul_overflow(n, mean_ns, &sum))
                return COSTS_DRAIN_MAX_NS;
        return MIN(sum, (uint64_t) COSTS_DRAIN_MAX_NS);
}

uint64_t costs_rest(uint64_t flying_ns, uint64_t elapsed_ns) {
        return CLAMP(ns_sub(MIN(flying_ns, (uint64_t) COSTS_DRAIN_MAX_NS), elapsed_ns), UINT64_C(1),
                        (uint64_t) COSTS_DRAIN_MAX_NS);
}

uint64_t costs_drain_add(uint64_t a, uint64_t b) {
        if (a == PREEMPTION_UNKNOWN || b == PREEMPTION_UNKNOWN)
                return PREEMPTION_UNKNOWN;
        return MIN(a + b, (uint64_t) COSTS_DRAIN_MAX_NS);
}
