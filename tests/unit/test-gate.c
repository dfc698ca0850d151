/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate: counting, waiting, coming and going of the page, and threads that leave a wait the hard way
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shim/gate.h"
#include "tests/lib/deadline.h"
#include "tests/lib/fake-service.h"
#include "tests/lib/unit.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE)

typedef struct Fixture {
        FakeService *f;
        Gate gate;
} Fixture;

static int setup(void **state) {
        Fixture *x = aligned_alloc(_Alignof(Fixture), sizeof(Fixture));

        x->f = fake_service_new();
        gate_init(&x->gate, true);
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

static int attach(Fixture *x, uint32_t slot) {
        return gate_attach(&x->gate, &x->f->client, slot, x->f->wake);
}

static GateCounters counters(const Gate *g) {
        GateCounters c = {};

        gate_read(g, &c);
        return c;
}

/* --- one thread --- */

static void test_open_without_page(void **state) {
        Fixture *x = *state;

        for (int i = 0; i < 1000; i++)
                assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);
        assert_int_equal(counters(&x->gate).launches, 1000);
        assert_int_equal(counters(&x->gate).tracked, 0);
        assert_int_equal(gate_limit(&x->gate), 0);
        gate_complete(&x->gate, 5, 100); /* nobody asked */
        gate_boost(&x->gate);
        gate_detach(&x->gate);
        assert_false(gate_adopt(&x->gate));
}

static void test_attach_carries_over(void **state) {
        Fixture *x = *state;

        assert_int_equal(attach(x, 3), 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 3)->outstanding), 0); /* nothing was launched */
        gate_detach(&x->gate);

        for (int i = 0; i < 10; i++)
                gate_begin(&x->gate, GATE_WAIT);
        assert_int_equal(attach(x, 4), 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 4)->outstanding), PAGE_OUTSTANDING_UNTRACKED);
        assert_int_equal(atomic_load(&fake_slot(x->f, 4)->submitted), 10);
        gate_begin(&x->gate, GATE_WAIT);
        assert_int_equal(atomic_load(&fake_slot(x->f, 4)->submitted), 11);
        assert_int_equal(counters(&x->gate).launches, 11);
        assert_false(fake_take_edge(x->f, 4)); /* nobody watches */

        assert_int_equal(gate_attach(&x->gate, &x->f->client, PAGE_SLOTS_MAX, x->f->wake), -EINVAL);
}

/* The service watched the slot before the queue got it: what ran before is known at once. */
static void test_attach_watched(void **state) {
        Fixture *x = *state;

        gate_begin(&x->gate, GATE_WAIT);
        page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
        assert_int_equal(attach(x, 0), 1);
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->outstanding), 1);
        assert_true(fake_take_edge(x->f, 0));
        gate_end(&x->gate, 1);
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->outstanding), 0);
        assert_true(fake_take_edge(x->f, 0));
}

static void test_used_slot(void **state) {
        Fixture *x = *state;

        memset((void *) &fake_slot(x->f, 9)->outstanding, 0xa5,
                        PAGE_LINE); /* left over from a previous owner */
        assert_int_equal(attach(x, 9), 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 9)->outstanding), 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 9)->waiters), 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 9)->submitted), 0);
}

static void test_tracked_while_watched(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(s, WATCH_ALL);
        uint64_t before = now_ns();
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_true(fake_take_edge(x->f, 0));
        assert_true(atomic_load(&s->ready_since_ns) >= before);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_false(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&s->outstanding), 2);

        gate_complete(&x->gate, 1, 0);
        assert_false(fake_take_edge(x->f, 0));
        gate_complete(&x->gate, 1, 0);
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&s->outstanding), 0);
        assert_int_equal(atomic_load(&s->completed), 2);
        assert_true(atomic_load(&s->busy_ns) > 0);
        assert_true(atomic_load(&s->busy_ns) <= now_ns() - before);

        /* More completions than launches change nothing. */
        gate_complete(&x->gate, 3, 0);
        assert_int_equal(atomic_load(&s->outstanding), 0);

        page_slot_set_watch(s, 0);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);
        GateCounters c = counters(&x->gate);
        assert_int_equal(c.launches, 3);
        assert_int_equal(c.tracked, 2);
        assert_int_equal(c.waited, 0);
}

