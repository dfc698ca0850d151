/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Gangs drain together: programs whose kernels wait for each other on two devices, in simulated time
 *
 * A job has a process on each device. Its launches are kernels that compute, and collectives, which end when both
 * processes have launched theirs. The gate is all that holds them. A device divides its time equally among the programs
 * that have launches in flight, as GPUs do.
 */

#include <stdio.h>

#include "service/core/gang.h"
#include "service/core/resolve.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define RANKS     2U
#define JOBS_MAX  2U
#define STEP_NS   (5 * NSEC_PER_USEC)
#define HEAR_NS   (30 * NSEC_PER_USEC)
#define LAUNCH_NS (5 * NSEC_PER_USEC) /* the program's time for one, and up to JITTER_NS more */
#define JITTER_NS (uint32_t)(40 * NSEC_PER_USEC)

typedef struct Program {
        const uint32_t *kernels_us; /* one after the other, again and again; 0: a collective */
        unsigned n_kernels, n_launches;
        uint32_t threshold; /* of the devices */
} Program;

typedef struct Rank {
        Queue *q;
        unsigned launched, done;
        bool waits;
        uint64_t next_at; /* when the program comes to its next launch */
        uint64_t had_ns;  /* what its first kernel in flight has had of the device */
        uint32_t random;
} Rank;

typedef struct Job {
        Process p;
        const Program *program;
        Rank ranks[RANKS];
} Job;

typedef struct World {
        Manager *m;
        Job jobs[JOBS_MAX];
        unsigned n_jobs, n_done;
        uint64_t slice_until[RANKS];
        unsigned slice_of[RANKS]; /* the job that has the device */
        uint32_t random;
        uint64_t hears_at; /* when the service hears edges the next time */
} World;

static const char *const DEVICES[RANKS] = {"d1", "d2"};

static void hear_of(Queue *q) {
        page_mark_dirty(q->client->page.header, q->slot);
}

static bool may_launch(const Rank *r, const Program *p) {
        uint32_t threshold = atomic_load(&r->q->page_slot->threshold);
        uint64_t us = 0;

        if (atomic_load(&r->q->page_slot->verdict) & PAGE_VERDICT_HOLD)
                return false;
        if (threshold == 0 || r->launched - r->done < threshold)
                return true;
        for (unsigned i = r->done; i <= r->launched; i++)
                us += p->kernels_us[i % p->n_kernels] ? p->kernels_us[i % p->n_kernels] : 100;
        return us <= atomic_load(&r->q->page_slot->budget_us);
}

static void rank_launch(Rank *r) {
        r->waits = false;
        r->launched++;
        r->next_at = now_ns() + LAUNCH_NS + (r->random >> 16) % JITTER_NS;
        r->random = r->random * 1103515245 + 12345;
}

/* The program's part: it launches until it has to wait. */
static void rank_step(Rank *r, const Program *p) {
        if (r->waits) {
                if (!may_launch(r, p))
                        return;
                page_slot_end_wait(r->q->page_slot);
                rank_launch(r);
        } else if (r->launched < p->n_launches && now_ns() >= r->next_at) {
                bool edge = page_slot_begin(r->q->page_slot) & PAGE_BEGIN_EDGE;
                if (may_launch(r, p))
                        rank_launch(r);
                else {
                        r->waits = true;
                        edge |= page_slot_begin_wait(r->q->page_slot);
                }
                if (edge)
                        hear_of(r->q);
        }
}

static bool in_flight(const Rank *r) {
        return r->launched > r->done;
}

static bool peers_are_there(const World *w, const Job *j, unsigned n) {
        for (unsigned i = 0; i < RANKS; i++)
                if (j->ranks[i].launched <= n || j->ranks[i].done < n || w->slice_of[i] != j - w->jobs)
                        return false;
        return true;
}

static void rank_complete(Rank *r) {
        r->had_ns = 0;
        r->done++;
        if (page_slot_end(r->q->page_slot, 1) != 0)
                hear_of(r->q);
}

#define COLLECTIVE_NS (120 * NSEC_PER_USEC)

