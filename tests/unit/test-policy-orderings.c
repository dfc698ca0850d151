/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Each policy's promises, each with the timeline of a scenario that shows it
 *
 * The oracle and the contract look on at every step (policy-harness.h).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-sim.h"
#include "policy-tasks.h"

#define MS   NSEC_PER_MSEC
#define EVER NSEC_PER_SEC * 3600

/* A configuration where only the ordering decides: there is no floor, and no place is kept. */
static PolicyConfig bare_config(uint64_t timeslice_ns) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.timeslice_ns = timeslice_ns;
        c.starve_run_ns = 0;
        c.linger_ns = 0;
        return c;
}

static PolicySettings settings(void) {
        return POLICY_SETTINGS_DEFAULT;
}

static PolicySettings at_priority(int priority) {
        PolicySettings s = POLICY_SETTINGS_DEFAULT;

        s.priority = priority;
        return s;
}

static Harness *policy_new(const char *name, const PolicyConfig *c) {
        return harness_new_policy(policy_find(name), c, true, 1);
}

/* --- hpf, hhpf, chpf, awf: levels that are said --- */

static void test_hpf(void **state) {
        const PolicyConfig c = bare_config(4 * MS);
        Tasks s = {.h = policy_new("hpf", &c)};
        PolicySettings heavy = at_priority(0);

        heavy.weight = 1000; /* does not count */
        tasks_add(&s, 0, 20 * MS, heavy);
        tasks_add(&s, 1 * MS, 20 * MS, at_priority(0));
        tasks_add(&s, 6 * MS, 5 * MS, at_priority(1));
        tasks_run(&s, 46 * MS);
        assert_string_equal(s.line[0], "aaaabbcccccbbaaaabbbbaaaabbbbaaaabbbbaaaabbbb.");
        harness_free(s.h);
}

/* Plays the service for policies that order several devices: tells each device the others' highest level. */
static void tell_levels(Tasks *s, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int level = POLICY_LEVEL_NONE;

                for (size_t k = 0; k < n; k++)
                        if (k != i)
                                level = MAX(level, s[k].h->ops->level(s[k].h->policy));
                if (level != s[i].h->outside) {
                        harness_outside(s[i].h, level);
                        harness_dispatch(s[i].h);
                }
        }
}

static void test_hhpf(void **state) {
        const PolicyConfig c = bare_config(4 * MS);
        Tasks s[2] = {{.h = policy_new("hhpf", &c)}, {.h = policy_new("hhpf", &c)}};

        tasks_add(&s[0], 0, 12 * MS, at_priority(0));
        tasks_add(&s[1], 5 * MS, 4 * MS, at_priority(3));
        tasks_add(&s[1], 0, 12 * MS, at_priority(0));
        tasks_add(&s[0], 7 * MS, 1 * MS, at_priority(3)); /* an equal of another device does not wait */
        for (size_t ms = 0; ms < 20; ms++)
                for (size_t i = 0; i < 2; i++) {
                        tasks_run(&s[i], MS);
                        tell_levels(s, 2);
                }
        assert_string_equal(s[0].line[0], "aaaaa..b.aaaaaaa....");
        assert_string_equal(s[1].line[0], "bbbbbaaaabbbbbbb....");
        harness_free(s[0].h);
        harness_free(s[1].h);
}

/* Other policies ignore the levels of other devices. */
static void test_hpf_is_of_one_device(void **state) {
        const PolicyConfig c = bare_config(4 * MS);
        Tasks s = {.h = policy_new("hpf", &c)};

        assert_true(policy_is_global(policy_find("hhpf")));
        assert_false(policy_is_global(policy_find("hpf")));
        tasks_add(&s, 0, 3 * MS, at_priority(0));
        s.h->ops->outside(s.h->policy, 100, s.h->now_ns);
        tasks_run(&s, 4 * MS);
        assert_string_equal(s.line[0], "aaa.");
        harness_free(s.h);
}

static void test_chpf(void **state) {
        const PolicyConfig c = bare_config(4 * MS);
        Tasks s = {.h = policy_new("chpf", &c)};
        PolicySettings nice = at_priority(100), usual = at_priority(0), real = at_priority(-100);

        nice.cpu_priority = -19;
        real.cpu_priority = 20 + 1;
        tasks_add(&s, 0, 8 * MS, nice);
        tasks_add(&s, 2 * MS, 6 * MS, usual);
        tasks_add(&s, 4 * MS, 2 * MS, real);
        tasks_run(&s, 17 * MS);
        assert_string_equal(s.line[0], "aabbccbbbbaaaaaa.");
        assert_true(policy_is_by_process(s.h->ops));
        harness_free(s.h);
}

