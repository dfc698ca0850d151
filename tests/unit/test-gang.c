/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Gangs: one verdict on all devices, and no client waits for ever
 */

#include <stdio.h>
#include <time.h>

#include "service/core/gang.h"
#include "service/core/resolve.h"
#include "tests/lib/deadline.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

/* A process with a queue on each of two devices. */
typedef struct Pair {
        Process p;
        Queue *q[2];
} Pair;

static Pair pair_make(Manager *m, const char *cgroup, int priority, bool gang) {
        Pair p = {.p = join(m, cgroup, priority)};

        if (gang) {
                assert_int_equal(settings_set_gang(&p.p.client->group->override, true), 0);
                group_settings_changed(p.p.client->group);
        }
        p.q[0] = queue(&p.p, "d1", 0);
        p.q[1] = queue(&p.p, "d2", 0);
        return p;
}

static void pair_begin(const Pair *p) {
        begin(p->q[0]);
        begin(p->q[1]);
}

/* Whether the pair is held. Checks that both queues have the same verdict. */
static bool pair_held(const Pair *p) {
        assert_int_equal(held(p->q[0]), held(p->q[1]));
        return held(p->q[0]);
}

/* Drains held queues: only then does their waiting time count, and an equal go on. */
static void pair_drain(const Pair *p) {
        for (unsigned i = 0; i < ELEMENTSOF(p->q); i++)
                if (held(p->q[i]))
                        drain(p->q[i]);
}

static void turn(Manager *m) {
        Device *d, *tmp;

        HASH_ITER(hh, m->devices, d, tmp)
                device_touch(d);
        arbiter_flush(m);
}

/* An entity with precedence on one of the devices, be it the lead's or not, has it on both. */
static void test_together(void **state) {
        for (unsigned device = 0; device < 2; device++) {
                Manager *m = manager_make();
                Pair g = pair_make(m, "/gang", 0, true);
                Process high = join(m, "/high", 10);
                Queue *h = queue(&high, device == 0 ? "d1" : "d2", 0);

                pair_begin(&g);
                assert_false(pair_held(&g));
                for (unsigned i = 0; i < 3; i++) {
                        begin(h);
                        assert_true(pair_held(&g));
                        finish(h);
                        while (pair_held(&g))
                                turn(m);
                }

                /* When the gang ends, or is no gang any longer, the other device is free. */
                begin(h);
                assert_true(pair_held(&g));
                assert_int_equal(settings_set_gang(&g.p.client->group->override, false), 0);
                group_settings_changed(g.p.client->group);
                arbiter_flush(m);
                assert_true(held(g.q[device]));
                assert_false(held(g.q[1 - device]));
                assert_int_equal(m->n_gangs, 0);
                assert_int_equal(settings_set_gang(&g.p.client->group->override, true), 0);
                group_settings_changed(g.p.client->group);
                arbiter_flush(m);
                assert_true(pair_held(&g));
                release(g.q[device]);
                arbiter_flush(m);
                assert_false(held(g.q[1 - device]));

                leave(&high);
                leave(&g.p);
                assert_int_equal(m->n_gangs, 0);
                manager_free(m);
        }
}

/* What holds a gang ends on one of its devices and begins on the other, in one turn: nothing changes for the gang. */
static void test_one_verdict_in_a_turn(void **state) {
        Manager *m = manager_make();
        Pair g = pair_make(m, "/gang", 0, true);
        Process one = join(m, "/one", 10), two = join(m, "/two", 10);
        Queue *q[] = {queue(&one, "d1", 0), queue(&two, "d2", 0)};

        pair_begin(&g);
        begin(q[0]);
        assert_true(pair_held(&g));
        pair_drain(&g);
        for (unsigned i = 0; i < 8; i++) {
                uint64_t since = g.q[0]->entity->gang_since;
                uint32_t words[] = {atomic_load(&g.q[0]->page_slot->verdict), atomic_load(&g.q[1]->page_slot->verdict)};

                /* Both orders of the two events. */
                if (i % 4 < 2)
                        assert_true(begin_in_turn(q[1 - i % 2]));
                assert_true(finish_in_turn(q[i % 2]));
                if (i % 4 >= 2)
                        assert_true(begin_in_turn(q[1 - i % 2]));
                arbiter_flush(m);
                assert_int_equal(atomic_load(&g.q[0]->page_slot->verdict), words[0]);
                assert_int_equal(atomic_load(&g.q[1]->page_slot->verdict), words[1]);
                assert_int_equal(g.q[0]->entity->gang_since, since);
        }
        leave(&one);
        leave(&two);
        leave(&g.p);
        manager_free(m);
}

/* An idle member delays no other. */
static void test_idle_member(void **state) {
        Manager *m = manager_make();
        Pair g = pair_make(m, "/gang", 0, true);
        Process high = join(m, "/high", 10);
        Queue *h = queue(&high, "d1", 0);

        begin(g.q[1]);
        begin(h);
        assert_false(held(g.q[1]));
        begin(g.q[0]);
        assert_true(pair_held(&g));
        finish(g.q[0]);
        assert_false(held(g.q[1]));
        leave(&high);
        leave(&g.p);
        manager_free(m);
}