static void test_threshold_tracks(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        assert_int_equal(attach(x, 0), 0);
        atomic_store(&s->threshold, 2);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_int_equal(gate_limit(&x->gate), 2);

        /* As many as fit the budget, and never fewer than the threshold. */
        atomic_store(&s->budget_us, 250);
        assert_int_equal(gate_limit(&x->gate), 2); /* nothing is known of the launches yet */
        gate_complete(&x->gate, 1, 10 * NSEC_PER_USEC);
        assert_int_equal(atomic_load(&s->mean_ns), 10 * NSEC_PER_USEC);
        assert_int_equal(gate_limit(&x->gate), 25);
        for (int i = 0; i < 200; i++)
                gate_complete(&x->gate, 10, 10 * NSEC_PER_MSEC);
        assert_in_range(atomic_load(&s->mean_ns), 990 * NSEC_PER_USEC, 1000 * NSEC_PER_USEC);
        assert_int_equal(gate_limit(&x->gate), 2);
        for (int i = 0; i < 200; i++)
                gate_complete(&x->gate, 1, 1);
        assert_in_range(gate_limit(&x->gate), 25000, 250000);
        gate_complete(&x->gate, 1,
                        UINT64_MAX); /* an absurd time is no division by it, and no negative mean */
        assert_int_equal(gate_limit(&x->gate), 2);

        atomic_store(&s->budget_us, 0);
        assert_int_equal(gate_limit(&x->gate), 2);
        atomic_store(&s->threshold, 0);
        assert_int_equal(gate_limit(&x->gate), 0);
}

static void test_drain(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        assert_int_equal(attach(x, 0), 0);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);
        assert_false(gate_wants_drain(&x->gate));
        assert_int_equal(page_slot_set_watch(s, WATCH_ALL), PAGE_OUTSTANDING_UNTRACKED);
        assert_true(gate_wants_drain(&x->gate));
        assert_true(gate_adopt(&x->gate));
        assert_false(gate_wants_drain(&x->gate));
        assert_false(gate_adopt(&x->gate));
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        gate_complete(&x->gate, 1, 0);
        assert_false(fake_take_edge(x->f, 0)); /* the rest still runs */
        gate_end(&x->gate, 1);
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&s->outstanding), 0);
}

static void test_drain_by_completion(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        gate_init(&x->gate, false);
        assert_int_equal(attach(x, 0), 0);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);
        page_slot_set_watch(s, WATCH_ALL);
        assert_false(gate_adopt(&x->gate));
        assert_int_equal(atomic_load(&s->outstanding), 1);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(atomic_load(&s->outstanding), 0);
        assert_true(fake_take_edge(x->f, 0));
}

static void test_nowait(void **state) {
        Fixture *x = *state;

        assert_int_equal(attach(x, 0), 0);
        fake_hold(x->f, 0, NSEC_INFINITY);
        assert_int_equal(gate_begin(&x->gate, GATE_NOWAIT), 1); /* would hang here */
        assert_int_equal(fake_counted(x->f, 0), 1);
        assert_int_equal(counters(&x->gate).waited, 0);
}

static void test_boost(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(s, WATCH_ALL);
        gate_begin(&x->gate, GATE_WAIT);
        assert_true(fake_take_edge(x->f, 0));
        gate_boost(&x->gate);
        gate_boost(&x->gate);
        assert_int_equal(atomic_load(&s->boost), 1);
        assert_true(fake_take_edge(x->f, 0));
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(atomic_load(&s->boost), 0); /* drained */
}