static void test_awf(void **state) {
        const PolicyConfig c = bare_config(4 * MS);
        Tasks s = {.h = policy_new("awf", &c)};
        PolicySettings active = settings();

        active.active = true;
        tasks_add(&s, 0, EVER, settings());
        tasks_add(&s, 3 * MS, EVER, active);
        tasks_run(&s, 6 * MS);

        /* The active session changes. */
        harness_set(s.t[0].job, active);
        harness_set(s.t[1].job, settings());
        harness_dispatch(s.h);
        tasks_run(&s, 6 * MS);
        assert_string_equal(s.line[0], "aaabbbaaaaaa");

        /* No session is active: all clients take turns. */
        harness_set(s.t[0].job, settings());
        harness_dispatch(s.h);
        tasks_run(&s, 8 * MS);
        assert_string_equal(s.line[0] + 12, "bbbbaaaa");
        harness_free(s.h);
}

/* --- kedf --- */

static PolicySettings due_in(uint64_t ns) {
        PolicySettings s = POLICY_SETTINGS_DEFAULT;

        s.deadline_us = (uint32_t) (ns / NSEC_PER_USEC);
        return s;
}

static void test_kedf(void **state) {
        const PolicyConfig c = bare_config(2 * MS);
        Tasks s = {.h = policy_new("kedf", &c)};

        tasks_add(&s, 0, 6 * MS, settings()); /* no deadline: last, sharing in turns */
        tasks_add(&s, 0, 6 * MS, settings());
        tasks_add(&s, 1 * MS, 5 * MS, due_in(20 * MS));
        tasks_add(&s, 3 * MS, 2 * MS, due_in(4 * MS));   /* earlier deadline: at once */
        tasks_add(&s, 4 * MS, 2 * MS, due_in(500 * MS)); /* later deadline: behind */
        tasks_run(&s, 22 * MS);
        assert_string_equal(s.line[0], "accddccceeabbaabbaabb.");
        harness_free(s.h);
}

/* EDF on k places, offline: at every moment the k arrived pieces with the earliest deadlines run. Goes by milliseconds;
 * pieces arrive only between them. */
typedef struct Piece {
        uint64_t arrive, work, deadline, left, done; /* ms */
} Piece;

static bool edf_meets_all(Piece *p, size_t n, size_t k) {
        bool all = true;
        size_t n_left = n;

        for (uint64_t ms = 0; n_left > 0; ms++) {
                bool taken[TASKS_MAX] = {};

                for (size_t place = 0; place < k; place++) {
                        size_t best = n;

                        for (size_t i = 0; i < n; i++)
                                if (p[i].left > 0 && p[i].arrive <= ms && !taken[i] &&
                                                (best == n || p[i].deadline < p[best].deadline))
                                        best = i;
                        if (best == n)
                                break;
                        taken[best] = true;
                        if (--p[best].left > 0)
                                continue;
                        p[best].done = ms + 1;
                        all = all && p[best].done <= p[best].deadline;
                        n_left--;
                }
        }
        return all;
}

/* Pieces with different deadlines, because EDF does not order equal ones. */
static void random_pieces(Random *r, Piece *p, size_t n) {
        for (size_t i = 0; i < n; i++) {
                bool again;

                p[i].arrive = random_range(r, 0, 60);
                p[i].work = p[i].left = random_range(r, 1, 12);
                do {
                        again = false;
                        p[i].deadline = p[i].arrive + p[i].work + random_range(r, 0, 30);
                        for (size_t j = 0; j < i; j++)
                                again = again || p[j].deadline == p[i].deadline;
                } while (again);
        }
}

