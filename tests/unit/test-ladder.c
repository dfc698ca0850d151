/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The ladder in the service: levels in slots, orders to drivers, costs learned from them
 */

#include <stdio.h>
#include <sys/socket.h>

#include "service/core/ladder.h"
#include "tests/unit/arbiter-harness.h"

static QueueParameters kfd_parameters(const char *name, uint32_t level_) {
        return (QueueParameters){.device = "d",
                        .device_name = name,
                        .backend = "kfd",
                        .level = level_,
                        .mes = ladder_name_has_mes("kfd", name)};
}

static Queue *kfd_queue(Process *p, const char *name, uint32_t level_) {
        const QueueParameters parameters = kfd_parameters(name, level_);

        return queue_with(p, &parameters);
}

/* A high and a low tenant, whose drivers have the levels up to this. */
static Two kfd_make(const char *name, uint32_t level_) {
        const QueueParameters parameters = kfd_parameters(name, level_);

        return two_make(0, &parameters, &parameters);
}

static uint32_t level(const Queue *q) {
        return atomic_load(&q->page_slot->level);
}

/* Number of datagrams sent to the client since the last call. */
static unsigned told(const Process *p) {
        unsigned n = 0;
        char c;

        while (recv(p->fds.lifeline, &c, 1, MSG_DONTWAIT) == 1) {
                assert_int_equal(c, 'l');
                n++;
        }
        return n;
}

/* Gives the queue n launches in flight of `mean_ns` each. */
static void keep_busy(Queue *q, unsigned n, uint32_t mean_ns) {
        atomic_store(&q->page_slot->mean_ns, mean_ns);
        for (unsigned i = 0; i < n; i++)
                begin(q);
}

/* Plays the control thread, which applies the verdict. */
static void obey(Queue *q, uint32_t wake_ns, uint32_t call_ns) {
        uint32_t word = atomic_load(&q->page_slot->verdict);
        bool hold = word & PAGE_VERDICT_HOLD;

        atomic_store(hold ? &q->page_slot->hold_wake_ns : &q->page_slot->release_wake_ns, wake_ns);
        atomic_store(hold ? &q->page_slot->hold_call_ns : &q->page_slot->release_call_ns, call_ns);
        atomic_store(&q->page_slot->applied, word);
}

static void set_low_costs(Two *t, uint64_t hold_ns, uint64_t release_ns) {
        set_costs(t->l, hold_ns, release_ns);
        assert_int_equal(t->d->costs.hold_ns, hold_ns);
        assert_int_equal(t->d->costs.release_ns, release_ns);
}

static void turn(Two *t) {
        device_touch(t->d);
        arbiter_flush(t->m);
}

/* Makes the high tenant idle, until the device is no longer kept for it. */
static void let_go(Two *t) {
        finish(t->h);
        while (held(t->l))
                turn(t);
}

/* A queue that would drain sooner drains, or is taken off if the administrator says so, under any policy. */
static void test_adaptive(void **state) {
        static const char *const policies[] = {"tree", "hpf", "hhpf", "lax"};

        for (size_t i = 0; i < ELEMENTSOF(policies); i++)
                for (unsigned adaptive = 0; adaptive < 2; adaptive++) {
                        DeviceSettings s = DEVICE_SETTINGS_NULL;
                        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);

                        s.ops = policy_find(policies[i]);
                        assert_int_equal(device_configure(t.d, &s), 0);
                        assert_true(t.d->tuning.adaptive);
                        t.d->tuning.adaptive = adaptive;
                        set_low_costs(&t, NSEC_PER_SEC, NSEC_PER_SEC);
                        keep_busy(t.l, 2, 1000);
                        begin(t.h);
                        assert_true(held(t.l));
                        assert_int_equal(level(t.l), adaptive ? LEVEL_GATE : LEVEL_INTERRUPT);
                        two_done(&t);
                }
}

static void test_level_by_cost(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);

        /* A driver with unknown costs is tried. */
        keep_busy(t.l, 16, NSEC_PER_MSEC);
        (void) told(&t.low);
        uint64_t before = now_ns();
        begin(t.h);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);
        assert_int_equal(told(&t.low), 1);
        assert_in_range(atomic_load(&t.l->page_slot->ordered_ns), before, now_ns());

        /* A release is an order, too, and its cost is learned. */
        obey(t.l, 1000, 2000);
        while (now_ns() - before < 3000)
                ;
        let_go(&t);
        assert_false(held(t.l));
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);
        assert_int_equal(told(&t.low), 1);
        assert_int_equal(t.d->costs.hold_ns, 3000);
        assert_int_equal(t.d->costs.release_ns, 0);

        /* A queue that drains sooner than that is held at the gate alone, without an order to its driver. */
        set_low_costs(&t, 50 * NSEC_PER_MSEC, 50 * NSEC_PER_MSEC);
        obey(t.l, 1000, 1000);
        begin(t.h);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_GATE);
        assert_int_equal(told(&t.low), 0);
        assert_true(t.l->entity->review_at < NSEC_INFINITY);
        two_done(&t);
}

