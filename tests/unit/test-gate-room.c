/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate's wait for room: a queue whose launch waits for room is not idle
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "shim/core/gate.h"
#include "tests/lib/deadline.h"
#include "tests/lib/fake-service.h"
#include "tests/lib/unit.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)

typedef struct Fixture {
        FakeService *f;
        PageSlot *slot;
        Gate gate;
} Fixture;

static int setup(void **state) {
        Fixture *x = aligned_alloc(_Alignof(Fixture), sizeof(*x));

        assert_non_null(x);
        x->f = fake_service_new();
        x->slot = fake_slot(x->f, 0);
        gate_init(&x->gate, true);
        assert_int_equal(gate_attach(&x->gate, &x->f->client, 0, x->f->wake), 0);
        page_slot_set_watch(x->slot, WATCH_ALL);
        *state = x;
        return 0;
}

static int teardown(void **state) {
        Fixture *x = *state;

        gate_detach(&x->gate);
        fake_service_free(x->f);
        free(x);
        return 0;
}

typedef struct Launcher {
        Gate *gate;
        pthread_t thread;
        _Atomic bool room;
        _Atomic unsigned n_asked;
        unsigned completes_at; /* this look finds something complete */
        _Atomic int began;     /* -1 while it waits, -2 after a jump until it is told to go on */
} Launcher;

static void wait_for_room(void *p) {
        Launcher *l = p;

        if (atomic_fetch_add(&l->n_asked, 1) + 1 == l->completes_at)
                gate_complete(l->gate, 1, 0);
        while (!atomic_load(&l->room))
                sched_yield();
}

static void *launcher_main(void *p) {
        Launcher *l = p;

        atomic_store(&l->began, gate_begin_bounded(l->gate, GATE_WAIT, &(GateRoom){wait_for_room, l}));
        return NULL;
}

static void launch(Fixture *x, Launcher *l, void *(*main)(void *) ) {
        *l = (Launcher){.gate = &x->gate, .began = -1};
        assert_int_equal(pthread_create(&l->thread, NULL, main, l), 0);
        assert_true(poll_until(atomic_load(&l->n_asked) == 1));
}

static uint64_t submitted(const Fixture *x) {
        return atomic_load(&x->slot->submitted);
}

/* Launches one after the other: the queue is not idle from the first to the last. */
static void test_never_idle(void **state) {
        Fixture *x = *state;
        Launcher l;

        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_true(fake_take_edge(x->f, 0));
        for (uint64_t i = 1; i <= 100; i++) {
                launch(x, &l, launcher_main);
                assert_int_equal(fake_counted(x->f, 0), 2);
                assert_int_equal(atomic_load(&x->slot->waiters), 1); /* is not in flight */
                assert_int_equal(submitted(x), i);
                gate_complete(&x->gate, 1, 0);
                assert_int_equal(fake_counted(x->f, 0), 1);
                assert_false(fake_take_edge(x->f, 0));
                atomic_store(&l.room, true);
                assert_int_equal(pthread_join(l.thread, NULL), 0);
                assert_int_equal(atomic_load(&l.began), 1);
                assert_int_equal(atomic_load(&x->slot->waiters), 0);
        }
        assert_false(fake_take_edge(x->f, 0));
        gate_complete(&x->gate, 1, 0);
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(submitted(x), 101);
}

/* The verdict at the end of the wait counts. */
static void test_held_meanwhile(void **state) {
        Fixture *x = *state;
        Launcher l;

        /* The queue drains while its launch waits for room: that launch does not count as in flight. */
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        launch(x, &l, launcher_main);
        fake_hold(x->f, 0, NSEC_INFINITY);
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(page_slot_read_in_flight(x->slot), 1);
        gate_complete(&x->gate, 1, 0);
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(page_slot_read_in_flight(x->slot), 0);
        atomic_store(&l.room, true);
        assert_true(poll_until(atomic_load(&x->slot->waiters) == 1));
        assert_int_equal(atomic_load(&l.began), -1);
        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        assert_int_equal(atomic_load(&l.n_asked), 1);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(fake_counted(x->f, 0), 0);
}

/* A launcher that learns of completions by looking looks again while it is held. Completions that it finds are counted
 * before it goes on. */
static void test_looks_while_held(void **state) {
        Fixture *x = *state;
        Launcher l;

        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        fake_hold(x->f, 0, NSEC_INFINITY);
        l = (Launcher){.gate = &x->gate, .began = -1, .room = true, .completes_at = 5};
        assert_int_equal(pthread_create(&l.thread, NULL, launcher_main, &l), 0);
        assert_true(poll_until(page_slot_read_in_flight(x->slot) == 0));
        assert_int_equal(atomic_load(&l.n_asked), 5);
        assert_int_equal(atomic_load(&l.began), -1);
        assert_true(fake_take_edge(x->f, 0));

        /* With nothing in flight the launcher does not look. */
        struct timespec ts = {.tv_nsec = 5000000};
        (void) nanosleep(&ts, NULL);
        assert_int_equal(atomic_load(&l.n_asked), 5);
        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        gate_complete(&x->gate, 1, 0);
}

/* Unwatched queues, and launches that may not wait, do not ask for room. */
static void test_not_asked(void **state) {
        Fixture *x = *state;
        Launcher l = {};
        const GateRoom room = {wait_for_room, &l};

        assert_int_equal(gate_begin_bounded(&x->gate, GATE_NOWAIT, &room), 1);
        gate_complete(&x->gate, 1, 0);
        page_slot_set_watch(x->slot, 0);
        assert_int_equal(gate_begin_bounded(&x->gate, GATE_WAIT, &room), 0);
        assert_int_equal(gate_begin_bounded(&x->gate, GATE_WAIT, &room), 0);
        gate_detach(&x->gate);
        assert_int_equal(gate_begin_bounded(&x->gate, GATE_WAIT, &room), 0);
        assert_int_equal(atomic_load(&l.n_asked), 0);
}

static _Thread_local sigjmp_buf escape_to;

static void jump_out(int sig) {
        siglongjmp(escape_to, 1);
}

static void *jumper_main(void *p) {
        Launcher *l = p;

        if (sigsetjmp(escape_to, 1) == 0)
                (void) launcher_main(p);
        atomic_store(&l->began, -2);
        while (atomic_load(&l->began) == -2)
                sched_yield();
        return launcher_main(p);
}

/* A jump out of the wait leaves its launch behind; the thread's next wait finds it. */
static void test_jump(void **state) {
        const struct sigaction jump = {.sa_handler = jump_out};
        Fixture *x = *state;
        Launcher l;

        assert_int_equal(sigaction(SIGUSR1, &jump, NULL), 0);
        launch(x, &l, jumper_main);
        assert_int_equal(pthread_kill(l.thread, SIGUSR1), 0);
        assert_true(poll_until(atomic_load(&l.began) == -2));
        assert_int_equal(fake_counted(x->f, 0), 1);
        atomic_store(&l.began, -1);
        assert_true(poll_until(atomic_load(&l.n_asked) == 2));
        assert_int_equal(fake_counted(x->f, 0), 1);
        assert_int_equal(atomic_load(&x->slot->waiters), 1);
        atomic_store(&l.room, true);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        assert_int_equal(page_slot_read_in_flight(x->slot), 1);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(fake_counted(x->f, 0), 0);
        assert_int_equal(submitted(x), 1);
        assert_true(gate_has_room(&x->gate));
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                        T(test_never_idle),
                        T(test_held_meanwhile),
                        T(test_looks_while_held),
                        T(test_not_asked),
                        T(test_jump),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
