/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Policies are switched at random under load: 200 clients on four devices
 *
 * No settings are lost, no queue is starved, and no unchanged verdict is written. The test has its own clock, so each
 * run is the same, and lasts a minute of that clock (tests/bus/test-switching.py has the real one); under a sanitizer,
 * which makes that slow, a part of it unless -Dlong-tests=true.
 */

#include <stdio.h>
#include <sys/resource.h>
#include <utlist.h>

#include "service/core/resolve.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define N_CLIENTS 200U
#define N_DEVICES 4U
#define STEP_NS   (200 * NSEC_PER_USEC)
#define STARVE_NS (5 * NSEC_PER_MSEC)

/* A turn of the floor. It is longer than the time between two looks of a client at its gate, in which others' steps
 * take time, too: a client that missed its turn would wait for all others' turns again. */
#define STARVE_RUN_NS (2 * NSEC_PER_MSEC)

#if !defined(LONG_TESTS) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#        define RUN_NS (2 * NSEC_PER_SEC)
#else
#        define RUN_NS (60 * NSEC_PER_SEC)
#endif

/* (1 + number of clients on the device) turns of the floor, and the steps of the test's clock for each. */
#define HELD_MAX_NS ((2 + N_CLIENTS / N_DEVICES) * (STARVE_NS + 4 * STEP_NS))

/* A client, with one queue, that launches, waits for the end, and launches again. */
typedef struct Tenant {
        Process p;
        Queue *q;
        int priority;
        uint64_t deadline_us;

        bool wants;       /* has begun a launch */
        uint64_t left_ns; /* rest of its launch on the device; 0: it waits at the gate */
        uint64_t held_ns; /* begin of its hold; 0: it is not held */
        uint64_t next_ns; /* its next launch */
        uint64_t n_done;
        uint32_t word;
} Tenant;

typedef struct Load {
        Manager *m;
        Tenant t[N_CLIENTS];
        uint64_t switched_ns[N_DEVICES];
        uint64_t n_switched, n_verdicts, n_turned, longest_ns;
} Load;

static bool chance(unsigned one_in) {
        return random() % one_in == 0;
}

static Device *device_of(const Load *l, size_t i) {
        char id[8];

        (void) snprintf(id, sizeof(id), "d%zu", i % N_DEVICES);
        return device_find(l->m, id);
}

/* Checks that every verdict written since the last look differs from the one before, and that no queue had two. */
static void look_at_verdicts(Load *l) {
        uint64_t n_turned = 0;

        if (l->m->n_verdicts == l->n_verdicts)
                return;
        for (size_t i = 0; i < N_CLIENTS; i++) {
                Tenant *t = &l->t[i];
                uint32_t word = atomic_load(&t->q->page_slot->verdict);
                uint32_t n = word / PAGE_VERDICT_GEN_STEP - t->word / PAGE_VERDICT_GEN_STEP;

                assert_in_range(n, 0, 1);
                assert_int_equal((word ^ t->word) & PAGE_VERDICT_HOLD, n % 2 ? PAGE_VERDICT_HOLD : 0);
                n_turned += n;
                t->word = word;
        }
        assert_int_equal(l->m->n_verdicts - l->n_verdicts, n_turned);
        l->n_verdicts = l->m->n_verdicts;
        l->n_turned += n_turned;
}

static void look_at_settings(const Load *l) {
        for (size_t i = 0; i < N_CLIENTS; i++) {
                const Tenant *t = &l->t[i];

                assert_int_equal(t->q->resolved.policy.priority, t->priority);
                assert_int_equal(t->q->entity->settings.priority, t->priority);
                assert_int_equal(t->q->entity->settings.deadline_us, t->deadline_us);
                assert_int_equal(t->q->entity->kind, ENTITY_CLIENT);
        }
}

static void say(Tenant *t) {
        t->priority = (int) (random() % 7) - 3;
        t->deadline_us = chance(2) ? 0 : (uint64_t) (1000 + random() % 20000);
        assert_int_equal(settings_set_priority(&t->p.client->override, t->priority), 0);
        assert_int_equal(settings_set_deadline(&t->p.client->override, (int64_t) t->deadline_us), 0);
        client_settings_changed(t->p.client);
}

static void switch_one(Load *l) {
        size_t n = 0, i = (size_t) random() % N_DEVICES;
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        while (policy_all[n])
                n++;
        s.ops = policy_all[(size_t) random() % n];
        assert_int_equal(device_configure(device_of(l, i), &s), 0);
        arbiter_flush(l->m);
        look_at_verdicts(l);
        look_at_settings(l);
        l->switched_ns[i] = now_ns();
        l->n_switched++;
}