static bool kedf_is_edf(uint64_t seed, uint32_t k) {
        PolicyConfig c = bare_config(5 * MS);
        Random r = {.state = seed};
        Piece p[TASKS_MAX];
        size_t n = random_range(&r, 2, 12);

        c.concurrency = k;
        Tasks s = {.h = policy_new("kedf", &c)};
        random_pieces(&r, p, n);
        for (size_t i = 0; i < n; i++)
                tasks_add(&s, p[i].arrive * MS, p[i].work * MS, due_in((p[i].deadline - p[i].arrive) * MS));
        tasks_add(&s, 0, EVER, settings()); /* delays no other */
        bool feasible = edf_meets_all(p, n, k);
        tasks_run(&s, 400 * MS);
        for (size_t i = 0; i < n; i++)
                assert_int_equal((s.t[i].done_ns - s.begin_ns) / MS, p[i].done);
        harness_free(s.h);
        return feasible;
}

/* If all deadlines can be met on one place, EDF meets them (Dertouzos); and kedf ends each piece when EDF does. */
static void test_kedf_meets_what_edf_meets(void **state) {
        size_t n_feasible = 0;

        for (uint64_t seed = 1; seed <= 150; seed++)
                for (uint32_t k = 1; k <= 3; k++)
                        n_feasible += kedf_is_edf(seed, k) && k == 1;
        assert_in_range(n_feasible, 30, 120); /* there were many feasible and many infeasible cases */
}

/* --- lax --- */

static void test_lax(void **state) {
        const PolicyConfig c = bare_config(50 * MS);
        Tasks s = {.h = policy_new("lax", &c)};
        PolicySettings lax = at_priority(-10);

        lax.laxity_us = 7000;
        lax.critical = 10;
        tasks_add(&s, 0, EVER, at_priority(0));
        Task *t = tasks_add(&s, 2 * MS, 3 * MS, lax);
        t->pause_ns = 4 * MS;
        tasks_run(&s, 30 * MS);
        /* b comes at 2, may wait for 7 ms, is done at 12, comes again at 16, and so on. */
        assert_string_equal(s.line[0], "aaaaaaaaabbbaaaaaaaaaaabbbaaaa");

        /* The wait is exact to the nanosecond. */
        harness_free(s.h);
        s = (Tasks){.h = policy_new("lax", &c)};
        tasks_add(&s, 0, EVER, at_priority(0));
        t = tasks_add(&s, 2 * MS + 1, 3 * MS, lax);
        tasks_run(&s, 30 * MS);
        assert_int_equal(t->done_ns - s.begin_ns, 2 * MS + 1 + 7 * MS + 3 * MS);
        harness_free(s.h);
}

/* A task alone does not wait, and its laxity's end needs no wake-up. Priorities do not fall, either. */
static void test_lax_alone(void **state) {
        const PolicyConfig c = bare_config(50 * MS);
        Tasks s = {.h = policy_new("lax", &c)};
        PolicySettings lax = at_priority(-10);

        lax.laxity_us = 7000;
        lax.critical = -20;
        tasks_add(&s, 0, EVER, lax);
        tasks_run(&s, 3 * MS);
        assert_int_equal(s.h->wake_ns, NSEC_INFINITY);
        Job *other = harness_add(s.h, at_priority(-15));
        harness_ready(other);
        harness_dispatch(s.h);
        tasks_run(&s, 17 * MS);
        assert_string_equal(s.line[0], "aaaaaaaaaaaaaaaaaaaa");
        harness_free(s.h);
}

/* --- cfs --- */

static uint32_t cfs_slice_weight[TASKS_MAX];

/* Checks that the run times of tasks that always have work differ by at most a slice of each. */
static void look_at_spread(Tasks *s) {
        for (size_t i = 0; i < s->n; i++)
                for (size_t j = 0; j < s->n; j++) {
                        double a = (double) s->t[i].ran_ns / cfs_slice_weight[i],
                               b = (double) s->t[j].ran_ns / cfs_slice_weight[j],
                               slice = (double) s->h->config.timeslice_ns;

                        assert_true(a - b <= slice / cfs_slice_weight[i] + slice / cfs_slice_weight[j]);
                }
}

static void test_cfs_spread(void **state) {
        for (uint64_t seed = 1; seed <= 30; seed++) {
                const PolicyConfig c = bare_config(5 * MS);
                Random r = {.state = seed};
                Tasks s = {.h = policy_new("cfs", &c), .look = look_at_spread};

                for (size_t i = 0, n = random_range(&r, 2, 8); i < n; i++) {
                        PolicySettings w = settings();

                        w.weight = cfs_slice_weight[i] = (uint32_t) random_log(&r, 20, 2000);
                        tasks_add(&s, 0, EVER, w);
                }
                tasks_run(&s, NSEC_PER_SEC);
                harness_free(s.h);
        }
}

