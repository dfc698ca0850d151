/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread in a held gate: how its wait ends, also by signals, jumps and cancellation
 */

#include <pthread.h>
#include <signal.h>

#include "tests/lib/deadline.h"
#include "tests/lib/threads.h"
#include "tests/unit/gate-fixture.h"

typedef struct Launcher {
        Gate *gate;
        pthread_t thread;
        _Atomic int began; /* -1 while it waits */
        int saw_errno;
} Launcher;

static void *launcher_main(void *p) {
        Launcher *l = p;

        (void) pthread_setname_np(pthread_self(), "launcher");
        errno = ENOTUNIQ;
        int began = gate_begin(l->gate, GATE_WAIT);
        l->saw_errno = errno;
        atomic_store(&l->began, began);
        return NULL;
}

static void launch(Fixture *x, Launcher *l, void *(*main)(void *) ) {
        *l = (Launcher){.gate = &x->gate, .began = -1};
        assert_int_equal(pthread_create(&l->thread, NULL, main, l), 0);
}

/* Whether the thread sleeps. For a launch that replaced a taken-back one, for which all words are as before. */
static bool sleeps(void) {
        return poll_until(thread_is_asleep("launcher"));
}

static bool has_waiters(Fixture *x, uint32_t slot, uint32_t n) {
        return atomic_load(&fake_slot(x->f, slot)->waiters) == n;
}

/* --- without a page, beside others --- */

static Fixture *asked;
static unsigned n_asked;

/* Plays the control thread from inside the wait, so that it cannot be late. */
static bool registers(void) {
        n_asked++;
        assert_int_equal(attach(asked, 0), 0);
        return true;
}

static bool has_others_for_ever(void) {
        n_asked++;
        return true;
}

static bool has_no_others(void) {
        n_asked++;
        return false;
}

static int begin_beside(Fixture *x, bool (*has_others)(void), GateWait wait) {
        asked = x;
        n_asked = 0;
        gate_set_beside(has_others);
        int began = gate_begin(&x->gate, wait);
        gate_set_beside(NULL);
        return began;
}

/* Only the first launch of a queue that is about to be registered asks and waits. */
static void test_registered_late(void **state) {
        Fixture *x = *state;

        page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
        assert_int_equal(begin_beside(x, registers, GATE_WAIT), 1);
        assert_int_equal(n_asked, 1);
        assert_int_equal(fake_counted(x->f, 0), 1);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(begin_beside(x, has_others_for_ever, GATE_WAIT), 1);
        assert_int_equal(n_asked, 0);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(fake_counted(x->f, 0), 0);
}

/* A queue that is not registered runs. */
static void test_not_registered(void **state) {
        Fixture *x = *state;

        assert_int_equal(begin_beside(x, has_others_for_ever, GATE_NOWAIT), 0);
        assert_int_equal(n_asked, 0);
        gate_reset(&x->gate, true);
        assert_int_equal(begin_beside(x, has_no_others, GATE_WAIT), 0);
        assert_int_equal(n_asked, 1);
        gate_reset(&x->gate, true);
        uint64_t begun = now_ns();
        assert_int_equal(begin_beside(x, has_others_for_ever, GATE_WAIT), 0);
        assert_true(now_ns() - begun >= GATE_SEAT_NS);
        assert_int_equal(begin_beside(x, has_others_for_ever, GATE_WAIT), 0);
        assert_int_equal(n_asked, 0); /* once for a queue */
}

static void test_hold_and_run(void **state) {
        Fixture *x = *state;
        Launcher l;

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, launcher_main);
        assert_true(poll_until(has_waiters(x, 0, 1) && threads_asleep("launcher") == 1));
        assert_int_equal(fake_counted(x->f, 0), 1); /* the launch that waits is known */
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->submitted), 0);
        assert_int_equal(atomic_load(&l.began), -1);

        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        assert_int_equal(atomic_load(&l.began), 1);
        assert_int_equal(l.saw_errno, ENOTUNIQ);
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->submitted), 1);
        GateCounters c = counters(&x->gate);
        assert_int_equal(c.waited, 1);
        assert_int_equal(c.expired, 0);
        assert_true(c.waited_ns > 0);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(fake_counted(x->f, 0), 0);
}