static void configure(Load *l) {
        for (size_t i = 0; i < N_DEVICES; i++) {
                DeviceSettings s = DEVICE_SETTINGS_NULL;

                assert_int_equal(device_settings_set(&s, device_key_find("StarveRunUSec"), STARVE_RUN_NS / 1000), 0);
                assert_int_equal(device_settings_set(&s, device_key_find("StarveUSec"), STARVE_NS / 1000), 0);
                assert_int_equal(device_settings_set(&s, device_key_find("TimeSliceUSec"), 1000), 0);
                assert_int_equal(device_configure(device_of(l, i), &s), 0);
        }
        arbiter_flush(l->m);
}

static void load_make(Load *l) {
        struct rlimit files;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
        files.rlim_cur = MIN(files.rlim_max, (rlim_t) 16 * N_CLIENTS);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        l->m = manager_make();
        for (size_t i = 0; i < N_CLIENTS; i++) {
                Tenant *t = &l->t[i];
                char name[16];

                (void) snprintf(name, sizeof(name), "/g%zu", i / 3);
                t->p = join(l->m, name, 0);
                say(t);
                (void) snprintf(name, sizeof(name), "d%zu", i % N_DEVICES);
                t->q = queue(&t->p, name, 0);
                t->next_ns = now_ns() + (uint64_t) random() % NSEC_PER_MSEC;
                t->word = atomic_load(&t->q->page_slot->verdict);
        }
        configure(l);
        for (size_t i = 0; i < N_CLIENTS; i++)
                l->t[i].word = atomic_load(&l->t[i].q->page_slot->verdict);
        l->n_verdicts = l->m->n_verdicts;
}

/* The gate: a released queue has the device until its launch ends, and a held one waits with its next launch. */
static void tenant_step(Load *l, Tenant *t, size_t device, uint64_t now) {
        if (!t->wants && now >= t->next_ns) {
                t->wants = true;
                begin(t->q);
                if (held(t->q))
                        drain(t->q);
                t->held_ns = now;
        } else if (t->wants && t->left_ns > 0) {
                t->left_ns = ns_sub(t->left_ns, STEP_NS);
                if (t->left_ns == 0) {
                        t->wants = false;
                        t->n_done++;
                        t->next_ns = now + (chance(3) ? (uint64_t) random() % (20 * NSEC_PER_MSEC) : 0);
                        finish(t->q);
                }
        } else if (t->wants && !held(t->q)) {
                t->left_ns = 1 + (uint64_t) random() % (2 * NSEC_PER_MSEC);
                t->held_ns = 0;
        } else if (t->wants) {
                uint64_t since = MAX(t->held_ns, l->switched_ns[device]);

                l->longest_ns = MAX(l->longest_ns, ns_sub(now, since));
        }
        look_at_verdicts(l);
}

/* Plays the event loop. */
static void timers(Load *l, uint64_t now) {
        static uint64_t renewed_ns;
        Client *c;

        if (now >= renewed_ns + PAGE_LEASE_RENEW_NS) {
                renewed_ns = now;
                DL_FOREACH2(l->m->holding, c, holding_next)
                        page_set_lease(c->page.header, now + PAGE_LEASE_NS);
        }
        (void) dues_turn(&l->m->dues, now);
        arbiter_flush(l->m);
        look_at_verdicts(l);
}

static void test_switches_under_load(void **state) {
        static Load l;
        uint64_t end;

        srandom(1210);
        load_make(&l);
        end = now_ns() + RUN_NS;
        for (uint64_t step = 0; now_ns() < end; step++) {
                own_clock_pass(STEP_NS);
                uint64_t now = now_ns();

                timers(&l, now);
                for (size_t i = 0; i < N_CLIENTS; i++)
                        tenant_step(&l, &l.t[i], i % N_DEVICES, now);
                if (chance(200))
                        switch_one(&l);
                if (chance(50)) {
                        say(&l.t[(size_t) random() % N_CLIENTS]);
                        arbiter_flush(l.m);
                        look_at_verdicts(&l);
                }
                if (step % 64 == 0)
                        check(l.m);
        }
        look_at_settings(&l);
        uint64_t least = UINT64_MAX, all = 0;
        for (size_t i = 0; i < N_CLIENTS; i++) {
                least = MIN(least, l.t[i].n_done);
                all += l.t[i].n_done;
        }
        print_message("%lu switches, %lu verdicts, %lu launches, of one at least %lu, held for at most %lu ms\n",
                        l.n_switched, l.n_turned, all, least, l.longest_ns / NSEC_PER_MSEC);
        assert_true(l.n_switched >= RUN_NS / NSEC_PER_SEC * 10);
        assert_true(l.n_turned > 1000);
        assert_true(least > 0);
        assert_true(l.longest_ns <= HELD_MAX_NS);
        for (size_t i = 0; i < N_CLIENTS; i++)
                leave(&l.t[i].p);
        manager_free(l.m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_switches_under_load),
        };

        return cmocka_run_group_tests_name("switch-load", tests, NULL, NULL);
}
