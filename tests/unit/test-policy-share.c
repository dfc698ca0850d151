/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Long-run shares on a simulated device: by weight, within 2 %
 */

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy-device.h"
#include "sanitized.h"

#define TOLERANCE 0.02
#define ABS(x)    ((x) < 0 ? -(x) : (x))

static PolicyConfig no_floor(uint32_t concurrency, uint64_t timeslice_ns) {
        PolicyConfig c = POLICY_CONFIG_DEFAULT;

        c.concurrency = concurrency;
        c.timeslice_ns = timeslice_ns;
        c.starve_ns = c.starve_run_ns = 0;
        return c;
}

/* A failure says which worker of which scenario, and by how much. */
static void check_share(uint64_t seed, size_t i, double got, double want, double allowed) {
        if (got >= want - allowed && got <= want + allowed)
                return;
        print_error("seed %" PRIu64 ", worker %zu: got %.0f, should be %.0f (%+.2f %%)\n", seed, i, got, want,
                        100 * (got - want) / want);
        fail();
}

static double run_ns(const Worker *w) {
        return (double) w->job->usage.run_ns;
}

/* All workers always have work: run times are in proportion to the weights, up to one slot for each. */
static void test_busy(void **state) {
        for (uint64_t seed = 1; seed <= DRAWN(200); seed++) {
                Random r = {.state = seed};
                uint32_t slots = (uint32_t) random_log(&r, 1, 4);
                PolicyConfig c = no_floor(slots, random_log(&r, 100000, 10 * NSEC_PER_MSEC));
                Device d = {.n = random_range(&r, 1, 10)};
                uint64_t sum = 0, least = UINT64_MAX;

                for (size_t i = 0; i < d.n; i++) {
                        uint32_t w = (uint32_t) random_log(&r, 20, 5000);

                        d.workers[i] = (Worker){.settings = {.weight = w}, .burst_ns = {NSEC_INFINITY}};
                        sum += w;
                        least = MIN(least, (uint64_t) w);
                }

                /* The lightest gets 100 slices: one slice is half of the tolerance. */
                uint64_t ns = (SANITIZED ? 60 : 100) * c.timeslice_ns * sum / least;
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, false, seed);

                device_run(&d, h, ns);
                device_run_fluid(&d, slots, ns);
                for (size_t i = 0; i < d.n; i++)
                        check_share(seed, i, run_ns(d.workers + i), d.workers[i].fluid_done,
                                        d.workers[i].fluid_done * TOLERANCE);
        }
}

/* The whole range of weights. */
static void test_extreme_weights(void **state) {
        PolicyConfig c = no_floor(1, NSEC_PER_MSEC);
        Device d = {
                        .n = 2,
                        .workers = {{.settings = {.weight = POLICY_WEIGHT_MIN}, .burst_ns = {NSEC_INFINITY}},
                                        {.settings = {.weight = POLICY_WEIGHT_MAX}, .burst_ns = {NSEC_INFINITY}}},
        };
        uint64_t ns = 1000 * NSEC_PER_SEC;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, false, 0);

        device_run(&d, h, ns);
        check_share(0, 0, run_ns(d.workers + 0), (double) ns / 10001, (double) ns / 10001 * TOLERANCE);
        check_share(0, 1, run_ns(d.workers + 1), (double) ns * 10000 / 10001, (double) ns * 0.0001);
        assert_true(h->step < 10000); /* a heavy worker causes no wake-up at each slice */
}

static Worker random_worker(Random *r) {
        Worker w = {};

        w.burst_ns[1] = random_log(r, 100000, 20 * NSEC_PER_MSEC);
        w.burst_ns[0] = w.burst_ns[1] / 2;
        w.pause_ns[1] = random_log(r, 100000, 20 * NSEC_PER_MSEC);
        w.pause_ns[0] = w.pause_ns[1] / 2;
        w.settings.weight = (uint32_t) random_log(r, 20, 2000);
        w.seed = random_next(r);
        if (random_chance(r, 30))
                w.burst_ns[0] = NSEC_INFINITY;
        return w;
}

/* Workers sleep and wake: each gets what it would have got on the fluid device. Bursts and pauses follow from what a
 * worker gets, so that the two devices drift apart by more than slices explain: a few by up to 3 % of the device, on
 * average by much less. Workers that always have work share by weight among each other, whichever others come and
 * go. */