static void test_detach_frees(void **state) {
        Fixture *x = *state;
        Launcher l;

        for (int i = 0; i < 200; i++) {
                assert_int_equal(attach(x, 0), 0);
                fake_hold(x->f, 0, NSEC_INFINITY);
                launch(x, &l, launcher_main);
                if (i % 2)
                        assert_true(poll_until(has_waiters(x, 0, 1)));
                gate_detach(&x->gate);
                assert_int_equal(pthread_join(l.thread, NULL), 0); /* a lost wake-up hangs here */
                assert_int_equal(l.saw_errno, ENOTUNIQ);
                gate_complete(&x->gate, (uint32_t) atomic_load(&l.began), 0);
                fake_run(x->f, 0);
        }
        assert_int_equal(counters(&x->gate).launches, 200);
}

static void count_signal(int sig) {
}

static void on_signal(int sig, void (*handler)(int), int flags) {
        struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};
        assert_int_equal(sigaction(sig, &sa, NULL), 0);
}

static void test_signal_storm(void **state) {
        Fixture *x = *state;
        Launcher l;

        on_signal(SIGUSR1, count_signal, 0); /* no SA_RESTART */
        assert_int_equal(attach(x, 0), 0);
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, launcher_main);
        assert_true(poll_until(has_waiters(x, 0, 1) && threads_asleep("launcher") == 1));
        for (int i = 0; i < 5000; i++)
                assert_int_equal(pthread_kill(l.thread, SIGUSR1), 0);
        assert_int_equal(atomic_load(&l.began), -1);
        assert_int_equal(fake_counted(x->f, 0), 1);
        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        assert_int_equal(l.saw_errno, ENOTUNIQ);
        assert_int_equal(counters(&x->gate).waited, 1);
        assert_int_equal(counters(&x->gate).launches, 1);
}

static Gate *handler_gate;
static _Atomic int handler_began;
static _Atomic bool handler_passed;

static void launch_in_handler(int sig) {
        int passed = gate_begin(handler_gate, GATE_NOWAIT);

        handler_passed = true;
        handler_began = passed + gate_begin(handler_gate, GATE_WAIT);
}

static stack_t handler_stack;

static void *stacked_launcher_main(void *p) {
        stack_t old;

        (void) sigaltstack(&handler_stack, &old);
        (void) launcher_main(p);
        (void) sigaltstack(&old, NULL); /* a sanitizer has one of its own */
        return NULL;
}

/* A handler that launches, on the same held queue, in the middle of a wait: on the thread's own stack, and on another
 * one, below and above it, where the gate cannot tell an interrupted wait from an abandoned one. */

static void test_launch_in_handler(void **state) {
        static uint8_t below[128 * 1024];
        uint8_t above[128 * 1024];
        Fixture *x = *state;
        Launcher l;

        for (int i = 0; i < 3; i++) {
                handler_stack = (stack_t){.ss_sp = i == 1 ? below : above, .ss_size = sizeof(above)};
                on_signal(SIGUSR2, launch_in_handler, i ? SA_ONSTACK : 0);
                handler_gate = &x->gate;
                handler_began = -1;
                handler_passed = false;
                assert_int_equal(attach(x, 0), 0);
                page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
                fake_hold(x->f, 0, NSEC_INFINITY);
                launch(x, &l, stacked_launcher_main);
                assert_true(poll_until(has_waiters(x, 0, 1)));
                assert_int_equal(pthread_kill(l.thread, SIGUSR2), 0);
                assert_true(poll_until(atomic_load(&handler_passed)));
                assert_true(sleeps());
                /* The handler's launch is in flight; the interrupted one is still counted, or was taken back and comes
                 * again. */
                assert_int_equal(page_slot_read_in_flight(fake_slot(x->f, 0)), 1);
                assert_true(fake_counted(x->f, 0) == 2 || fake_counted(x->f, 0) == 3);
                fake_run(x->f, 0);
                assert_int_equal(pthread_join(l.thread, NULL), 0);
                assert_true(has_waiters(x, 0, 0));
                assert_int_equal(handler_began, 2);
                assert_int_equal(atomic_load(&l.began), 1);
                assert_int_equal(fake_counted(x->f, 0), 3);
                gate_complete(&x->gate, 3, 0);
                assert_int_equal(fake_counted(x->f, 0), 0);
                assert_true(gate_has_room(&x->gate));
        }
}

static _Thread_local sigjmp_buf escape_to;

static void jump_out(int sig) {
        siglongjmp(escape_to, 1);
}

/* Jumps out of a held gate; its next launch finds what the jump left behind. */
static void *jumper_main(void *p) {
        Launcher *l = p;

        (void) pthread_setname_np(pthread_self(), "launcher");
        if (sigsetjmp(escape_to, 1) == 0)
                gate_begin(l->gate, GATE_WAIT);
        atomic_store(&l->began, 5);
        while (atomic_load(&l->began) == 5)
                sched_yield();
        atomic_store(&l->began, gate_begin(l->gate, GATE_WAIT));
        return NULL;
}

