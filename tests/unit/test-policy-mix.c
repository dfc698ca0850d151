/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Shares by the device's own accounts, for every mix of kernels and programs, in virtual time
 *
 * A tenant's share is its completed work as a part of the work that it would have done alone in the same time; it is
 * compared with its share by weight. The accounted time is compared with the device's time for the tenant.
 * MIX_VERBOSE=1 prints every row.
 */

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy-sim.h"
#include "sanitized.h"

#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

/* Before there is contention nothing is bounded: the launches of that time are left out. */
#define WARM_UP         (1 * NSEC_PER_SEC)
#define LONG_RUN        (10 * NSEC_PER_SEC)
#define SHORT_RUN       (4 * NSEC_PER_SEC)
#define SANITIZED_RUN   (3 * NSEC_PER_SEC / 2)
#define RUN             (SANITIZED ? SANITIZED_RUN : sim_share_ns > 0 ? SHORT_RUN : LONG_RUN)
#define EVERY           (SANITIZED ? 3U : 1U) /* so many pairs, each kind in either place */
#define TOLERANCE       0.03
#define QUICK_TOLERANCE 0.05

/* A tenant with a tenth of the device has few turns, each of which ends with such a kernel. */
#define LONG_KERNEL (10 * MSEC)

typedef struct Kind {
        const char *name;
        SimPattern pattern;
        uint64_t kernel_ns;
} Kind;

static const Kind kinds[] = {
                {"5us deep", SIM_DEEP, 5 * USEC},
                {"5us bursts", SIM_BURST, 5 * USEC},
                {"5us sync", SIM_SYNC, 5 * USEC},
                {"0.1ms deep", SIM_DEEP, 100 * USEC},
                {"0.1ms bursts", SIM_BURST, 100 * USEC},
                {"0.1ms sync", SIM_SYNC, 100 * USEC},
                {"1.2ms deep", SIM_DEEP, 1200 * USEC},
                {"1.2ms bursts", SIM_BURST, 1200 * USEC},
                {"1.2ms sync", SIM_SYNC, 1200 * USEC},
                {"10ms deep", SIM_DEEP, 10 * MSEC},
                {"10ms bursts", SIM_BURST, 10 * MSEC},
                {"10ms sync", SIM_SYNC, 10 * MSEC},
};

static Sim sim;

static void begin(void) {
        sim_init(&sim);
        sim.share_ns = sim_share_ns;
}

typedef struct Row {
        const Kind *kind;
        SimTenant *t;
        double asked; /* share that was asked for; 0: none */
        double got, accounted;
} Row;

static double alone_per_sec(const Kind *k) {
        static double known[ELEMENTSOF(kinds)];
        double *n = known + (k - kinds);

        if (*n == 0) {
                uint64_t done = sim_alone(k->pattern, k->kernel_ns, &sim.latencies, 2 * NSEC_PER_SEC);
                *n = (double) done / 2;
        }
        return *n;
}

static Row row(const Kind *k, PolicySettings s, PolicyNode *n, double asked) {
        return (Row){.kind = k, .t = sim_add(&sim, k->pattern, k->kernel_ns, s, n), .asked = asked};
}

static Row weighted(const Kind *k, uint32_t weight, PolicyNode *n, double asked) {
        return row(k, (PolicySettings){.weight = weight}, n, asked);
}

static void measure(Row *rows, size_t n, uint64_t ns) {
        uint64_t done[SIM_TENANTS_MAX], device_ns[SIM_TENANTS_MAX], run_ns[SIM_TENANTS_MAX];

        sim_run(&sim, WARM_UP);
        for (size_t i = 0; i < n; i++) {
                done[i] = rows[i].t->n_done;
                device_ns[i] = rows[i].t->device_ns;
                run_ns[i] = sim_usage(&sim, rows[i].t).run_ns;
        }
        sim_run(&sim, ns);
        for (size_t i = 0; i < n; i++) {
                Row *r = rows + i;
                double sec = (double) ns / NSEC_PER_SEC;

                r->got = (double) (r->t->n_done - done[i]) / alone_per_sec(r->kind) / sec;
                r->accounted = (double) (sim_usage(&sim, r->t).run_ns - run_ns[i]) /
                                (double) (r->t->device_ns - device_ns[i]);
        }
}

static void print_rows(const Row *rows, size_t n) {
        for (size_t i = 0; i < n; i++)
                print_message("%s%-12s asked %4.1f got %4.1f, accounted %5.1f%%", i > 0 ? "; " : "", rows[i].kind->name,
                                100 * rows[i].asked, 100 * rows[i].got, 100 * rows[i].accounted);
        print_message("\n");
}

/* No tenant has less than it asked for, and a tenant has more only where all have more. Work that fits into the gaps of
 * another tenant takes nothing from the others, so that all may have more. */