static void test_sleepers(void **state) {
        double sum = 0;
        size_t n = 0, n_pairs = 0;

        for (uint64_t seed = 1; seed <= 80; seed++) {
                Random r = {.state = seed};
                uint32_t slots = (uint32_t) random_log(&r, 1, 4);
                PolicyConfig c = no_floor(slots, random_log(&r, 500000, 5 * NSEC_PER_MSEC));
                uint64_t ns = (SANITIZED ? 2 : 4) * NSEC_PER_SEC;
                Device d = {.n = random_range(&r, 2, 8)};

                c.linger_ns = 0; /* the fluid device keeps no places */
                const Worker *busy = NULL;

                for (size_t i = 0; i < d.n; i++)
                        d.workers[i] = random_worker(&r);
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, false, seed);

                device_run(&d, h, ns);
                device_run_fluid(&d, slots, ns);
                for (size_t i = 0; i < d.n; i++) {
                        const Worker *w = d.workers + i;

                        check_share(seed, i, run_ns(w), w->fluid_done, (double) ns * 0.03);
                        sum += ABS((run_ns(w) - w->fluid_done) / (double) ns);
                        n++;
                        if (slots > 1 || w->burst_ns[0] != NSEC_INFINITY || w->settings.weight < 100)
                                continue;
                        if (busy) {
                                double want = run_ns(busy) * w->settings.weight / busy->settings.weight;

                                check_share(seed, i, run_ns(w), want, want * TOLERANCE);
                                n_pairs++;
                        }
                        busy = w;
                }
        }
        print_message("mean deviation from the fluid device: %.2f %%; %zu busy pairs\n", 100 * sum / (double) n,
                        n_pairs);
        assert_true(sum / (double) n < 0.005);
        assert_true(n_pairs > 5);
}

/* Sleeping earns nothing, however long: afterwards the sleeper gets its share, and no more. */
static void test_no_hoarding(void **state) {
        PolicyConfig c = no_floor(1, NSEC_PER_MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        Job *a = harness_add(h, POLICY_SETTINGS_DEFAULT), *b = harness_add(h, POLICY_SETTINGS_DEFAULT);

        harness_ready(a);
        harness_ready(b);
        harness_dispatch(h);
        harness_run(h, 10 * NSEC_PER_MSEC);
        harness_idle(b);
        harness_dispatch(h);
        harness_run(h, 1000 * NSEC_PER_SEC);

        uint64_t before = b->usage.run_ns;
        harness_ready(b);
        harness_dispatch(h);
        harness_run(h, 20 * NSEC_PER_MSEC);
        assert_in_range(b->usage.run_ns - before, 9 * NSEC_PER_MSEC, 11 * NSEC_PER_MSEC);
}

/* Nor does leaving and coming back remove a debt: an entity that goes idle just before the end of each of its slices,
 * and is back at once, gets no more than its share. */
static void test_no_washing(void **state) {
        PolicyConfig c = no_floor(1, NSEC_PER_MSEC);
        Device d = {
                        .n = 3,
                        .workers = {{.settings = {.weight = 100}, .burst_ns = {NSEC_INFINITY}},
                                        {.settings = {.weight = 100}, .burst_ns = {NSEC_INFINITY}},
                                        {.settings = {.weight = 100},
                                                        .burst_ns = {990000, 999000},
                                                        .pause_ns = {1, 1}}},
        };
        uint64_t ns = 3 * NSEC_PER_SEC;
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);

        device_run(&d, h, ns);
        for (size_t i = 0; i < d.n; i++)
                check_share(0, i, run_ns(d.workers + i), (double) ns / 3, (double) ns / 3 * TOLERANCE);
}

/* A tier divides by weight the time that the tiers above leave; those get all that they want. */
static void test_tiers(void **state) {
        for (uint64_t seed = 1; seed <= DRAWN(40); seed++) {
                Random r = {.state = seed};
                PolicyConfig c = no_floor(1, random_log(&r, 200000, 5 * NSEC_PER_MSEC));
                Device d = {.n = 4};
                uint64_t ns = (SANITIZED ? 4 : 10) * NSEC_PER_SEC, left = ns;

                c.linger_ns = 0;
                d.workers[0] = random_worker(&r);
                d.workers[0].settings.priority = 10;
                d.workers[0].burst_ns[0] = d.workers[0].burst_ns[1];
                d.workers[1] = random_worker(&r);
                d.workers[1].settings.priority = 5;
                for (size_t i = 2; i < d.n; i++)
                        d.workers[i] = (Worker){
                                        .settings = {.priority = -5, .weight = (uint32_t) random_range(&r, 50, 200)},
                                        .burst_ns = {NSEC_INFINITY},
                        };
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, false, seed);

                device_run(&d, h, ns);
                assert_int_equal(d.workers[0].job->usage.wait_ns, 0);
                left -= d.workers[0].job->usage.run_ns + d.workers[1].job->usage.run_ns;

                double weights = d.workers[2].settings.weight + d.workers[3].settings.weight;
                for (size_t i = 2; i < d.n; i++) {
                        double want = (double) left * d.workers[i].settings.weight / weights;

                        check_share(seed, i, run_ns(d.workers + i), want, (double) ns * 0.001 + want * TOLERANCE);
                }
        }
}

