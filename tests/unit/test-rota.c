/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The rota: which members of a group are stopped, and which one has the turn
 */

#include <sys/socket.h>

#include "service/core/hooked.h"
#include "service/core/ladder.h"
#include "service/core/resolve.h"
#include "service/core/rota.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

#define BATCH  3U
#define FLYING 16U

typedef struct Batch {
        Manager *m;
        Process high, p[BATCH];
        Queue *h, *q[BATCH];
        Device *d;
} Batch;

static Queue *queue_on(Process *p, const char *device) {
        const QueueParameters parameters = {
                        .device = device, .backend = "cuda", .level = LEVEL_INTERRUPT, .hooked = "calls"};

        return queue_with(p, &parameters);
}

/* A queue whose slot says that its client can take it off the device. */
static Queue *hooked_queue(Process *p, const char *device) {
        Queue *q = queue_on(p, device);

        atomic_store(&q->page_slot->hooked, HOOKED_CALLS);
        (void) queue_look_hooked(q);
        assert_int_equal(q->hooked, HOOKED_CALLS);
        return q;
}

static Batch batch_make(void) {
        Batch b = {.m = manager_make()};

        b.high = join(b.m, "/high", 10);
        b.h = hooked_queue(&b.high, "d");
        for (unsigned i = 0; i < BATCH; i++) {
                b.p[i] = join(b.m, "/batch", 0);
                b.q[i] = hooked_queue(&b.p[i], "d");
        }
        b.d = device_find(b.m, "d");
        return b;
}

static void batch_done(Batch *b) {
        check(b->m);
        leave(&b->high);
        for (unsigned i = 0; i < BATCH; i++)
                if (b->p[i].client)
                        leave(&b->p[i]);
        manager_free(b->m);
}

static void launch(Queue *q) {
        atomic_store(&q->page_slot->mean_ns, NSEC_PER_MSEC);
        for (unsigned i = 0; i < FLYING; i++)
                begin(q);
}

static uint32_t level(const Queue *q) {
        return atomic_load(&q->page_slot->level);
}

static unsigned told(const Process *p) {
        unsigned n = 0;
        char c;

        while (recv(p->fds.lifeline, &c, 1, MSG_DONTWAIT) == 1)
                n++;
        return n;
}

static unsigned all_told(const Batch *b) {
        unsigned n = 0;

        for (unsigned i = 0; i < BATCH; i++)
                n += told(&b->p[i]);
        return n;
}

/* Plays the control threads, which apply the verdicts. */
static void obey(const Batch *b) {
        for (unsigned i = 0; i < BATCH; i++) {
                PageSlot *s = b->q[i]->page_slot;

                atomic_store(&s->hold_call_ns, 1000);
                atomic_store(&s->release_call_ns, 1000);
                atomic_store(&s->applied, atomic_load(&s->verdict));
        }
}

static void turn(const Batch *b) {
        device_touch(b->d);
        arbiter_flush(b->m);
}

static unsigned n_running(const Batch *b) {
        unsigned n = 0;

        for (unsigned i = 0; i < BATCH; i++)
                n += b->q[i]->client && !held(b->q[i]);
        return n;
}

static Queue *runner(const Batch *b) {
        assert_int_equal(n_running(b), 1);
        for (unsigned i = 0; i < BATCH; i++)
                if (!held(b->q[i]))
                        return b->q[i];
        return NULL;
}

static unsigned index_of(const Batch *b, const Queue *q) {
        for (unsigned i = 0; i < BATCH; i++)
                if (b->q[i] == q)
                        return i;
        fail();
        return 0;
}

/* A client of higher priority takes the device, and the group obeys. */
static void come(const Batch *b) {
        begin(b->h);
        assert_int_equal(n_running(b), 0);
        obey(b);
}

static void go(const Batch *b) {
        finish(b->h);
        for (unsigned i = 0; i < 100000 && n_running(b) == 0; i++)
                turn(b);
        obey(b);
}

/* A group of members that are known to take long to drain. */
static Batch batch_with_rota(void) {
        Batch b = batch_make();

        for (unsigned i = 0; i < BATCH; i++)
                launch(b.q[i]);
        assert_int_equal(n_running(&b), BATCH);
        come(&b);
        go(&b);
        (void) all_told(&b);
        return b;
}