static void test_cfs(void **state) {
        const PolicyConfig c = bare_config(2 * MS);
        Tasks s = {.h = policy_new("cfs", &c)};
        PolicySettings heavy = settings();

        heavy.weight = 300;
        tasks_add(&s, 0, EVER, heavy);
        tasks_add(&s, 0, EVER, settings());
        tasks_run(&s, 16 * MS);
        assert_string_equal(s.line[0], "aabbaaaabbaaaaaa");

        /* A task that comes late gets no time for the past, and does not have to wait for it, either. */
        tasks_run(&s, 84 * MS);
        harness_free(s.h);

        s = (Tasks){.h = policy_new("cfs", &c)};
        tasks_add(&s, 0, EVER, settings());
        tasks_add(&s, 20 * MS, EVER, settings());
        tasks_run(&s, 32 * MS);
        assert_string_equal(s.line[0], "aaaaaaaaaaaaaaaaaaaabbaabbaabbaa");
        harness_free(s.h);
}

/* A step of priority is worth a quarter: 1.25^5 is 3.05. */
static void test_cfs_priority(void **state) {
        const PolicyConfig c = bare_config(1 * MS);
        Tasks s = {.h = policy_new("cfs", &c)};

        PolicySettings nice = settings();

        nice.nice = 5;
        tasks_add(&s, 0, EVER, nice);
        tasks_add(&s, 0, EVER, at_priority(5)); /* a priority inside the node counts for nothing */
        tasks_run(&s, 4 * NSEC_PER_SEC);
        double ratio = (double) s.t[0].ran_ns / (double) s.t[1].ran_ns;
        assert_true(ratio > 3.0 && ratio < 3.1);
        harness_free(s.h);
}

/* --- up, pup --- */

static PolicySettings part(uint32_t percent) {
        PolicySettings s = POLICY_SETTINGS_DEFAULT;

        s.utilization = percent;
        s.priority = (int) percent % 7; /* does not count */
        return s;
}

static void test_up(void **state) {
        const PolicyConfig c = bare_config(2 * MS);
        Tasks s = {.h = policy_new("up", &c)};

        tasks_add(&s, 0, EVER, part(50));
        tasks_add(&s, 0, EVER, part(30));
        tasks_add(&s, 0, EVER, part(20));
        tasks_run(&s, 40 * MS);
        assert_string_equal(s.line[0], "aabbccaabbaaccaabbaabbaaccaabbaaccaabbaa");
        harness_free(s.h);
}

static void check_part(uint64_t had_ns, uint64_t all_ns, double part_of) {
        double is = (double) had_ns / (double) all_ns;

        assert_true(is > part_of - 0.02 && is < part_of + 0.02);
}

/* On a device that does not stop a kernel, with kernels of all lengths, some longer than any slice. */
static void test_up_parts_hold(void **state) {
        static const char *const names[] = {"up", "pup"};
        static const uint64_t kernels[][3] = {
                        {2 * MS, 2 * MS, 2 * MS},
                        {300 * NSEC_PER_USEC, 7 * MS, 25 * MS},
                        {25 * MS, 300 * NSEC_PER_USEC, 7 * MS},
                        {7 * MS, 25 * MS, 300 * NSEC_PER_USEC},
        };
        static const uint32_t percent[] = {50, 30, 20};

        for (size_t n = 0; n < ELEMENTSOF(names); n++)
                for (size_t k = 0; k < ELEMENTSOF(kernels); k++) {
                        SimTenant *t[3];
                        Sim s;

                        sim_init(&s);
                        s.ops = policy_find(names[n]);
                        for (size_t i = 0; i < 3; i++)
                                t[i] = sim_add(&s, SIM_DEEP, kernels[k][i], part(percent[i]), NULL);
                        sim_run(&s, 60 * NSEC_PER_SEC);
                        uint64_t all_ns = t[0]->device_ns + t[1]->device_ns + t[2]->device_ns;

                        for (size_t i = 0; i < 3; i++)
                                check_part(t[i]->device_ns, all_ns, percent[i] / 100.0);
                        sim_done(&s);
                }
}