/* Two gangs of equal rank on the same devices, in the order of a deadlock: each is first on one device. */
static void test_two_gangs(void **state) {
        Manager *m = manager_make();
        Pair a = pair_make(m, "/a", 0, true), b = pair_make(m, "/b", 0, true);
        bool a_ran = false, b_ran = false;
        uint64_t end = now_ns() + TEST_DEADLINE_NS;

        configure_all(m, "TimeSliceUSec", 1000);
        begin(a.q[0]);
        begin(b.q[1]);
        begin(a.q[1]);
        begin(b.q[0]);
        for (unsigned turns = 0; !(a_ran && b_ran && turns > 3) && now_ns() < end; turns++) {
                bool a_runs = !pair_held(&a), b_runs = !pair_held(&b);
                assert_false(a_runs && b_runs);
                a_ran |= a_runs;
                b_ran |= b_runs;
                pair_drain(&a);
                pair_drain(&b);
                assert_true(pair_held(&a) != pair_held(&b));
                turn(m);
        }
        assert_true(a_ran && b_ran);
        leave(&a.p);
        leave(&b.p);
        manager_free(m);
}

/* Above the gang, a client on each device never stops. Nothing but the gang makes the turns of the two floors
 * coincide. */
static void test_floor(void **state) {
        Manager *m = manager_make();
        Pair g = pair_make(m, "/gang", 0, true);
        Process one = join(m, "/one", 10), two = join(m, "/two", 20);
        Queue *h1 = queue(&one, "d1", 0), *h2 = queue(&two, "d2", 0);
        uint64_t end = now_ns() + TEST_DEADLINE_NS;
        unsigned n_runs = 0;

        configure_all(m, "StarveRunUSec", 1000);
        configure_all(m, "StarveUSec", 5000);
        pair_begin(&g);
        begin(h1);
        begin(h2);
        assert_true(pair_held(&g));
        while (n_runs < 3 && now_ns() < end) {
                turn(m);
                if (pair_held(&g))
                        continue;
                n_runs++;
                while (!pair_held(&g) && now_ns() < end)
                        turn(m);
        }
        assert_int_equal(n_runs, 3);
        leave(&one);
        leave(&two);
        leave(&g.p);
        manager_free(m);
}

/* On the device that is not the lead's, a client above the gang never stops, and nothing else happens. The gang gets
 * the turns that the lead's policy owes to who starves, and no more. */
static void test_outranked_for_ever(void **state) {
        Manager *m = manager_make();
        Pair g = pair_make(m, "/gang", 0, true);
        Process high = join(m, "/high", 10), other = join(m, "/other", 0);
        Queue *h = queue(&high, "d2", 0), *o = queue(&other, "d1", 0);
        uint64_t ran_ns = 0, step = NSEC_PER_MSEC / 10;
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        configure_all(m, "StarveUSec", 10000000);
        assert_int_equal(device_settings_set(&s, device_key_find("StarveUSec"), 20000), 0);
        assert_int_equal(device_settings_set(&s, device_key_find("StarveRunUSec"), 2000), 0);
        assert_int_equal(device_configure(g.q[0]->device, &s), 0);
        begin(o);
        finish(o);
        pair_begin(&g);
        begin(h);
        assert_true(pair_held(&g));
        for (unsigned i = 0; i < 2200; i++) {
                pair_drain(&g);
                own_clock_pass(step);
                while (dues_turn(&m->dues, now_ns()) > 0)
                        arbiter_flush(m);
                ran_ns += pair_held(&g) ? 0 : step;
        }
        assert_in_range(ran_ns, 15 * NSEC_PER_MSEC, 22 * NSEC_PER_MSEC);
        leave(&high);
        leave(&other);
        leave(&g.p);
        manager_free(m);
}

/* Gangs with work on both devices. The device of their lead has a place for each, and the other device has one
 * place. */
static void gangs_make(Manager *m, Pair *g, size_t n) {
        DeviceSettings s = DEVICE_SETTINGS_NULL;
        Device *d;
        char name[16];

        assert_int_equal(device_get(m, "d1", NULL, NULL, DEVICE_OWNER_NONE, &d), 0);
        assert_int_equal(device_settings_set(&s, device_key_find("Concurrency"), DEVICE_CONCURRENCY_MAX), 0);
        assert_int_equal(device_configure(d, &s), 0);
        for (size_t i = 0; i < n; i++) {
                (void) snprintf(name, sizeof(name), "/gang%zu", i);
                g[i] = pair_make(m, name, 0, true);
                pair_begin(&g[i]);
        }
}

/* The least of several measurements: other load only adds time. */
static uint64_t update_cost(Manager *m) {
        Device *d = device_find(m, "d2");
        uint64_t least = UINT64_MAX;

        for (unsigned k = 0; k < 20; k++) {
                struct timespec a, b;

                assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a), 0);
                for (unsigned i = 0; i < 50; i++)
                        gang_update_device(d, now_ns());
                assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b), 0);
                uint64_t ns = (uint64_t) (b.tv_sec - a.tv_sec) * NSEC_PER_SEC + (uint64_t) b.tv_nsec -
                                (uint64_t) a.tv_nsec;
                least = MIN(least, ns);
        }
        return least;
}

#define FEW  12U
#define MANY (8 * FEW)

/* Eight times as many gangs cost about eight times as much, not 64 times; up to three times that counts as noise. */
static void test_cost(void **state) {
        uint64_t cost[2];

        for (size_t i = 0; i < ELEMENTSOF(cost); i++) {
                Manager *m = manager_make();
                Pair g[MANY];
                size_t n = i == 0 ? FEW : MANY;

                gangs_make(m, g, n);
                cost[i] = update_cost(m);
                while (n > 0)
                        leave(&g[--n].p);
                manager_free(m);
        }
        assert_true(cost[1] < 24 * cost[0]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_together),
                        cmocka_unit_test(test_one_verdict_in_a_turn),
                        cmocka_unit_test(test_idle_member),
                        cmocka_unit_test(test_two_gangs),
                        cmocka_unit_test(test_floor),
                        cmocka_unit_test(test_outranked_for_ever),
                        cmocka_unit_test(test_cost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