/* Its first kernel has had `ns` of the device. A collective that waits for its peer uses the device all the while. */
static void rank_run(World *w, Job *j, Rank *r, uint64_t ns) {
        uint32_t us = j->program->kernels_us[r->done % j->program->n_kernels];

        if (us == 0 && !peers_are_there(w, j, r->done))
                return;
        r->had_ns += ns;
        if (us > 0 && r->had_ns >= us * NSEC_PER_USEC)
                rank_complete(r);
        else if (us == 0 && r->had_ns >= COLLECTIVE_NS) {
                unsigned n = r->done;
                for (unsigned i = 0; i < RANKS; i++)
                        if (j->ranks[i].done == n)
                                rank_complete(&j->ranks[i]);
        }
}

#define SLICE_NS (2 * NSEC_PER_MSEC) /* about */

/* The programs with launches in flight have the device in turn, as GPUs divide their time. */
static void device_step(World *w, unsigned d) {
        unsigned n = 0, *of = &w->slice_of[d];

        for (unsigned k = 0; k < w->n_jobs; k++)
                n += in_flight(&w->jobs[k].ranks[d]);
        if (n == 0)
                return;
        if (!in_flight(&w->jobs[*of].ranks[d]) || (n > 1 && now_ns() >= w->slice_until[d])) {
                do
                        *of = (*of + 1) % w->n_jobs;
                while (!in_flight(&w->jobs[*of].ranks[d]));
                w->random = w->random * 1103515245 + 12345; /* or both devices' turns might never meet */
                w->slice_until[d] = now_ns() + SLICE_NS / 2 + SLICE_NS / 16 * ((w->random >> 16) % 16);
        }
        rank_run(w, &w->jobs[*of], &w->jobs[*of].ranks[d], STEP_NS);
}

/* Returns whether it has ended. */
static bool job_step(Job *j) {
        unsigned n_done = 0;

        for (unsigned i = 0; i < RANKS; i++) {
                rank_step(&j->ranks[i], j->program);
                n_done += j->ranks[i].done == j->program->n_launches;
        }
        return n_done == RANKS;
}

static void service_step(World *w) {
        for (unsigned k = 0; k < w->n_jobs; k++)
                (void) arbiter_client_woke(w->jobs[k].p.client);
        arbiter_flush(w->m);
        while (dues_turn(&w->m->dues, now_ns()) > 0)
                arbiter_flush(w->m);
}

static void world_step(World *w) {
        own_clock_pass(STEP_NS);
        for (unsigned d = 0; d < RANKS; d++)
                device_step(w, d);
        w->n_done = 0;
        for (unsigned k = 0; k < w->n_jobs; k++)
                w->n_done += job_step(&w->jobs[k]);
        if (now_ns() < w->hears_at)
                return;
        w->hears_at = now_ns() + HEAR_NS;
        service_step(w);
}

static void job_make(World *w, const char *cgroup, const Program *p) {
        Job *j = &w->jobs[w->n_jobs++];

        *j = (Job){.p = join(w->m, cgroup, 0), .program = p};
        assert_int_equal(settings_set_gang(&j->p.client->group->override, true), 0);
        group_settings_changed(j->p.client->group);
        for (unsigned i = 0; i < RANKS; i++)
                j->ranks[i] = (Rank){.q = queue(&j->p, DEVICES[i], 0), .random = 5 * i + 2 * w->n_jobs};
        arbiter_flush(w->m);
}

/* Returns how long it takes until all have ended. */
static uint64_t world_run(World *w) {
        uint64_t begin = now_ns();

        while (w->n_done < w->n_jobs) {
                assert_true(now_ns() - begin < 1000 * NSEC_PER_SEC);
                world_step(w);
        }
        return now_ns() - begin;
}

static uint64_t run(const Program *p, unsigned n_jobs) {
        World w = {.m = manager_make()};

        for (unsigned k = 0; k < n_jobs; k++)
                job_make(&w, k == 0 ? "/a" : "/b", p);
        configure_all(w.m, "Threshold", p->threshold);
        uint64_t took = world_run(&w);
        service_step(&w);
        check(w.m);
        for (unsigned k = 0; k < n_jobs; k++)
                leave(&w.jobs[k].p);
        manager_free(w.m);
        return took;
}

/* Two gangs take little longer than one after the other. They took 1.67, 1.48 and 1.31 times as long while collectives
 * that were in flight at a hold waited until the gang's next turn, of which their devices had the time meanwhile. */