/* The others divide the time that one does not use, by their parts. */
static void test_up_shares_what_is_left(void **state) {
        const PolicyConfig c = bare_config(10 * MS);
        Tasks s = {.h = policy_new("up", &c)};

        tasks_add(&s, 0, EVER, part(60));
        tasks_add(&s, 0, EVER, part(30));
        tasks_add(&s, 5 * NSEC_PER_SEC, EVER, part(90));
        tasks_run(&s, 5 * NSEC_PER_SEC);
        check_part(s.t[0].ran_ns, 5 * NSEC_PER_SEC, 2.0 / 3);
        uint64_t before_ns = s.t[0].ran_ns;
        tasks_run(&s, 5 * NSEC_PER_SEC);
        check_part(s.t[2].ran_ns, 5 * NSEC_PER_SEC, 1.0 / 2);
        check_part(s.t[0].ran_ns - before_ns, 5 * NSEC_PER_SEC, 1.0 / 3);
        harness_free(s.h);
}

/* --- mlfq --- */

static void test_mlfq(void **state) {
        const PolicyConfig c = bare_config(2 * MS);
        Tasks s = {.h = policy_new("mlfq", &c)};

        tasks_add(&s, 0, EVER, settings());
        tasks_add(&s, 0, EVER, settings());
        Task *t = tasks_add(&s, 9 * MS, 1 * MS, settings());
        t->pause_ns = 10 * MS;
        tasks_run(&s, 60 * MS);
        /* Slices of 2, 4, 8, 16 and 32 ms. c is at the top, and waits in no queue behind others. */
        assert_string_equal(s.line[0], "aabbaaaabcbbbaaaaaaacabbbbbbbbacaaaaaaaaaacaaaaabbbbbcbbbbbb");
        harness_free(s.h);
}

/* Tasks that need little go before those that use all they get; the latter have the rest, and are not starved. */
static void test_mlfq_starves_nobody(void **state) {
        const PolicyConfig c = bare_config(5 * MS);
        Tasks s = {.h = policy_new("mlfq", &c)};
        Task *interactive, *batch[3];

        /* These tasks alone would use up the device, so that no task below them would ever run. */
        for (size_t i = 0; i < 2; i++) {
                Task *busy = tasks_add(&s, i * MS, 4 * MS, settings());

                busy->pause_ns = 4 * MS;
        }
        interactive = tasks_add(&s, 0, 500 * NSEC_PER_USEC, settings());
        interactive->pause_ns = 100 * MS;
        for (size_t i = 0; i < 3; i++)
                batch[i] = tasks_add(&s, 0, 100 * MS, settings());
        for (size_t i = 0; i < 3; i++)
                batch[i]->pause_ns = 1;
        tasks_run(&s, 60 * NSEC_PER_SEC);
        /* A task waits for no more than a slice of each other task at the top. */
        assert_true(interactive->longest_ns <= 500 * NSEC_PER_USEC + 25 * (uint64_t) MS);
        assert_true(interactive->n_done >= 500);
        for (size_t i = 0; i < 3; i++)
                assert_true(batch[i]->n_done >= 20);
        harness_free(s.h);
}

/* --- all of them --- */

static void test_list(void **state) {
        for (const PolicyOps *const *p = policy_all; *p; p++) {
                assert_ptr_equal(policy_find((*p)->name), *p);
                assert_true(strlen((*p)->description) > 0);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_hpf),
                        cmocka_unit_test(test_hhpf),
                        cmocka_unit_test(test_hpf_is_of_one_device),
                        cmocka_unit_test(test_chpf),
                        cmocka_unit_test(test_awf),
                        cmocka_unit_test(test_kedf),
                        cmocka_unit_test(test_kedf_meets_what_edf_meets),
                        cmocka_unit_test(test_lax),
                        cmocka_unit_test(test_lax_alone),
                        cmocka_unit_test(test_cfs),
                        cmocka_unit_test(test_cfs_spread),
                        cmocka_unit_test(test_cfs_priority),
                        cmocka_unit_test(test_up),
                        cmocka_unit_test(test_up_parts_hold),
                        cmocka_unit_test(test_up_shares_what_is_left),
                        cmocka_unit_test(test_mlfq),
                        cmocka_unit_test(test_mlfq_starves_nobody),
                        cmocka_unit_test(test_list),
        };

        return cmocka_run_group_tests_name("policy-orderings", tests, NULL, NULL);
}