static void test_lease_expiry(void **state) {
        Fixture *x = *state;
        GateCounters c = {};

        /* Again when the machine was so busy that the lease had ended before the launch. */
        assert_int_equal(attach(x, 0), 0);
        for (unsigned i = 1; c.waited == 0 && i < 20; i++) {
                fake_run(x->f, 0);
                fake_hold(x->f, 0, PAGE_LEASE_NS / 20);
                uint64_t until = atomic_load(&x->f->page.header->lease_until_ns);
                assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
                assert_true(now_ns() >= until);
                c = counters(&x->gate);
                assert_int_equal(c.expired, i);
        }
        assert_int_equal(c.waited, 1);
        assert_true(c.waited_ns > 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->held_ns), c.waited_ns);
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->lease_expiries), c.expired);

        /* Later launches do not wait at all. */
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_int_equal(counters(&x->gate).waited, 1);
        assert_int_equal(counters(&x->gate).expired, c.expired + 1);
}

/* The launches of a lost page stay where they were counted. */
static void test_two_pages(void **state) {
        Fixture *x = *state;
        _cleanup_(fake_service_freep)
        FakeService *second = fake_service_new(), *third = fake_service_new();

        assert_int_equal(attach(x, 0), 0);
        atomic_store(&fake_slot(x->f, 0)->threshold, 1);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        gate_detach(&x->gate);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);

        atomic_store(&fake_slot(second, 8)->threshold, 1);
        assert_int_equal(gate_attach(&x->gate, &second->client, 8, second->wake), 0);
        assert_int_equal(atomic_load(&fake_slot(second, 8)->outstanding), PAGE_OUTSTANDING_UNTRACKED);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_int_equal(fake_counted(second, 8), 1);

        /* Both seats are in use now: a third page has to wait until the first one's launches are over. */
        assert_false(gate_has_room(&x->gate));
        gate_detach(&x->gate);
        assert_int_equal(gate_attach(&x->gate, &third->client, 1, third->wake), -EBUSY);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);

        gate_complete(&x->gate, 3, 0);
        assert_int_equal(fake_counted(x->f, 0), 0);
        assert_int_equal(fake_counted(second, 8), 0);
        assert_true(gate_has_room(&x->gate));
        assert_int_equal(gate_attach(&x->gate, &third->client, 1, third->wake), 0);
        assert_int_equal(counters(&x->gate).launches, 5);
        assert_int_equal(atomic_load(&fake_slot(third, 1)->submitted), 5);
        gate_detach(&x->gate);
        assert_int_equal(counters(&x->gate).launches, 5);
}

static void test_reset(void **state) {
        Fixture *x = *state;

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        gate_reset(&x->gate, true);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(fake_counted(x->f, 0), 1); /* another process's business */
        assert_int_equal(counters(&x->gate).launches, 0);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->submitted), 1);
}

static void test_errno(void **state) {
        Fixture *x = *state;

        errno = ENOTUNIQ;
        gate_begin(&x->gate, GATE_WAIT);
        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
        uint64_t full = UINT64_MAX - 1;
        assert_int_equal(write(x->f->wake, &full, sizeof(full)),
                        sizeof(full)); /* every further write fails */
        gate_begin(&x->gate, GATE_WAIT);
        fake_hold(x->f, 0, PAGE_LEASE_NS / 100);
        gate_begin(&x->gate, GATE_WAIT); /* the futex times out */
        gate_complete(&x->gate, 1, 5);
        gate_complete(&x->gate, 1, 5);
        gate_adopt(&x->gate);
        gate_end(&x->gate, 1);
        gate_boost(&x->gate);
        gate_detach(&x->gate);
        assert_int_equal(errno, ENOTUNIQ);
}

/* An open launch makes no system call: it runs where every call ends the process. */
static void forbid_system_calls(void) {
        struct sock_filter filter[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(filter), .filter = filter};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                _exit(77);
}