static void test_two_gangs(void **state) {
        static const uint32_t MODEL[] = {170, 30, 20, 20, 170, 30, 20, 20, 170, 30, 20, 20, 170, 30, 20, 20, 0};
        static const uint32_t BUCKETS[] = {400, 200, 0, 0, 0, 100}, SHORT[] = {25, 15, 20, 0};
        static const Program PROGRAMS[] = {
                        {MODEL, ELEMENTSOF(MODEL), 6800, 1},
                        {BUCKETS, ELEMENTSOF(BUCKETS), 3000, 16},
                        {SHORT, ELEMENTSOF(SHORT), 20000, 1},
        };

        for (size_t i = 0; i < ELEMENTSOF(PROGRAMS); i++) {
                uint64_t alone = run(&PROGRAMS[i], 1), two = run(&PROGRAMS[i], 2);

                printf("alone %" PRIu64 " us, two gangs %" PRIu64 " us\n", alone / 1000, two / 1000);
                assert_true(two < 2 * alone * 115 / 100);
        }
}

/* --- step by step --- */

/* A process with a queue on each of two devices, and another one that wants one of them. */
typedef struct Case {
        Manager *m;
        Process gang, other;
        Queue *q[RANKS], *o;
} Case;

static void pass(Manager *m, uint64_t ns) {
        for (uint64_t end = now_ns() + ns; now_ns() < end;) {
                own_clock_pass(NSEC_PER_MSEC / 10);
                while (dues_turn(&m->dues, now_ns()) > 0)
                        arbiter_flush(m);
        }
}

/* Passes time until the queue may launch. It has to be soon. */
static void pass_until_runs(const Queue *q) {
        for (unsigned ms = 0; held(q); ms++) {
                assert_true(ms < 15);
                pass(q->manager, NSEC_PER_MSEC);
        }
}

static uint32_t threshold(const Queue *q) {
        return atomic_load(&q->page_slot->threshold);
}

/* The other one wants the device, and the gang is held. */
static Case case_make_with(int priority, const char *device, const QueueParameters *second) {
        Case c = {.m = manager_make()};

        c.gang = join(c.m, "/gang", 0);
        c.other = join(c.m, "/other", priority);
        assert_int_equal(settings_set_gang(&c.gang.client->group->override, true), 0);
        group_settings_changed(c.gang.client->group);
        c.q[0] = queue(&c.gang, DEVICES[0], 0);
        c.q[1] = queue_with(&c.gang, second);
        if (second->level > LEVEL_GATE) { /* a stop is quicker than what it launches */
                set_costs(c.q[1], 10 * NSEC_PER_USEC, 10 * NSEC_PER_USEC);
                atomic_store(&c.q[1]->page_slot->mean_ns, 100 * NSEC_PER_MSEC);
        }
        c.o = queue(&c.other, device, 0);
        configure_all(c.m, "Threshold", 16);
        for (unsigned i = 0; i < RANKS; i++)
                begin(c.q[i]);
        begin(c.o);
        if (held(c.o))
                drain(c.o); /* its launch waits at the gate */
        for (unsigned i = 0; !held(c.q[0]); i++) {
                assert_true(i < 1000);
                device_touch(c.o->device);
                pass(c.m, NSEC_PER_MSEC);
        }
        assert_true(held(c.q[1]));
        return c;
}

static Case case_make(int priority, const char *device) {
        const QueueParameters second = {.device = DEVICES[1], .backend = "test"};

        return case_make_with(priority, device, &second);
}

static void case_done(Case *c) {
        check(c->m);
        leave(&c->gang);
        leave(&c->other);
        manager_free(c->m);
}

/* What is in flight on one device waits for a launch on the other, be it the lead's or not. */
static void test_drains_together(void **state) {
        for (unsigned stuck = 0; stuck < RANKS; stuck++) {
                Case c = case_make(0, "d1");
                Queue *q = c.q[1 - stuck];

                drain(q); /* its next launch waits at the gate */
                assert_true(held(q));
                assert_true(held(c.o));
                pass_until_runs(q);
                assert_int_equal(threshold(q), 1);
                assert_int_equal(atomic_load(&q->page_slot->budget_us), 0);
                assert_true(held(c.q[stuck]));
                assert_true(held(c.o)); /* the gang has not drained */

                /* Both end what they have in flight. Only then has the other one its turn. */
                drain(c.q[stuck]);
                assert_true(held(q));
                assert_true(held(c.o));
                drain(q);
                assert_true(held(q));
                assert_true(held(c.q[stuck]));
                assert_false(held(c.o));
                case_done(&c);
        }
}

