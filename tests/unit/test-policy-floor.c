/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The starvation floor: a party's turns do not depend on the number of others' jobs
 *
 * All jobs but the one at the top are of a lower priority, and so live on turns alone.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-harness.h"

#define SECONDS  NSEC_PER_SEC
#define PERIODS  240U
#define ATTACKER 1000U
#define HONEST   2000U

typedef struct Crowd {
        Harness *h;
        Job *jobs[64];
        size_t n;
} Crowd;

static Job *start(Harness *h, HarnessNode *node, int priority, PolicyParty party) {
        Job *j = harness_add_below(h, node, (PolicySettings){.priority = priority, .weight = 100, .party = party});

        harness_ready(j);
        return j;
}

static Harness *make(void) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;
        Harness *h = harness_new(&c, true, 0);

        start(h, NULL, 100, (PolicyParty){.top = 1});
        return h;
}

static void crowd_add(Crowd *c, HarnessNode *node, int priority, PolicyParty party) {
        c->jobs[c->n++] = start(c->h, node, priority, party);
}

static uint64_t turns(const Job *j) {
        return j->usage.run_ns / POLICY_CONFIG_DEFAULT.starve_run_ns;
}

static uint64_t crowd_turns(const Crowd *c) {
        uint64_t n = 0;

        for (size_t i = 0; i < c->n; i++)
                n += turns(c->jobs[i]);
        return n;
}

/* Two parties, one of them with many jobs: the other gets half of the turns, and its bound does not depend on the
 * many. */
static void check_half(Crowd *c, const Job *honest) {
        harness_dispatch(c->h);
        harness_run(c->h, PERIODS * SECONDS);
        assert_in_range(turns(honest), PERIODS / 2 - 2, PERIODS / 2);
        assert_in_range(crowd_turns(c), PERIODS / 2 - 2, PERIODS / 2);
        assert_in_range(harness_longest_wait(c->h, honest), 1, 5 * SECONDS);
}

static void test_many_groups(void **state) {
        for (size_t n = 1; n <= 30; n += 29) {
                _cleanup_(harness_freep)
                Harness *h = make();
                Crowd c = {.h = h};
                PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;
                HarnessNode *users = harness_add_node(h, NULL, s), *a = harness_add_node(h, users, s),
                            *b = harness_add_node(h, users, s);

                for (size_t i = 0; i < n; i++)
                        crowd_add(&c, harness_add_node(h, a, s), 0, (PolicyParty){.top = ATTACKER});
                check_half(&c, start(h, harness_add_node(h, b, s), 0, (PolicyParty){.top = HONEST}));
        }
}

/* Many clients with their own settings in one group; a low priority or another weight gains nothing. */
static void test_many_overrides(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Crowd c = {.h = h};

        for (int i = 0; i < 30; i++)
                crowd_add(&c, NULL, -i, (PolicyParty){.top = ATTACKER, .user = (uint64_t) i % 7});
        const Job *honest = start(h, NULL, 50, (PolicyParty){.top = HONEST});
        check_half(&c, honest);
}

/* Within a party turns are divided down the tree: thirty groups below one slice count as one beside another slice. */
static void test_down_the_tree(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Crowd c = {.h = h};
        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;
        HarnessNode *slice = harness_add_node(h, NULL, s), *other = harness_add_node(h, NULL, s);

        for (int i = 0; i < 30; i++)
                crowd_add(&c, harness_add_node(h, slice, s), 0, (PolicyParty){.top = HONEST});
        check_half(&c, start(h, other, 0, (PolicyParty){.top = HONEST}));
}

/* Jobs of an engine, below one node, but of two owners; and two users in a group without an owner. */
static void test_owners_and_users(void **state) {
        for (int in_one_group = 0; in_one_group < 2; in_one_group++) {
                _cleanup_(harness_freep)
                Harness *h = make();
                Crowd c = {.h = h};
                PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;
                HarnessNode *engine = harness_add_node(h, NULL, s);
                PolicyParty a = {.top = 7, .owner = in_one_group ? 0 : ATTACKER, .user = ATTACKER};
                PolicyParty b = {.top = 7, .owner = in_one_group ? 0 : HONEST, .user = HONEST};

                for (int i = 0; i < 30; i++)
                        crowd_add(&c, in_one_group ? engine : harness_add_node(h, engine, s), 0, a);
                check_half(&c, start(h, in_one_group ? engine : harness_add_node(h, engine, s), 0, b));
        }
}

/* Coming and going gains nothing: a new job is behind all others. Going idle in a turn gains nothing, either. */
static void test_coming_and_going(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        const Job *honest = start(h, NULL, 0, (PolicyParty){.top = HONEST});
        const unsigned times = PERIODS / 4;
        uint64_t n = 0;

        for (unsigned i = 0; i < times; i++) {
                Job *j[10];

                for (size_t k = 0; k < ELEMENTSOF(j); k++)
                        j[k] = start(h, NULL, 0, (PolicyParty){.top = ATTACKER, .user = k});
                harness_dispatch(h);
                for (unsigned ms = 0; ms < 2500; ms++) {
                        harness_run(h, NSEC_PER_MSEC);
                        for (size_t k = 0; k < ELEMENTSOF(j); k++)
                                if (job_runs(j[k])) {
                                        n++;
                                        harness_idle(j[k]);
                                        harness_ready(j[k]);
                                        harness_dispatch(h);
                                }
                }
                for (size_t k = 0; k < ELEMENTSOF(j); k++)
                        harness_remove(j[k]);
        }
        assert_true(n > times / 2);
        assert_in_range(turns(honest), times, 5 * times / 2);
}

/* Each further party lengthens every party's wait by one period. */
static void test_many_parties(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Crowd c = {.h = h};

        for (uint64_t party = 0; party < 8; party++)
                for (uint64_t k = 0; k <= party; k++)
                        crowd_add(&c, NULL, 0, (PolicyParty){.top = 10 + party});
        harness_dispatch(h);
        harness_run(h, PERIODS * SECONDS);
        for (uint64_t party = 0, i = 0; party < 8; party++) {
                uint64_t n = 0;

                for (uint64_t k = 0; k <= party; k++)
                        n += turns(c.jobs[i++]);
                assert_in_range(n, PERIODS / 8 - 1, PERIODS / 8 + 1);
        }
}

/* A party that is new, or whose group turns out to be several users', waits longer once at most. */
static void test_party_changes(void **state) {
        _cleanup_(harness_freep)
        Harness *h = make();
        Crowd c = {.h = h};

        for (int i = 0; i < 10; i++)
                crowd_add(&c, NULL, 0, (PolicyParty){.top = ATTACKER});
        Job *honest = start(h, NULL, 0, (PolicyParty){.top = ATTACKER});
        harness_dispatch(h);
        harness_run(h, 5 * SECONDS);
        PolicySettings s = honest->settings;
        s.party = (PolicyParty){.top = HONEST};
        harness_set(honest, s);
        harness_dispatch(h);
        uint64_t before = turns(honest);
        harness_run(h, 3 * SECONDS);
        assert_int_equal(turns(honest), before + 1);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_many_groups),
                        cmocka_unit_test(test_many_overrides),
                        cmocka_unit_test(test_down_the_tree),
                        cmocka_unit_test(test_owners_and_users),
                        cmocka_unit_test(test_coming_and_going),
                        cmocka_unit_test(test_many_parties),
                        cmocka_unit_test(test_party_changes),
        };

        return cmocka_run_group_tests_name("policy-floor", tests, NULL, NULL);
}