static int launch_without_system_calls(Gate *g, GateWait wait, bool forbidden_call) {
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                forbid_system_calls();
                for (int i = 0; i < 100000; i++)
                        if (gate_begin(g, wait) != 0)
                                syscall(SYS_exit_group, 1);
                if (forbidden_call)
                        (void) getppid();
                syscall(SYS_exit_group, 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static void test_no_system_calls(void **state) {
        Fixture *x = *state;

        /* The fence bites. */
        int status = launch_without_system_calls(&x->gate, GATE_WAIT, true);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                skip();
        assert_true(WIFSIGNALED(status));

        assert_int_equal(launch_without_system_calls(&x->gate, GATE_WAIT, false), 0);
        assert_int_equal(attach(x, 0), 0);
        assert_int_equal(launch_without_system_calls(&x->gate, GATE_WAIT, false), 0);
        assert_int_equal(launch_without_system_calls(&x->gate, GATE_NOWAIT, false), 0);
        assert_int_equal(atomic_load(&fake_slot(x->f, 0)->submitted), 200000);
}

/* --- a thread in a held gate --- */

typedef struct Launcher {
        Gate *gate;
        pthread_t thread;
        _Atomic int began; /* -1 while it waits */
        int saw_errno;
} Launcher;

static void *launcher_main(void *p) {
        Launcher *l = p;

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

static bool has_waiters(Fixture *x, uint32_t slot, uint32_t n) {
        return atomic_load(&fake_slot(x->f, slot)->waiters) == n;
}

static void test_hold_and_run(void **state) {
        Fixture *x = *state;
        Launcher l;

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
        fake_hold(x->f, 0, NSEC_INFINITY);
        launch(x, &l, launcher_main);
        assert_true(poll_until(has_waiters(x, 0, 1)));
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
        assert_true(poll_until(has_waiters(x, 0, 1)));
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

static void launch_in_handler(int sig) {
        handler_began = gate_begin(handler_gate, GATE_NOWAIT) + gate_begin(handler_gate, GATE_WAIT);
}

static stack_t handler_stack;

static void *stacked_launcher_main(void *p) {
        stack_t old;

        (void) sigaltstack(&handler_stack, &old);
        (void) launcher_main(p);
        (void) sigaltstack(&old, NULL); /* a sanitizer has one of its own */
        return NULL;
}

/* A handler that launches, on the same held queue, in the middle of a wait: on the thread's own stack, and on another one, below
 * and above it, where the gate cannot tell an interrupted wait from an abandoned one. */

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
                assert_int_equal(attach(x, 0), 0);
                page_slot_set_watch(fake_slot(x->f, 0), WATCH_ALL);
                fake_hold(x->f, 0, NSEC_INFINITY);
                launch(x, &l, stacked_launcher_main);
                assert_true(poll_until(has_waiters(x, 0, 1)));
                assert_int_equal(pthread_kill(l.thread, SIGUSR2), 0);
                assert_true(poll_until(has_waiters(x, 0, 2)));
                fake_run(x->f, 0);
                assert_int_equal(pthread_join(l.thread, NULL), 0);
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
        assert_int_equal(fake_counted(x->f, 0), 1); /* nobody can know yet */
        atomic_store(&l.began, -1);
        assert_true(poll_until(has_waiters(x, 0, 2)));
        assert_int_equal(fake_counted(x->f, 0), 1); /* the new one; the old one is taken back */
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
        assert_true(fake_take_edge(x->f, 0)); /* idle again, and said so */
        assert_true(gate_has_room(&x->gate));
}

/* The gate is no cancellation point: what has been counted is returned to the caller. */
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
                        T(test_open_without_page),
                        T(test_attach_carries_over),
                        T(test_attach_watched),
                        T(test_used_slot),
                        T(test_tracked_while_watched),
                        T(test_threshold_tracks),
                        T(test_drain),
                        T(test_drain_by_completion),
                        T(test_nowait),
                        T(test_boost),
                        T(test_lease_expiry),
                        T(test_two_pages),
                        T(test_reset),
                        T(test_errno),
                        T(test_no_system_calls),
                        T(test_hold_and_run),
                        T(test_detach_frees),
                        T(test_signal_storm),
                        T(test_launch_in_handler),
                        T(test_longjmp),
#ifndef __SANITIZE_ADDRESS__ /* it takes the unwinding of a foreign stack for an error */
                        T(test_cancel_asynchronous),
#endif
                        T(test_cancel_deferred),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