/* A launch that never ends keeps others waiting for no longer than without a gang. */
static void test_never_ends(void **state) {
        for (unsigned stuck = 0; stuck < RANKS; stuck++) {
                Case c = case_make(0, "d1");

                drain(c.q[1 - stuck]);
                pass_until_runs(c.q[1 - stuck]);
                pass(c.m, POLICY_TAIL_WAIT);
                assert_true(held(c.q[0]));
                assert_true(held(c.q[1]));
                assert_false(held(c.o));
                case_done(&c);
        }
}

/* Beside who has a higher priority no member launches. On the other device it does. */
static void test_outranked(void **state) {
        for (unsigned stuck = 0; stuck < RANKS; stuck++) {
                Case c = case_make(10, "d1");

                assert_false(held(c.o));
                drain(c.q[1 - stuck]);
                if (stuck == 0)
                        pass_until_runs(c.q[1]);
                else
                        pass(c.m, POLICY_TAIL_WAIT / 2);
                assert_false(held(c.o));
                assert_true(held(c.q[0]));
                assert_int_equal(held(c.q[1]), stuck == 1);

                /* The time is over, also for who joins later. */
                pass(c.m, POLICY_TAIL_WAIT);
                assert_true(held(c.q[1]));
                Queue *late = queue(&c.gang, "d3", 0);
                pass(c.m, POLICY_TAIL_WAIT / 2);
                assert_true(held(late));
                case_done(&c);
        }
}

/* Nobody waits for launches that the driver has taken off the device. */
static void test_taken_off(void **state) {
        const QueueParameters second = {.device = DEVICES[1], .backend = "kfd", .level = LEVEL_DEQUEUE};
        Case c = case_make_with(0, "d1", &second);

        assert_true(held(c.o));
        assert_int_equal(c.q[1]->entity->choice.level, LEVEL_DEQUEUE);
        drain(c.q[0]);
        assert_false(held(c.o));
        case_done(&c);
}

/* A lower level of a global policy never runs beside a higher one, be it on another device. Where Preemption= is off,
 * nothing is held, and nothing limited. */
static void test_settings(void **state) {
        Case c = case_make(10, "d1");
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        s.ops = policy_find("hhpf");
        for (unsigned i = 0; i < RANKS; i++)
                assert_int_equal(device_configure(c.q[i]->device, &s), 0);
        arbiter_flush(c.m);
        drain(c.q[1]);
        pass(c.m, POLICY_TAIL_WAIT / 2);
        assert_true(held(c.q[1]));
        case_done(&c);

        c = case_make(0, "d1");
        s = DEVICE_SETTINGS_NULL;
        assert_int_equal(device_settings_set_preemption(&s, "off"), 0);
        assert_int_equal(device_configure(c.q[1]->device, &s), 0);
        arbiter_flush(c.m);
        pass(c.m, POLICY_TAIL_WAIT / 2);
        assert_false(held(c.q[1]));
        assert_int_equal(threshold(c.q[1]), 0);
        case_done(&c);
}

/* The group is a gang no longer, or a process of it goes, while another has the device for its launches in flight. */
static void test_ends(void **state) {
        for (unsigned how = 0; how < 2; how++) {
                Case c = case_make(0, "d1");

                drain(c.q[0]);
                pass_until_runs(c.q[0]);
                assert_true(held(c.o));
                if (how == 0) {
                        assert_int_equal(settings_set_gang(&c.gang.client->group->override, false), 0);
                        group_settings_changed(c.gang.client->group);
                        arbiter_flush(c.m);
                        assert_false(held(c.q[1]));
                } else {
                        release(c.q[1]);
                        arbiter_flush(c.m);
                }
                pass(c.m, NSEC_PER_MSEC);
                assert_true(held(c.q[0]));
                drain(c.q[0]);
                assert_false(held(c.o));
                case_done(&c);
        }
}

/* --- at random --- */

#define PROCESSES 4U
#define PLACES    (PROCESSES * RANKS)

typedef struct Crowd {
        Manager *m;
        Process p[PROCESSES];
        bool is_there[PROCESSES];
        Queue *q[PLACES];
        uint64_t untold_since[PLACES], drains_since[PLACES];
        unsigned n_drains;
        uint64_t random;
} Crowd;

static unsigned draw(Crowd *c, unsigned n) {
        c->random = c->random * 6364136223846793005U + 1442695040888963407U;
        return (unsigned) (c->random >> 33) % n;
}