/* Below a tier that never rests each worker gets a turn in rotation, and all turns together stay within the floor's
 * part. */
static void test_floor(void **state) {
        for (uint64_t seed = 1; seed <= DRAWN(20); seed++) {
                Random r = {.state = seed};
                PolicyConfig c = POLICY_CONFIG_DEFAULT;
                Device d = {.n = random_range(&r, 2, 10)};
                uint64_t periods = SANITIZED ? 80 : 200, ns, low_ns = 0;

                c.starve_ns = random_log(&r, 20 * NSEC_PER_MSEC, NSEC_PER_SEC);
                c.starve_run_ns = c.starve_ns / 20;
                ns = c.starve_ns * periods * (d.n - 1);
                for (size_t i = 0; i < d.n; i++) {
                        d.workers[i].settings.priority = -(int) random_range(&r, 0, 3);
                        d.workers[i].settings.weight = (uint32_t) random_log(&r, 1, POLICY_WEIGHT_MAX);
                        d.workers[i].burst_ns[0] = NSEC_INFINITY;
                        if (i == 0)
                                d.workers[i].settings.priority = 1;
                }
                _cleanup_(harness_freep)
                Harness *h = harness_new(&c, false, seed);

                device_run(&d, h, ns);
                assert_int_equal(d.workers[0].job->usage.wait_ns, 0);
                for (size_t i = 1; i < d.n; i++) {
                        uint64_t turns = d.workers[i].job->usage.run_ns / c.starve_run_ns;

                        assert_in_range(turns, periods * 95 / 100, periods);
                        low_ns += d.workers[i].job->usage.run_ns;
                }
                assert_true(low_ns * c.starve_ns <= ns * c.starve_run_ns + c.starve_ns * c.starve_run_ns);
        }
}

/* A job that launches, waits, and launches again in bursts: after learning, its short gaps do not cost it the device,
 * and the long ones cost the others little. */
static void test_linger(void **state) {
        PolicyConfig c = no_floor(1, 5 * NSEC_PER_MSEC);
        _cleanup_(harness_freep)
        Harness *h = harness_new(&c, true, 0);
        Job *batch = harness_add(h, POLICY_SETTINGS_DEFAULT);
        Job *job = harness_add(h, (PolicySettings){.priority = 10, .weight = 100});
        uint64_t begin = 0, lost = 0, wanted = 0, interrupted = 0;
        Random r = {.state = 1};

        harness_ready(batch);
        harness_dispatch(h);
        harness_run(h, NSEC_PER_MSEC);
        for (unsigned request = 0; request < 200; request++) {
                if (request == 20) { /* learnt by now */
                        begin = h->now_ns;
                        lost = batch->usage.wait_ns;
                        wanted = interrupted = 0;
                }
                for (unsigned kernel = 0; kernel < 10; kernel++) {
                        uint64_t n = batch->usage.n_preempted;

                        harness_ready(job);
                        harness_dispatch(h);
                        interrupted += kernel > 0 && batch->usage.n_preempted > n;
                        harness_run(h, 120 * NSEC_PER_USEC);
                        wanted += 120 * NSEC_PER_USEC;
                        harness_idle(job);
                        harness_dispatch(h);
                        harness_run(h, random_range(&r, 20, 40) * NSEC_PER_USEC);
                }
                harness_run(h, 18 * NSEC_PER_MSEC);
        }
        lost = batch->usage.wait_ns - lost;
        assert_true(interrupted < 180 * 9 / 50);
        assert_true(lost - wanted < (h->now_ns - begin) * 25 / 1000);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_busy),
                        cmocka_unit_test(test_extreme_weights),
                        cmocka_unit_test(test_sleepers),
                        cmocka_unit_test(test_no_hoarding),
                        cmocka_unit_test(test_no_washing),
                        cmocka_unit_test(test_tiers),
                        cmocka_unit_test(test_floor),
                        cmocka_unit_test(test_linger),
        };

        return cmocka_run_group_tests_name("policy-share", tests, NULL, NULL);
}
