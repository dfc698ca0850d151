/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Costs: how much a client's report counts, and for how long; what is estimated from reports
 */

#include "common/macro.h"
#include "service/core/costs.h"
#include "service/core/party.h"
#include "tests/lib/unit.h"

static CostVote *vote(CostVotes *v, uint64_t user, uint64_t ns) {
        CostVote *vote;

        assert_int_equal(costs_vote_get(v, &(PolicyParty){.top = user}, &vote), 0);
        if (ns > 0)
                costs_vote_learn(v, vote, true, ns, NSEC_PER_SEC, 1);
        return vote;
}

static void test_votes(void **state) {
        CostVotes v = {};
        CostVote *votes[101];

        assert_int_equal(costs_votes(&v).hold_ns, 0);
        votes[0] = vote(&v, 0, 0);
        assert_int_equal(costs_votes(&v).hold_ns, 0); /* not measured yet */
        costs_vote_learn(&v, votes[0], true, 40000, NSEC_PER_SEC, 1);
        votes[1] = vote(&v, 1, NSEC_PER_SEC);
        assert_int_equal(costs_votes(&v).hold_ns, 40000); /* the lower of two reports */
        assert_int_equal(costs_for(votes[1], &(Costs){.hold_ns = 40000}, 1).hold_ns, 40000);
        assert_int_equal(costs_for(votes[0], &(Costs){.hold_ns = 50000}, 1).hold_ns, 40000);
        assert_int_equal(costs_for(NULL, &(Costs){.hold_ns = 50000}, 1).hold_ns, 0);

        /* Repeating a report does not make it count more. */
        for (unsigned i = 0; i < 50; i++)
                assert_ptr_equal(vote(&v, 1, NSEC_PER_SEC), votes[1]);
        for (unsigned i = 0; i < 50; i++)
                assert_null(costs_vote_put(&v, votes[1]));
        assert_int_equal(v.n, 2);
        assert_int_equal(costs_votes(&v).hold_ns, 40000);
        assert_int_equal(costs_votes(&v).release_ns, 0);

        for (unsigned i = 2; i < ELEMENTSOF(votes); i++)
                votes[i] = vote(&v, i, UINT64_C(1000) * (1 + i * 37 % 101));
        assert_in_range(costs_votes(&v).hold_ns, 49000, 53000);
        for (unsigned i = 0; i < ELEMENTSOF(votes); i++)
                assert_null(costs_vote_put(&v, votes[i]));
        assert_int_equal(costs_votes(&v).hold_ns, 0);
        assert_null(v.hold.values);
        assert_null(v.votes);
}

/* A first sample from a bad moment keeps no queue on the device for ever. A right estimate is still there after a
 * doubt. */
static void test_doubt(void **state) {
        CostVotes v = {};
        CostVote *vote;
        const PolicyParty party = {};
        const uint64_t high = 64 * NSEC_PER_MSEC, low = NSEC_PER_MSEC;
        uint64_t now = 1;

        assert_int_equal(costs_vote_get(&v, &party, &vote), 0);
        costs_vote_learn(&v, vote, true, high, NSEC_PER_SEC, now);
        Costs all = costs_votes(&v);
        assert_int_equal(costs_for(vote, &all, now).hold_ns, high);
        for (unsigned halved = 0; halved < 80; halved++, now += COSTS_DOUBT_NS)
                assert_int_equal(costs_for(vote, &all, now).hold_ns, MAX(halved < 64 ? high >> halved : 0, 1U));

        /* Tried again at the same cost: the estimate stays. */
        costs_vote_learn(&v, vote, true, high, NSEC_PER_SEC, now);
        all = costs_votes(&v);
        assert_int_equal(costs_for(vote, &all, now).hold_ns, high);

        /* Tried again at a low cost: the estimate follows at once. */
        now += 8 * COSTS_DOUBT_NS;
        costs_vote_learn(&v, vote, true, low, NSEC_PER_SEC, now);
        all = costs_votes(&v);
        assert_int_equal(costs_for(vote, &all, now).hold_ns, low);
        assert_null(costs_vote_put(&v, vote));
}

static void test_estimates(void **state) {
        uint64_t estimate = 0;

        costs_learn(&estimate, 40000, NSEC_PER_SEC);
        assert_int_equal(estimate, 40000);
        costs_learn(&estimate, 48000, NSEC_PER_SEC);
        assert_int_equal(estimate, 41000);

        /* The estimate is within the possible time, the least time that an order takes, and a distance of the former
         * estimate. */
        estimate = 0;
        costs_learn(&estimate, NSEC_PER_SEC, 7000);
        assert_int_equal(estimate, 7000);
        estimate = 0;
        costs_learn(&estimate, 0, 0);
        assert_int_equal(estimate, COSTS_MIN_NS);
        estimate = 80000;
        costs_learn(&estimate, NSEC_PER_SEC, NSEC_PER_SEC);
        assert_int_equal(estimate, 80000 + 3 * 80000 / 8);
        estimate = UINT64_C(80000);
        costs_learn(&estimate, 1000, NSEC_PER_SEC);
        assert_int_equal(estimate, 80000 - 60000 / 8);

        assert_int_equal(costs_drain(0, 0), 0);
        assert_int_equal(costs_drain(3, 0), PREEMPTION_UNKNOWN);
        assert_int_equal(costs_drain(3, 1000), 3000);
        assert_int_equal(costs_drain(UINT64_MAX, 2), COSTS_DRAIN_MAX_NS);
        assert_int_equal(costs_drain_add(1, 2), 3);
        assert_int_equal(costs_drain_add(PREEMPTION_UNKNOWN, 2), PREEMPTION_UNKNOWN);
        assert_int_equal(costs_drain_add(COSTS_DRAIN_MAX_NS, 2), COSTS_DRAIN_MAX_NS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_votes),
                        cmocka_unit_test(test_doubt),
                        cmocka_unit_test(test_estimates),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