static bool shares_hold(const Row *rows, size_t n, double tolerance) {
        bool less = false, more = false, just = false;

        for (size_t i = 0; i < n; i++) {
                if (rows[i].asked == 0)
                        continue;
                less |= rows[i].got < rows[i].asked - tolerance;
                more |= rows[i].got > rows[i].asked + tolerance;
                just |= rows[i].got < rows[i].asked + tolerance;
        }
        return !less && !(more && just);
}

/* Launches shorter than an edge takes are accounted by the program's own counts. Where two such programs work in each
 * other's pauses, the service looks at neither before the other has moved time on. */
static bool is_quick(const Row *r) {
        return r->kind->pattern == SIM_SYNC && r->kind->kernel_ns < sim.latencies.edge_ns;
}

static bool accounts_hold(const Row *rows, size_t n) {
        size_t n_quick = 0;

        for (size_t i = 0; i < n; i++)
                n_quick += is_quick(rows + i);
        for (size_t i = 0; i < n; i++) {
                double tolerance = is_quick(rows + i) ? QUICK_TOLERANCE : TOLERANCE;

                if (n_quick > 1 && is_quick(rows + i))
                        continue;
                if (rows[i].accounted < 1 - tolerance || rows[i].accounted > 1 + tolerance)
                        return false;
        }
        return true;
}

static void check(Row *rows, size_t n, size_t *failed) {
        bool ok = shares_hold(rows, n, TOLERANCE) && accounts_hold(rows, n);

        if (!ok || getenv("MIX_VERBOSE"))
                print_rows(rows, n);
        *failed += !ok;
}

static void pairs(uint32_t heavy, uint32_t light) {
        double part = (double) heavy / (heavy + light);
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                for (size_t j = (i + i / 3) % EVERY; j < ELEMENTSOF(kinds); j += EVERY) {
                        begin();
                        Row rows[] = {weighted(kinds + i, heavy, NULL, part),
                                        weighted(kinds + j, light, NULL, 1 - part)};

                        bool few = heavy / light > 3 && MAX(kinds[i].kernel_ns, kinds[j].kernel_ns) >= LONG_KERNEL;
                        measure(rows, 2, few ? LONG_RUN : RUN);
                        check(rows, 2, &failed);
                        sim_done(&sim);
                }
        assert_int_equal(failed, 0);
}

static void test_300_to_100(void **state) {
        pairs(300, 100);
}

static void test_900_to_100(void **state) {
        pairs(900, 100);
}

static void test_three(void **state) {
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                begin();
                Row rows[] = {weighted(kinds + i, 500, NULL, 0.5),
                                weighted(kinds + (i + 4) % ELEMENTSOF(kinds), 300, NULL, 0.3),
                                weighted(kinds + (i + 8) % ELEMENTSOF(kinds), 200, NULL, 0.2)};

                measure(rows, 3, RUN);
                check(rows, 3, &failed);
                sim_done(&sim);
        }
        assert_int_equal(failed, 0);
}

static PolicyNode *node(PolicyNode *parent, uint32_t weight, uint32_t max, uint32_t min) {
        PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;

        s.weight = weight;
        s.max = max;
        s.min = min;
        return sim_add_node(&sim, parent, s);
}

/* One node's 3/4 are divided as 2 to 1 by nodes below it. */
static void test_nested(void **state) {
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                begin();
                PolicyNode *slice = node(NULL, 300, 0, 0), *a = node(slice, 200, 0, 0), *b = node(slice, 100, 0, 0),
                           *other = node(NULL, 100, 0, 0);
                Row rows[] = {weighted(kinds + i, 100, a, 0.5),
                                weighted(kinds + (i + 5) % ELEMENTSOF(kinds), 100, b, 0.25),
                                weighted(kinds + (i + 7) % ELEMENTSOF(kinds), 100, other, 0.25)};

                measure(rows, 3, RUN);
                check(rows, 3, &failed);
                sim_done(&sim);
        }
        assert_int_equal(failed, 0);
}

/* A maximum counts the device's time, tails included. */
static void test_max(void **state) {
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                for (size_t j = 0; j < ELEMENTSOF(kinds); j += 3) {
                        begin();
                        PolicyNode *n = node(NULL, 100, 20, 0);
                        Row rows[] = {weighted(kinds + i, 100, n, 0), weighted(kinds + j, 100, NULL, 0)};
                        uint64_t before;

                        sim_run(&sim, WARM_UP);
                        before = rows[0].t->device_ns;
                        measure(rows, 2, RUN);

                        double part = (double) (rows[0].t->device_ns - before) / (double) (RUN + WARM_UP);
                        if (part > 0.2 + TOLERANCE || getenv("MIX_VERBOSE")) {
                                print_message("Max=20%%: %4.1f%% of the device; ", 100 * part);
                                print_rows(rows, 2);
                        }
                        failed += part > 0.2 + TOLERANCE;
                        sim_done(&sim);
                }
        assert_int_equal(failed, 0);
}