/* A queue that does not drain in time after all is taken off by the timer, without an event. */
static void test_review(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_DEQUEUE);

        set_low_costs(&t, 10 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC);
        keep_busy(t.l, 1, 1000);
        begin(t.h);
        assert_int_equal(level(t.l), LEVEL_GATE);
        uint64_t due = t.l->entity->review_at;
        assert_in_range(due, now_ns(), now_ns() + 20 * NSEC_PER_MSEC);
        assert_true(t.d->review_at <= due && t.d->due.at <= due);
        (void) told(&t.low);
        while (now_ns() < due)
                ;
        turn(&t);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_DEQUEUE);
        assert_int_equal(told(&t.low), 1);
        assert_int_equal(t.l->entity->review_at, NSEC_INFINITY);

        /* A drained queue is not taken off; a launch at the gate is not in flight. */
        let_go(&t);
        finish(t.l);
        begin(t.h);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_GATE);
        begin(t.l);
        atomic_store(&t.l->page_slot->waiters, 1);
        while (now_ns() < t.l->entity->review_at && t.l->entity->review_at != NSEC_INFINITY)
                ;
        turn(&t);
        assert_int_equal(level(t.l), LEVEL_GATE);
        assert_int_equal(t.l->entity->review_at, NSEC_INFINITY);
        atomic_store(&t.l->page_slot->waiters, 0);
        two_done(&t);
}

/* A queue whose launches do not pass the gate gets ready while it is held. */
static void test_ready_while_held(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);

        begin(t.h);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_GATE);
        keep_busy(t.l, 4, NSEC_PER_MSEC);
        assert_int_equal(level(t.l), LEVEL_GATE);
        assert_true(t.l->entity->review_at < NSEC_INFINITY);
        while (now_ns() < t.l->entity->review_at)
                ;
        turn(&t);
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);
        two_done(&t);
}

/* Of a queue that only the gate can hold nothing is looked at again, until one joins that has a driver. */
static void test_ready_at_the_gate(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_GATE);

        begin(t.h);
        assert_true(held(t.l));
        keep_busy(t.l, 4, NSEC_PER_MSEC);
        assert_true(t.l->entity->told_ready && held(t.l));
        assert_int_equal(t.l->entity->review_at, NSEC_INFINITY);
        assert_int_equal(t.d->review_at, NSEC_INFINITY);
        assert_true(t.d->due.at > now_ns() + LADDER_REVIEW_MIN_NS);

        const Queue *q = kfd_queue(&t.low, "gfx90a", LEVEL_INTERRUPT);
        assert_ptr_equal(q->entity, t.l->entity);
        assert_true(held(q) && q->flies); /* a driver may be able to stop only the whole process */
        assert_int_equal(level(q), LEVEL_INTERRUPT);
        assert_int_equal(level(t.l), LEVEL_GATE);
        two_done(&t);
}

static void test_settings(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);
        DeviceSettings s = DEVICE_SETTINGS_NULL;
        Group *g = t.low.client->group;

        keep_busy(t.l, 16, NSEC_PER_MSEC);
        begin(t.h);
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);

        /* The level of a held queue is lowered, set to none, and restored. */
        (void) told(&t.low);
        assert_int_equal(settings_set_preemption(&g->override, "1"), 0);
        group_settings_changed(g);
        arbiter_flush(t.m);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_GATE);
        assert_int_equal(told(&t.low), 1);

        assert_int_equal(settings_set_preemption(&g->override, "off"), 0);
        group_settings_changed(g);
        arbiter_flush(t.m);
        assert_false(held(t.l));
        assert_int_equal(atomic_load(&t.l->page_slot->threshold), 0);

        /* A suspended client's queue is taken off all the same: that is not preemption. */
        client_set_suspended(t.low.client, true);
        arbiter_flush(t.m);
        assert_true(held(t.l));
        client_set_suspended(t.low.client, false);
        arbiter_flush(t.m);
        assert_false(held(t.l));

        assert_int_equal(settings_set_preemption(&g->override, "3"), 0);
        group_settings_changed(g);
        arbiter_flush(t.m);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);

        assert_int_equal(device_settings_set_preemption(&s, "2"), 0);
        assert_int_equal(device_configure(t.d, &s), 0);
        arbiter_flush(t.m);
        assert_int_equal(level(t.l), LEVEL_DEQUEUE);
        assert_int_equal(device_settings_set_preemption(&s, "off"), 0);
        assert_int_equal(device_configure(t.d, &s), 0);
        arbiter_flush(t.m);
        assert_false(held(t.l));
        two_done(&t);
}

