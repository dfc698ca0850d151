/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program with launches in flight beside one of higher priority is charged for what the device did for it, in virtual
 * time, on a device that takes launches first come, first served, and on one that takes turns between programs
 *
 * TAILS_VERBOSE=1 prints every row.
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

#define WARM_UP (1 * NSEC_PER_SEC)
#define RUN     (4 * NSEC_PER_SEC)
#define EVERY   (SANITIZED ? 5U : 1U)

/* Parts of the device. Of an overlap, one launch may go to the wrong one of the two. A turn of the floor is charged to
 * both, for a hundredth of the time. */
#define TOLERANCE 0.015
#define IN_TURNS  0.045
#define FLOOR     0.01

typedef struct Kind {
        const char *name;
        SimPattern pattern;
        uint64_t kernel_ns;
} Kind;

static const Kind kinds[] = {
                {"5us deep", SIM_DEEP, 5 * USEC},
                {"5us sync", SIM_SYNC, 5 * USEC},
                {"0.1ms deep", SIM_DEEP, 100 * USEC},
                {"0.1ms bursts", SIM_BURST, 100 * USEC},
                {"1.2ms deep", SIM_DEEP, 1200 * USEC},
                {"1.2ms bursts", SIM_BURST, 1200 * USEC},
                {"1.2ms sync", SIM_SYNC, 1200 * USEC},
                {"10ms deep", SIM_DEEP, 10 * MSEC},
                {"10ms bursts", SIM_BURST, 10 * MSEC},
};

/* Pauses of programs between their bursts. In the longer ones the lower one works. */
static const uint64_t gaps_ns[] = {15 * USEC, 4 * MSEC};

static Sim sim;

typedef struct Row {
        SimTenant *t;
        uint64_t device_ns, run_ns;
        double done, charged; /* parts of the device */
} Row;

static void begin(uint64_t gap_ns) {
        sim_init(&sim);
        sim.share_ns = sim_share_ns;
        sim.latencies.gap_ns = gap_ns;
}

static Row add(const Kind *k, int priority, uint32_t weight, PolicyNode *n) {
        return (Row){.t = sim_add(&sim, k->pattern, k->kernel_ns,
                                     (PolicySettings){.weight = weight, .priority = priority}, n)};
}

static void measure(Row *rows, size_t n, uint64_t ns) {
        sim_run(&sim, WARM_UP);
        for (size_t i = 0; i < n; i++) {
                rows[i].device_ns = rows[i].t->device_ns;
                rows[i].run_ns = sim_usage(&sim, rows[i].t).run_ns;
        }
        sim_run(&sim, ns);
        for (size_t i = 0; i < n; i++) {
                rows[i].done = (double) (rows[i].t->device_ns - rows[i].device_ns) / (double) ns;
                rows[i].charged = (double) (sim_usage(&sim, rows[i].t).run_ns - rows[i].run_ns) / (double) ns;
        }
}

/* Whether each is charged for what was done for it, up to `less` too little and `more` too much. */
static bool charges_hold(const Row *rows, size_t n, double less, double more) {
        bool ok = true;

        for (size_t i = 0; i < n; i++)
                ok = ok && rows[i].charged > rows[i].done - less && rows[i].charged < rows[i].done + more;
        return ok;
}

static void tell(bool ok, const char *what, const Row *rows, size_t n) {
        if (ok && !getenv("TAILS_VERBOSE"))
                return;
        print_message("%s%s:", ok ? "" : "wrong: ", what);
        for (size_t i = 0; i < n; i++)
                print_message(" done %4.1f%% charged %4.1f%%;", 100 * rows[i].done, 100 * rows[i].charged);
        print_message("\n");
}

static double tolerance(void) {
        return sim_share_ns > 0 ? IN_TURNS : TOLERANCE;
}

static void one_below_another(const Kind *low, const Kind *high, uint64_t gap_ns, size_t *failed) {
        char what[128];

        begin(gap_ns);
        Row rows[] = {add(low, -1, 100, NULL), add(high, 0, 100, NULL)};
        measure(rows, 2, RUN);
        bool ok = charges_hold(rows, 2, tolerance(), tolerance() + FLOOR);
        (void) snprintf(what, sizeof(what), "%s below %s, pauses of %" PRIu64 " us", low->name, high->name,
                        gap_ns / USEC);
        tell(ok, what, rows, 2);
        *failed += !ok;
        sim_done(&sim);
}

static void test_one_below_another(void **state) {
        size_t failed = 0;

        for (size_t g = 0; g < ELEMENTSOF(gaps_ns); g++)
                for (size_t i = g % EVERY; i < ELEMENTSOF(kinds) * ELEMENTSOF(kinds); i += EVERY)
                        one_below_another(kinds + i / ELEMENTSOF(kinds), kinds + i % ELEMENTSOF(kinds), gaps_ns[g],
                                        &failed);
        assert_int_equal(failed, 0);
}