/* The queue's launches have ended, or wait at the gate. */
static void land(Queue *q) {
        atomic_store(&q->page_slot->waiters, atomic_load(&q->page_slot->outstanding));
        page_mark_dirty(q->client->page.header, q->slot);
        (void) arbiter_client_woke(q->client);
        arbiter_flush(q->manager);
}

static void take_off(Queue *q) {
        atomic_store(&q->page_slot->waiters, 0);
}

static void test_who_has_nothing_there_is_not_stopped(void **state) {
        Batch b = batch_make();

        launch(b.q[0]);
        (void) all_told(&b);
        begin(b.h);
        assert_int_equal(n_running(&b), 0);
        assert_int_equal(level(b.q[0]), LEVEL_INTERRUPT);
        assert_int_equal(told(&b.p[0]), 1);
        for (unsigned i = 1; i < BATCH; i++) {
                assert_int_equal(level(b.q[i]), LEVEL_GATE);
                assert_int_equal(told(&b.p[i]), 0);
        }

        /* A launch at the gate is not on the device either. */
        atomic_store(&b.q[1]->page_slot->waiters, 1);
        begin(b.q[1]);
        own_clock_pass(NSEC_PER_MSEC);
        turn(&b);
        assert_int_equal(level(b.q[1]), LEVEL_GATE);
        /* A launch past the gate is on the device: the process is stopped as well. */
        begin(b.q[2]);
        own_clock_pass(NSEC_PER_MSEC);
        turn(&b);
        assert_int_equal(level(b.q[2]), LEVEL_INTERRUPT);
        assert_int_equal(told(&b.p[2]), 1);
        assert_int_equal(told(&b.p[1]), 0);
        assert_int_equal(told(&b.p[0]), 0);

        obey(&b);
        go(&b);
        assert_int_equal(told(&b.p[1]), 0);
        batch_done(&b);
}

/* A process is stopped as a whole: its other queue follows. */
static void test_queues_of_a_process_stop_together(void **state) {
        Batch b = batch_make();
        Queue *other = hooked_queue(&b.p[0], "d");

        launch(b.q[0]);
        begin(b.h);
        assert_int_equal(level(b.q[0]), LEVEL_INTERRUPT);
        assert_int_equal(level(other), LEVEL_INTERRUPT);
        assert_int_equal(level(b.q[1]), LEVEL_GATE);
        finish(b.h);
        release(other);
        arbiter_flush(b.m);
        batch_done(&b);
}

static void test_one_is_let_go(void **state) {
        Batch b = batch_with_rota();
        const Queue *r = runner(&b);

        for (unsigned i = 0; i < BATCH; i++)
                if (b.q[i] != r)
                        assert_int_equal(level(b.q[i]), LEVEL_INTERRUPT);

        /* One stop, one release. */
        come(&b);
        assert_int_equal(all_told(&b), 1);
        go(&b);
        assert_int_equal(all_told(&b), 1);
        assert_ptr_equal(runner(&b), r);
        batch_done(&b);
}

/* A turn that ended meanwhile is skipped without delay. */
static void test_next_after_a_hold(void **state) {
        Batch b = batch_with_rota();
        bool seen[BATCH] = {};

        for (unsigned i = 0; i < BATCH; i++) {
                unsigned was = index_of(&b, runner(&b));
                assert_false(seen[was]);
                seen[was] = true;
                own_clock_pass(b.d->config.timeslice_ns - NSEC_PER_MSEC);
                come(&b);
                own_clock_pass(2 * NSEC_PER_MSEC);
                (void) all_told(&b);
                go(&b);
                assert_int_not_equal(index_of(&b, runner(&b)), was);
                assert_int_equal(level(b.q[was]), LEVEL_INTERRUPT);
                assert_int_equal(told(&b.p[was]), 0);
                assert_int_equal(all_told(&b), 1);
        }
        batch_done(&b);
}