static uint32_t threshold(const Queue *q) {
        return atomic_load(&q->page_slot->threshold);
}

/* A queue that can be taken off the device may have more in flight, as long as no threshold is set. */
static void test_threshold_by_level(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);
        DeviceSettings s = DEVICE_SETTINGS_NULL;
        Group *g = t.low.client->group;
        Queue *gated = kfd_queue(&t.low, "gfx90a", LEVEL_GATE);

        keep_busy(t.l, 1, NSEC_PER_MSEC);
        begin(t.h);
        assert_int_equal(threshold(t.h), 0);
        assert_int_equal(threshold(t.l), DEVICE_THRESHOLD_STOPPABLE);
        assert_int_equal(threshold(gated), 1);
        assert_int_equal(t.d->config.threshold, 1);
        let_go(&t);
        assert_int_equal(threshold(t.l), DEVICE_THRESHOLD_STOPPABLE);

        /* If it may not be taken off, it has the same bound as others. */
        assert_int_equal(settings_set_preemption(&g->override, "1"), 0);
        group_settings_changed(g);
        arbiter_flush(t.m);
        assert_int_equal(threshold(t.l), 1);
        assert_int_equal(settings_set_preemption(&g->override, "2"), 0);
        group_settings_changed(g);
        arbiter_flush(t.m);
        assert_int_equal(threshold(t.l), DEVICE_THRESHOLD_STOPPABLE);

        /* A set threshold counts: for the group, */
        assert_int_equal(settings_set_threshold(&g->override, 3), 0);
        group_settings_changed(g);
        arbiter_flush(t.m);
        assert_int_equal(threshold(t.l), 3);
        assert_int_equal(threshold(gated), 3);
        assert_int_equal(settings_set_threshold(&g->override, 0), 0);
        group_settings_changed(g);
        arbiter_flush(t.m);
        assert_int_equal(threshold(t.l), DEVICE_THRESHOLD_STOPPABLE);

        /* and for the device: the same number that it had before. */
        assert_int_equal(device_settings_set(&s, device_key_find("Threshold"), 1), 0);
        assert_int_equal(device_configure(t.d, &s), 0);
        arbiter_flush(t.m);
        assert_int_equal(threshold(t.l), 1);
        assert_int_equal(threshold(gated), 1);
        two_done(&t);
}

static void test_mes(void **state) {
        Two t = kfd_make("gfx1100", LEVEL_GATE);

        keep_busy(t.l, 16, NSEC_PER_MSEC);
        (void) told(&t.low);
        begin(t.h);
        assert_true(held(t.l));
        assert_int_equal(level(t.l), LEVEL_GATE);
        assert_int_equal(told(&t.low), 0);
        let_go(&t);

        t.d->tuning.allow_mes = true;
        begin(t.h);
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);
        assert_int_equal(told(&t.low), 1);
        two_done(&t);

        assert_false(ladder_name_has_mes("kfd", "gfx90a"));
        assert_false(ladder_name_has_mes("kfd", "gfx942"));
        assert_false(ladder_name_has_mes("kfd", "gfx1030"));
        assert_true(ladder_name_has_mes("kfd", "gfx1100"));
        assert_true(ladder_name_has_mes("kfd", "gfx1201"));
        assert_true(ladder_name_has_mes("kfd", "gfx115a"));
        assert_true(ladder_name_has_mes("kfd", "Radeon"));
        assert_true(ladder_name_has_mes("kfd", "gfx99999999999"));
        assert_true(ladder_name_has_mes("kfd", NULL));
        assert_false(ladder_name_has_mes("opencl", "gfx1100"));
}