static void test_longjmp(void **state) {
        Fixture *x = *state;
        Launcher l;

        on_signal(SIGUSR1, jump_out, 0);
        assert_int_equal(attach(x, 0), 0);
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, jumper_main);
        assert_true(poll_until(has_waiters(x, 0, 1)));
        assert_int_equal(pthread_kill(l.thread, SIGUSR1), 0);
        assert_true(poll_until(atomic_load(&l.began) == 5));
        assert_int_equal(fake_counted(x->f, 0), 1); /* still counted: its end is not known yet */
        assert_int_equal(page_slot_read_in_flight(fake_slot(x->f, 0)), 0);
        atomic_store(&l.began, -1);
        assert_true(sleeps());
        assert_int_equal(fake_counted(x->f, 0), 1); /* the new launch; the old one and its wait are taken back */
        assert_true(has_waiters(x, 0, 1));
        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(fake_counted(x->f, 0), 0);
        assert_int_equal(counters(&x->gate).launches, 1);
}

static void *cancelled_main(void *p) {
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
        return launcher_main(p);
}

static _unused_ void test_cancel_asynchronous(void **state) {
        Fixture *x = *state;
        Launcher l;
        void *result;

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, cancelled_main);
        assert_true(poll_until(has_waiters(x, 0, 1)));
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(pthread_cancel(l.thread), 0);
        assert_int_equal(pthread_join(l.thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_int_equal(fake_counted(x->f, 0), 0);
        assert_true(has_waiters(x, 0, 0));
        assert_true(fake_take_edge(x->f, 0)); /* the idle edge */
        assert_true(gate_has_room(&x->gate));
}

/* A held queue drains: the last completion reports it once, with the time; so does a wait that begins when nothing is
 * in flight. */
static void test_drained(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);
        Launcher l;

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(s, WATCH_ALL);
        uint64_t start = now_ns();
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        uint64_t launched = atomic_load(&s->launched_ns);
        assert_in_range(launched, start, now_ns());
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_int_equal(atomic_load(&s->launched_ns), launched); /* the first of a spell */
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, launcher_main);
        assert_true(poll_until(has_waiters(x, 0, 1)));
        assert_int_equal(page_slot_read_in_flight(s), 2);

        (void) fake_take_edge(x->f, 0);
        gate_complete(&x->gate, 1, 0);
        assert_false(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&s->drained_ns), 0);
        uint64_t before = now_ns();
        gate_complete(&x->gate, 1, 0);
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(page_slot_read_in_flight(s), 0);
        uint64_t drained = atomic_load(&s->drained_ns);
        assert_in_range(drained, before, now_ns());

        /* A launch that waited counts as launched from the end of its wait. */
        before = now_ns();
        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        assert_in_range(atomic_load(&s->launched_ns), before, now_ns());
        assert_int_equal(page_slot_read_in_flight(s), 1);
        gate_complete(&x->gate, 1, 0);
        assert_true(atomic_load(&s->drained_ns) > drained);
        assert_true(fake_take_edge(x->f, 0)); /* idle */

        /* A queue was idle when it was held; the next launch finds that it has drained. */
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, launcher_main);
        assert_true(poll_until(has_waiters(x, 0, 1)));
        assert_true(fake_take_edge(x->f, 0)); /* ready, and drained */
        assert_int_equal(page_slot_read_in_flight(s), 0);
        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, NULL), 0);
        gate_complete(&x->gate, 1, 0);
}

/* The gate is no cancellation point: a counted launch is always returned to the caller. */
static void test_cancel_deferred(void **state) {
        Fixture *x = *state;
        Launcher l;
        void *result;

        assert_int_equal(attach(x, 0), 0);
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, launcher_main);
        assert_true(poll_until(fake_counted(x->f, 0) == 1));
        assert_int_equal(pthread_cancel(l.thread), 0);
        fake_run(x->f, 0);
        assert_int_equal(pthread_join(l.thread, &result), 0);
        assert_ptr_equal(result, NULL);
        assert_int_equal(atomic_load(&l.began), 1);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                        T(test_registered_late),
                        T(test_not_registered),
                        T(test_hold_and_run),
                        T(test_detach_frees),
                        T(test_signal_storm),
                        T(test_launch_in_handler),
                        T(test_longjmp),
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer takes the unwinding of a foreign stack for an error */
                        T(test_cancel_asynchronous),
#endif
                        T(test_cancel_deferred),
                        T(test_drained),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