/* Without a hold the turn ends at the gate, and the next one begins when the member has left the device. */
static void test_next_after_a_slice(void **state) {
        Batch b = batch_with_rota();
        Queue *r = runner(&b);

        own_clock_pass(b.d->config.timeslice_ns);
        assert_true(b.d->due.at <= now_ns());
        turn(&b);
        assert_int_equal(n_running(&b), 0);
        assert_int_equal(level(r), LEVEL_GATE);
        assert_int_equal(all_told(&b), 0);
        land(r);
        assert_ptr_not_equal(runner(&b), r);
        assert_int_equal(all_told(&b), 1); /* the stopped member goes on */
        obey(&b);

        /* A member that never reports its end delays the next one up to a bound. */
        take_off(r);
        r = runner(&b);
        own_clock_pass(b.d->config.timeslice_ns);
        turn(&b);
        assert_int_equal(n_running(&b), 0);
        own_clock_pass(POLICY_TAIL_WAIT);
        assert_true(b.d->due.at <= now_ns());
        turn(&b);
        assert_ptr_not_equal(runner(&b), r);
        batch_done(&b);
}

/* The next member does not wait for an idle one. */
static void test_next_when_idle(void **state) {
        Batch b = batch_with_rota();
        bool done[BATCH] = {};

        for (unsigned i = 0; i + 1 < BATCH; i++) {
                Queue *r = runner(&b);
                done[index_of(&b, r)] = true;
                for (unsigned k = 0; k < FLYING; k++)
                        finish(r);
                assert_ptr_not_equal(runner(&b), r);
                assert_false(done[index_of(&b, runner(&b))]);
                obey(&b);
        }
        /* The last member keeps its turn, however long. */
        Queue *r = runner(&b);
        own_clock_pass(10 * b.d->config.timeslice_ns);
        turn(&b);
        assert_ptr_equal(runner(&b), r);
        batch_done(&b);
}

static void test_next_when_gone(void **state) {
        Batch b = batch_with_rota();
        unsigned was = index_of(&b, runner(&b));

        leave(&b.p[was]);
        b.p[was] = b.p[BATCH - 1];
        b.q[was] = b.q[BATCH - 1];
        b.p[BATCH - 1].client = NULL;
        assert_int_equal(!held(b.q[0]) + !held(b.q[1]), 1);
        leave(&b.p[0]);
        b.p[0].client = NULL;
        assert_false(held(b.q[1])); /* alone */
        batch_done(&b);
}

/* No member was stopped for ROTA_MEMORY_NS: the rota ends. */
static void test_end(void **state) {
        Batch b = batch_with_rota();

        own_clock_pass(ROTA_MEMORY_NS);
        assert_true(b.d->due.at <= now_ns());
        turn(&b);
        assert_int_equal(n_running(&b), BATCH);
        assert_null(b.d->rotas);
        batch_done(&b);
}

/* Members on several devices might wait for each other, so there is no rota. */
static void test_not_for_several_devices(void **state) {
        Batch b = batch_with_rota();

        assert_int_equal(n_running(&b), 1);
        Queue *other = hooked_queue(&b.p[0], "e");
        turn(&b);
        assert_int_equal(n_running(&b), BATCH);
        release(other);
        turn(&b);
        assert_int_equal(n_running(&b), 1);
        batch_done(&b);
}

static void test_not_for_gangs(void **state) {
        Batch b = batch_with_rota();

        assert_int_equal(settings_set_gang(&b.p[0].client->group->override, true), 0);
        group_settings_changed(b.p[0].client->group);
        arbiter_flush(b.m);
        assert_int_equal(n_running(&b), BATCH);
        batch_done(&b);
}

/* Processes of different groups are the policy's matter. */
static void test_not_across_groups(void **state) {
        Batch b = batch_with_rota();
        Process p = join(b.m, "/other", 0);
        Queue *q = hooked_queue(&p, "d");

        launch(q);
        assert_false(q->sits_out);
        come(&b);
        assert_true(held(q));
        go(&b);
        assert_false(q->sits_out);
        leave(&p);
        batch_done(&b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_who_has_nothing_there_is_not_stopped),
                        cmocka_unit_test(test_queues_of_a_process_stop_together),
                        cmocka_unit_test(test_one_is_let_go),
                        cmocka_unit_test(test_next_after_a_hold),
                        cmocka_unit_test(test_next_after_a_slice),
                        cmocka_unit_test(test_next_when_idle),
                        cmocka_unit_test(test_next_when_gone),
                        cmocka_unit_test(test_end),
                        cmocka_unit_test(test_not_for_several_devices),
                        cmocka_unit_test(test_not_for_gangs),
                        cmocka_unit_test(test_not_across_groups),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