/* Changes of many queues of a client at once make one datagram. */
static void test_one_datagram(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);
        Queue *more[8];

        for (size_t i = 0; i < ELEMENTSOF(more); i++)
                more[i] = kfd_queue(&t.low, "gfx90a", i % 2 ? LEVEL_DEQUEUE : LEVEL_GATE);
        keep_busy(t.l, 16, NSEC_PER_MSEC);
        (void) told(&t.low);
        begin(t.h);
        assert_int_equal(told(&t.low), 1);
        for (size_t i = 0; i < ELEMENTSOF(more); i++)
                assert_int_equal(level(more[i]), i % 2 ? LEVEL_DEQUEUE : LEVEL_GATE);

        /* A queue that comes while its client is held. */
        Queue *late = kfd_queue(&t.low, "gfx90a", LEVEL_INTERRUPT);
        assert_true(held(late));
        assert_int_equal(level(late), LEVEL_INTERRUPT);
        assert_int_equal(told(&t.low), 1);
        let_go(&t);
        assert_int_equal(told(&t.low), 1);

        /* A client that ends in between is sent nothing more. */
        begin(t.h);
        ladder_after_order(late);
        assert_ptr_equal(t.m->to_be_told, t.low.client);
        two_done(&t);
}

/* A client that reports false figures. */
static void test_lies(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);

        keep_busy(t.l, 16, NSEC_PER_MSEC);
        set_low_costs(&t, 100 * NSEC_PER_USEC, 100 * NSEC_PER_USEC);
        for (unsigned i = 0; i < 3; i++) {
                Costs costs = t.d->costs;
                begin(t.h);
                obey(t.l, UINT32_MAX, UINT32_MAX);
                let_go(&t);
                assert_true(t.d->costs.hold_ns <= costs.hold_ns + costs.hold_ns * COSTS_SPREAD / 8);
        }

        /* Nothing is learned from an order that the client reports as not carried out. */
        obey(t.l, 0, 0);
        begin(t.h);
        Costs costs = t.d->costs;
        atomic_store(&t.l->page_slot->applied, 0xffffffff);
        let_go(&t);
        assert_memory_equal(&costs, &t.d->costs, sizeof(costs));

        /* No false figure is used as an index or a length. */
        atomic_store(&t.l->page_slot->outstanding, PAGE_OUTSTANDING_UNTRACKED - 1);
        atomic_store(&t.l->page_slot->mean_ns, UINT32_MAX);
        assert_int_equal(ladder_queue_drain(t.l), COSTS_DRAIN_MAX_NS);
        atomic_store(&t.l->page_slot->waiters, UINT32_MAX);
        assert_int_equal(ladder_queue_drain(t.l), 0);
        atomic_store(&t.l->page_slot->outstanding, PAGE_OUTSTANDING_UNTRACKED);
        assert_int_equal(ladder_queue_drain(t.l), PREEMPTION_UNKNOWN);
        atomic_store(&t.l->page_slot->outstanding, 16);
        atomic_store(&t.l->page_slot->waiters, 0);
        two_done(&t);
}

static void forget_release(Queue *q) {
        q->ordered_ns = 0;
}

static void fly(const Queue *q, uint64_t ns, uint64_t since_ns) {
        atomic_store(&q->page_slot->flying_ns, ns);
        atomic_store(&q->page_slot->flying_since_ns, since_ns);
}

/* Short launches and long ones: by the mean little time is left, but a long launch runs. */
static void test_what_flies(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);

        keep_busy(t.l, 1, 300 * NSEC_PER_USEC);
        set_low_costs(&t, NSEC_PER_MSEC, NSEC_PER_MSEC);
        begin(t.h);
        assert_int_equal(level(t.l), LEVEL_GATE);
        let_go(&t);

        fly(t.l, NSEC_PER_SEC, now_ns());
        begin(t.h);
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);
        obey(t.l, 1, 1);
        let_go(&t);

        /* The launch has had the device for its whole length, and is about to end. */
        uint64_t then = now_ns() - 2 * NSEC_PER_SEC;
        fly(t.l, NSEC_PER_SEC, then);
        forget_release(t.l);
        assert_int_equal(ladder_queue_drain(t.l), 1);

        /* Time off the device does not count. */
        t.l->ordered_ns = now_ns();
        assert_true(ladder_queue_drain(t.l) > NSEC_PER_MSEC);
        forget_release(t.l);

        /* The client's numbers count within bounds only, and not at all where nothing is in flight. */
        fly(t.l, UINT64_MAX, 0);
        assert_true(ladder_queue_drain(t.l) <= COSTS_DRAIN_MAX_NS);
        fly(t.l, UINT64_MAX, UINT64_MAX);
        assert_int_equal(ladder_queue_drain(t.l), COSTS_DRAIN_MAX_NS);
        fly(t.l, 1, UINT64_MAX);
        assert_int_equal(ladder_queue_drain(t.l), 1);
        finish(t.l);
        assert_int_equal(ladder_queue_drain(t.l), 0);
        two_done(&t);
}