/* What programs say of their launches is wrong. */
static void test_wrong_estimates(void **state) {
        static const struct {
                const char *what;
                unsigned low_percent, high_percent; /* of the true mean; 0: unknown */
        } cases[] = {
                        {"the lower one says half", 50, 100},
                        {"the lower one says twice", 200, 100},
                        {"the lower one says nothing", 0, 100},
                        {"the higher one says a tenth less", 100, 90},
                        {"the higher one says a tenth more", 100, 110},
        };
        size_t failed = 0;

        for (size_t c = 0; c < ELEMENTSOF(cases); c++)
                for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                        begin(4 * MSEC);
                        Row rows[] = {add(kinds + i, -1, 100, NULL), add(kinds + 3, 0, 100, NULL)};

                        rows[0].t->mean_ns = rows[0].t->kernel_ns * cases[c].low_percent / 100;
                        rows[1].t->mean_ns = rows[1].t->kernel_ns * cases[c].high_percent / 100;
                        measure(rows, 2, RUN);
                        double error = cases[c].high_percent == 100 ? 0 : rows[1].done / 10;
                        bool ok = charges_hold(rows, 2, tolerance() + error, tolerance() + error + FLOOR);
                        tell(ok, cases[c].what, rows, 2);
                        failed += !ok;
                        sim_done(&sim);
                }
        assert_int_equal(failed, 0);
}

/* A program launches a kernel of 100 ms after each 200 or so of 0.1 ms, and says that all take 0.1 ms. It pays for it,
 * but for one launch of the other each time. */
static void test_long_among_short(void **state) {
        const double period = 100 * MSEC + 199 * (100 * USEC);
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                begin(4 * MSEC);
                Row rows[] = {add(kinds + 2, -1, 100, NULL), add(kinds + i, 0, 100, NULL)};

                rows[0].t->long_ns = 100 * MSEC;
                rows[0].t->long_every = 200;
                measure(rows, 2, RUN);
                double error = tolerance() + rows[0].done / period * (double) kinds[i].kernel_ns;
                bool ok = charges_hold(rows, 2, error, error + FLOOR);
                tell(ok, kinds[i].name, rows, 2);
                failed += !ok;
                sim_done(&sim);
        }
        assert_int_equal(failed, 0);
}

/* A maximum counts what was done, so it lets a program that often waits for another's work have all of it. */
static void test_max(void **state) {
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                begin(4 * MSEC);
                PolicyNodeSettings s = POLICY_NODE_SETTINGS_DEFAULT;

                s.max = 15;
                PolicyNode *n = sim_add_node(&sim, NULL, s);
                Row rows[] = {add(kinds + i, -1, 100, n), add(kinds + 5, 0, 100, NULL)};
                measure(rows, 2, RUN);
                bool ok = charges_hold(rows, 2, tolerance(), tolerance() + FLOOR) && rows[0].done < 0.15 + TOLERANCE &&
                                (kinds[i].pattern == SIM_SYNC || rows[0].done > 0.15 - 0.03);
                tell(ok, kinds[i].name, rows, 2);
                failed += !ok;
                sim_done(&sim);
        }
        assert_int_equal(failed, 0);
}

/* Two programs share as asked for what a third one leaves them. */
static void test_shares_below_another(void **state) {
        static const Kind *const deep[] = {kinds, kinds + 2, kinds + 4, kinds + 7};
        size_t failed = 0;

        for (size_t i = 0; i < ELEMENTSOF(deep) * ELEMENTSOF(deep); i++) {
                const Kind *heavy = deep[i / ELEMENTSOF(deep)], *light = deep[i % ELEMENTSOF(deep)];

                begin(4 * MSEC);
                Row rows[] = {add(heavy, -1, 300, NULL), add(light, -1, 100, NULL), add(kinds + 5, 0, 100, NULL)};
                measure(rows, 3, 3 * RUN);
                double share = rows[0].done / (rows[0].done + rows[1].done);
                bool ok = charges_hold(rows, 3, tolerance(), tolerance() + FLOOR) && share > 0.72 && share < 0.78;
                tell(ok, heavy->name, rows, 3);
                failed += !ok;
                sim_done(&sim);
        }
        assert_int_equal(failed, 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        SIM_IN_BOTH(test_one_below_another),
                        SIM_IN_BOTH(test_wrong_estimates),
                        SIM_IN_BOTH(test_long_among_short),
                        SIM_IN_BOTH(test_max),
                        SIM_IN_BOTH(test_shares_below_another),
        };

        return cmocka_run_group_tests_name("policy-tails", tests, NULL, NULL);
}