/* Of whatever length kernels are, in relation to the turns of the minimum and of the device: it gets what it asked for
 * by the device's time, neither less nor more, and that is what is accounted. */
static void test_min_of_long_kernels(void **state) {
        static const Kind lengths[] = {
                        {"8ms deep", SIM_DEEP, 8 * MSEC},
                        {"11ms sync", SIM_SYNC, 11 * MSEC},
                        {"13ms deep", SIM_DEEP, 13 * MSEC},
                        {"15ms deep", SIM_DEEP, 15 * MSEC},
                        {"1.2ms deep", SIM_DEEP, 1200 * USEC},
        };
        const size_t last = ELEMENTSOF(lengths) - 1;
        size_t failed = 0;

        for (size_t i = 0; i < 2 * last; i++) {
                const Kind *low = lengths + (i < last ? i : last), *high = lengths + (i < last ? last : i - last);

                begin();
                PolicyNode *n = node(NULL, 100, 0, 30);
                SimTenant *a = sim_add(&sim, low->pattern, low->kernel_ns,
                                          (PolicySettings){.weight = 100, .priority = -1}, n),
                          *b = sim_add(&sim, high->pattern, high->kernel_ns, (PolicySettings){.weight = 100}, NULL);
                sim_run(&sim, WARM_UP);
                uint64_t device_ns[] = {a->device_ns, b->device_ns},
                         run_ns[] = {sim_usage(&sim, a).run_ns, sim_usage(&sim, b).run_ns};
                sim_run(&sim, LONG_RUN);

                double got = (double) (a->device_ns - device_ns[0]) / LONG_RUN,
                       rest = (double) (b->device_ns - device_ns[1]) / LONG_RUN,
                       accounted = (double) (sim_usage(&sim, a).run_ns - run_ns[0]) / LONG_RUN,
                       accounted_rest = (double) (sim_usage(&sim, b).run_ns - run_ns[1]) / LONG_RUN;
                bool ok = got > 0.3 - TOLERANCE && got < 0.3 + TOLERANCE && accounted > got * (1 - TOLERANCE) &&
                                accounted < got * (1 + TOLERANCE) && accounted_rest > rest * (1 - TOLERANCE) &&
                                accounted_rest < rest * (1 + TOLERANCE);
                if (!ok || getenv("MIX_VERBOSE"))
                        print_message("Min=30%%: %s beside %s: got %.1f%%, accounted %.1f%%; the other %.1f%%, "
                                      "accounted %.1f%%\n",
                                        low->name, high->name, 100 * got, 100 * accounted, 100 * rest,
                                        100 * accounted_rest);
                failed += !ok;
                sim_done(&sim);
        }
        assert_int_equal(failed, 0);
}

/* A minimum of 30 % counts for the lowest priority of all. */
static void test_min(void **state) {
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                for (size_t j = 0; j < ELEMENTSOF(kinds); j += 3) {
                        begin();
                        PolicyNode *n = node(NULL, 100, 0, 30);
                        Row rows[] = {row(kinds + i, (PolicySettings){.weight = 100, .priority = -1}, n, 0),
                                        row(kinds + j, (PolicySettings){.weight = 100}, NULL, 0)};

                        measure(rows, 2, RUN);
                        if (rows[0].got < 0.3 - TOLERANCE || getenv("MIX_VERBOSE")) {
                                print_message("Min=30%%: ");
                                print_rows(rows, 2);
                        }
                        failed += rows[0].got < 0.3 - TOLERANCE;
                        sim_done(&sim);
                }
        assert_int_equal(failed, 0);
}

/* A slice with a member a that has limits of its own, and a member b, beside another program: limits hold at each
 * level, whatever a guarantee within them says, and a limit of a member takes nothing from what its slice is
 * guaranteed. Where a slice has the same value as limit and as guarantee, each period ends in the middle of a turn: it
 * gets a tenth less. */