#define LIARS 20U

/* Reports of each order that it took for ever, after as much time has passed since the order, as far as the service's
 * looks can tell. */
static void obey_with_lies(Queue *const queues[]) {
        for (unsigned i = 0; i < LIARS; i++) {
                obey(queues[i], UINT32_MAX, UINT32_MAX);
                if (queues[i]->ordered_ns > 0)
                        queues[i]->ordered_ns -= NSEC_PER_SEC;
        }
}

/* A user's false figures, however many queues report them, do not keep other users' kernels on the device. */
static void test_liar(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);
        Process liar = join(t.m, "/user.slice/user-1000.slice/a.service", 0);
        Queue *queues[LIARS];

        for (unsigned i = 0; i < LIARS; i++) {
                queues[i] = kfd_queue(&liar, "gfx90a", LEVEL_INTERRUPT);
                keep_busy(queues[i], 1, NSEC_PER_MSEC);
        }
        for (unsigned i = 0; i < 8; i++) { /* before a queue of another user has been held */
                begin(t.h);
                assert_true(held(queues[0]));
                obey_with_lies(queues);
                finish(t.h);
                while (held(queues[0]))
                        turn(&t);
                obey_with_lies(queues);
        }
        assert_in_range(t.d->costs.hold_ns, COSTS_MIN_NS, LADDER_IGNORED_NS);

        keep_busy(t.l, 1, 100 * NSEC_PER_MSEC);
        for (unsigned i = 0; i < 12; i++) {
                while (held(t.l)) /* the liar has its turn as an equal */
                        turn(&t);
                obey(t.l, 20000, 20000);
                obey_with_lies(queues);
                begin(t.h);
                assert_true(held(t.l));
                assert_int_equal(level(t.l), LEVEL_INTERRUPT);
                obey(t.l, 20000, 20000);
                obey_with_lies(queues);
                finish(t.h);
        }
        finish(t.l);
        assert_in_range(t.d->costs.hold_ns, COSTS_MIN_NS, 40000);
        assert_in_range(t.d->costs.release_ns, COSTS_MIN_NS, 40000);
        assert_int_equal(t.d->votes.n, 2);

        const Costs honest = t.l->vote->costs;
        for (unsigned i = 0; i < LIARS; i++)
                finish(queues[i]);
        leave(&liar);
        assert_int_equal(t.d->votes.n, 1);
        assert_memory_equal(&t.d->costs, &honest, sizeof(honest));
        two_done(&t);
}

/* The first look after a stop bounds the time that it took, not the next order. A queue that does not obey does not
 * change that. */
static void test_looks(void **state) {
        Two t = kfd_make("gfx90a", LEVEL_INTERRUPT);
        Queue *queues[LIARS];

        for (unsigned i = 0; i < LIARS; i++) {
                queues[i] = kfd_queue(&t.low, "gfx90a", LEVEL_INTERRUPT);
                keep_busy(queues[i], 1, NSEC_PER_MSEC);
        }
        keep_busy(t.l, 1, 100 * NSEC_PER_MSEC);
        begin(t.h);
        assert_int_equal(level(t.l), LEVEL_INTERRUPT);
        obey(t.l, UINT32_MAX, UINT32_MAX);
        for (unsigned i = 0; i <= LIARS / LADDER_LOOKS + 1; i++)
                arbiter_flush(t.m);
        assert_in_range(t.l->obeyed_ns, t.l->ordered_ns, now_ns());
        assert_int_equal(queues[0]->obeyed_ns, 0);
        uint64_t seen = t.l->obeyed_ns - t.l->ordered_ns;
        finish(t.h);
        while (held(t.l))
                turn(&t);
        assert_int_equal(t.d->costs.hold_ns, MAX(seen, (uint64_t) COSTS_MIN_NS));
        for (unsigned i = 0; i < LIARS; i++)
                finish(queues[i]);
        two_done(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_level_by_cost),
                        cmocka_unit_test(test_adaptive),
                        cmocka_unit_test(test_review),
                        cmocka_unit_test(test_ready_while_held),
                        cmocka_unit_test(test_ready_at_the_gate),
                        cmocka_unit_test(test_settings),
                        cmocka_unit_test(test_threshold_by_level),
                        cmocka_unit_test(test_mes),
                        cmocka_unit_test(test_one_datagram),
                        cmocka_unit_test(test_lies),
                        cmocka_unit_test(test_what_flies),
                        cmocka_unit_test(test_liar),
                        cmocka_unit_test(test_looks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