static void crowd_join(Crowd *c, unsigned i) {
        char name[16];

        (void) snprintf(name, sizeof(name), "/group%u", i);
        c->p[i] = join(c->m, name, draw(c, 4) == 0 ? 10 : 0);
        assert_int_equal(settings_set_gang(&c->p[i].client->group->override, i < 3), 0);
        group_settings_changed(c->p[i].client->group);
        for (unsigned d = 0; d < RANKS; d++)
                c->q[i * RANKS + d] = queue(&c->p[i], DEVICES[d], 0);
        c->is_there[i] = true;
}

static void crowd_leave(Crowd *c, unsigned i) {
        leave(&c->p[i]);
        c->is_there[i] = false;
        for (unsigned d = 0; d < RANKS; d++)
                c->q[i * RANKS + d] = NULL;
}

/* What a program does with a queue: it launches if it may, its launches end, or its thread waits at the gate. */
static void crowd_launch(Crowd *c, Queue *q) {
        uint32_t outstanding = atomic_load(&q->page_slot->outstanding);

        if (outstanding == 0)
                begin(q);
        else if (held(q) && draw(c, 2) == 0)
                drain(q);
        else if (!held(q) && draw(c, 2) == 0)
                finish(q);
}

static void crowd_act(Crowd *c) {
        unsigned k = draw(c, PLACES), i = k / RANKS;

        switch (draw(c, 40)) {
        case 0:
                if (c->is_there[i])
                        crowd_leave(c, i);
                else
                        crowd_join(c, i);
                break;
        case 1:
                if (!c->is_there[i])
                        break;
                assert_int_equal(settings_set_gang(&c->p[i].client->group->override, draw(c, 3) > 0), 0);
                group_settings_changed(c->p[i].client->group);
                arbiter_flush(c->m);
                break;
        case 2 ... 12:
                pass(c->m, draw(c, 8) == 0 ? draw(c, 20) * NSEC_PER_MSEC : draw(c, 2000) * NSEC_PER_USEC);
                break;
        default:
                if (c->q[k])
                        crowd_launch(c, c->q[k]);
        }
}

/* No entity's tail has ended for long without its policy's being told, and none drains for long. */
static void crowd_check(Crowd *c) {
        check(c->m);
        for (unsigned k = 0; k < PLACES; k++) {
                const Entity *e = c->q[k] ? c->q[k]->entity : NULL;
                bool untold = e && e->tail_awaited && e->n_tails == 0, drains = e && e->gang == GANG_DRAIN;
                uint64_t now = now_ns();

                c->n_drains += drains && c->drains_since[k] == 0;
                c->untold_since[k] = !untold ? 0 : c->untold_since[k] ? c->untold_since[k] : now;
                c->drains_since[k] = !drains ? 0 : c->drains_since[k] ? c->drains_since[k] : now;
                if (untold)
                        assert_true(now - c->untold_since[k] < POLICY_TAIL_WAIT + 5 * NSEC_PER_MSEC);
                if (drains)
                        assert_true(now - c->drains_since[k] < POLICY_TAIL_WAIT + 5 * NSEC_PER_MSEC);
        }
}

/* Once all others are idle, each may launch. */
static void crowd_end(Crowd *c) {
        for (unsigned i = 0; i < PROCESSES; i++)
                if (c->is_there[i])
                        crowd_leave(c, i);
        pass(c->m, 2 * POLICY_TAIL_MAX);
        for (unsigned i = 0; i < PROCESSES; i++) {
                crowd_join(c, i);
                for (unsigned d = 0; d < RANKS; d++) {
                        begin(c->q[i * RANKS + d]);
                        assert_false(held(c->q[i * RANKS + d]));
                }
                crowd_leave(c, i);
        }
        manager_free(c->m);
}

static void test_random(void **state) {
        unsigned n_drains = 0;

        for (unsigned seed = 1; seed <= 30; seed++) {
                Crowd c = {.m = manager_make(), .random = seed};

                for (unsigned n = 0; n < 2000; n++) {
                        crowd_act(&c);
                        crowd_check(&c);
                }
                crowd_end(&c);
                n_drains += c.n_drains;
        }
        assert_true(n_drains > 100);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_drains_together),
                        cmocka_unit_test(test_never_ends),
                        cmocka_unit_test(test_outranked),
                        cmocka_unit_test(test_taken_off),
                        cmocka_unit_test(test_settings),
                        cmocka_unit_test(test_ends),
                        cmocka_unit_test(test_two_gangs),
                        cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