static void test_limits_in_limits(void **state) {
        static const struct {
                const char *what;
                uint32_t max, min;               /* of the slice */
                uint32_t member_max, member_min; /* of a */
                int priority;                    /* of a and b */
                double a_least, a_most, slice_least, slice_most;
        } cases[] = {
                        {"a Min=50% in Max=20%", 20, 0, 0, 50, -1, 0.17, 0.20, 0.17, 0.20},
                        {"a Max=50% in Max=20%", 20, 0, 50, 0, 0, 0.10, 0.10, 0.20, 0.20},
                        {"a Max=10% in Min=30%", 0, 30, 10, 0, -1, 0.10, 0.10, 0.30, 0.30},
                        {"a Min=20% in Min=30%", 0, 30, 0, 20, -1, 0.20, 0.20, 0.30, 0.30},
                        {"Min=30% and Max=30%", 30, 30, 0, 0, -1, 0.13, 0.15, 0.27, 0.30},
        };
        static const size_t of_kinds[] = {3, 8, 9}; /* 0.1 ms deep, 1.2 ms synchronous, 10 ms deep */
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(cases) * ELEMENTSOF(of_kinds); i++) {
                const Kind *one = kinds + of_kinds[i % ELEMENTSOF(of_kinds)],
                           *other = kinds + of_kinds[(i + i / ELEMENTSOF(of_kinds)) % ELEMENTSOF(of_kinds)];
                size_t c = i / ELEMENTSOF(of_kinds);

                begin();
                PolicyNode *slice = node(NULL, 100, cases[c].max, cases[c].min);
                PolicySettings s = {.weight = 100, .priority = cases[c].priority};
                SimTenant *a = sim_add(&sim, one->pattern, one->kernel_ns, s,
                                          node(slice, 100, cases[c].member_max, cases[c].member_min)),
                          *b = sim_add(&sim, one->pattern, one->kernel_ns, s, node(slice, 100, 0, 0));
                (void) weighted(other, 100, NULL, 0);
                sim_run(&sim, WARM_UP);
                uint64_t of_a = a->device_ns, of_b = b->device_ns;
                sim_run(&sim, SHORT_RUN);

                double got = (double) (a->device_ns - of_a) / SHORT_RUN,
                       all = got + (double) (b->device_ns - of_b) / SHORT_RUN;
                bool ok = got > cases[c].a_least - TOLERANCE && got < cases[c].a_most + TOLERANCE &&
                                all > cases[c].slice_least - TOLERANCE && all < cases[c].slice_most + TOLERANCE;
                if (!ok || getenv("MIX_VERBOSE"))
                        print_message("%s, %s beside %s: a got %.1f%%, the slice %.1f%%\n", cases[c].what, one->name,
                                        other->name, 100 * got, 100 * all);
                failed += !ok;
                sim_done(&sim);
        }
        assert_int_equal(failed, 0);
}

/* Programs that prepare each burst on the CPU. Through pauses within Linger= the device is kept, and shares are as
 * asked for. In longer ones the other works, so that each has at least what it asked for, and the lighter one more. */
static void test_pauses(void **state) {
        static const uint64_t pauses_ns[] = {500 * USEC, 900 * USEC, 1500 * USEC, 2500 * USEC};
        static const double asked[] = {0.75, 0.25};

        for (size_t i = 0; i < ELEMENTSOF(pauses_ns); i++) {
                double got[2];

                begin();
                sim.latencies.gap_ns = pauses_ns[i];
                double alone = (double) sim_alone(SIM_BURST, 100 * USEC, &sim.latencies, 2 * NSEC_PER_SEC) / 2;
                SimTenant *t[] = {sim_add(&sim, SIM_BURST, 100 * USEC, (PolicySettings){.weight = 300}, NULL),
                                sim_add(&sim, SIM_BURST, 100 * USEC, (PolicySettings){.weight = 100}, NULL)};
                sim_run(&sim, WARM_UP);
                const uint64_t before[] = {t[0]->n_done, t[1]->n_done};
                sim_run(&sim, SHORT_RUN);
                for (size_t k = 0; k < 2; k++) {
                        got[k] = (double) (t[k]->n_done - before[k]) / alone / ((double) SHORT_RUN / NSEC_PER_SEC);
                        assert_true(got[k] > asked[k] - TOLERANCE);
                }
                if (getenv("MIX_VERBOSE"))
                        print_message("pauses of %" PRIu64 " us: got %4.1f and %4.1f\n", pauses_ns[i] / USEC,
                                        100 * got[0], 100 * got[1]);
                if (pauses_ns[i] < sim.config.linger_ns)
                        assert_true(got[0] < asked[0] + TOLERANCE && got[1] < asked[1] + TOLERANCE);
                sim_done(&sim);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        SIM_IN_BOTH(test_300_to_100),
                        SIM_IN_BOTH(test_900_to_100),
                        SIM_IN_BOTH(test_three),
                        SIM_IN_BOTH(test_nested),
                        SIM_IN_BOTH(test_max),
                        SIM_IN_BOTH(test_limits_in_limits),
                        SIM_IN_BOTH(test_min),
                        SIM_IN_BOTH(test_pauses),
                        SIM_IN_BOTH(test_min_of_long_kernels),
        };

        return cmocka_run_group_tests_name("policy-mix", tests, NULL, NULL);
}
