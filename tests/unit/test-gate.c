/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate: counts, and attaching and detaching of pages
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shim/core/gate-limit.h"
#include "shim/core/gate-told.h"
#include "tests/lib/deadline.h"
#include "tests/unit/gate-fixture.h"

static void test_open_without_page(void **state) {
        Fixture *x = *state;

        for (int i = 0; i < 1000; i++)
                assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 0);
        assert_int_equal(counters(&x->gate).launches, 1000);
        assert_int_equal(counters(&x->gate).tracked, 0);
        assert_int_equal(gate_limit(&x->gate), 0);
        gate_complete(&x->gate, 5, 100); /* was not asked for */
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
        assert_false(fake_take_edge(x->f, 4)); /* the slot is not watched */

        assert_int_equal(gate_attach(&x->gate, &x->f->client, PAGE_SLOTS_MAX, x->f->wake), -EINVAL);
}

/* The service watched the slot before the queue got it: launches from before are reported at once. */
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

        memset((void *) &fake_slot(x->f, 9)->outstanding, 0xa5, PAGE_LINE); /* left over from a previous owner */
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

/* The device began later than the launch was submitted: time counts from then on, and the begin moves only forward. */
static void test_started(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        assert_int_equal(attach(x, 0), 0);
        page_slot_set_watch(s, WATCH_ALL);
        gate_started(&x->gate, now_ns()); /* nothing is in flight */
        assert_int_equal(atomic_load(&s->launched_ns), 0);

        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        uint64_t launched = atomic_load(&s->launched_ns);
        gate_started(&x->gate, launched - 1);
        gate_started(&x->gate, NSEC_INFINITY);
        assert_int_equal(atomic_load(&s->launched_ns), launched);
        while (now_ns() == launched)
                ;
        uint64_t began = now_ns();
        gate_started(&x->gate, began);
        assert_int_equal(atomic_load(&s->launched_ns), began);
        gate_complete(&x->gate, 1, 0);
        assert_int_equal(atomic_load(&s->busy_ns), atomic_load(&s->drained_ns) - began);
        gate_started(&x->gate, now_ns()); /* it is over */
        assert_int_equal(atomic_load(&s->launched_ns), began);
}

static void test_threshold_tracks(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        assert_int_equal(attach(x, 0), 0);
        atomic_store(&s->threshold, 2);
        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_int_equal(gate_limit(&x->gate), 2);

        /* The limit is the number of launches that fit the budget, but at least the threshold. */
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
        gate_complete(&x->gate, 1, UINT64_MAX); /* an absurd time causes no overflow of the mean */
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

        /* Tried again where the machine was so busy that the lease had ended before the launch. */
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

/* Launches counted on a lost page end on that page. */
static void test_join(void **state) {
        Fixture *x = *state;
        PageSlot *s = fake_slot(x->f, 0);

        assert_int_equal(gate_join(&x->gate, 2), 0); /* without a page */
        assert_int_equal(counters(&x->gate).launches, 2);
        assert_int_equal(attach(x, 0), 0);
        assert_int_equal(atomic_load(&s->outstanding), PAGE_OUTSTANDING_UNTRACKED);
        atomic_store(&s->outstanding, 0);
        page_slot_set_watch(s, WATCH_ALL);

        assert_int_equal(gate_begin(&x->gate, GATE_WAIT), 1);
        assert_true(fake_take_edge(x->f, 0));
        uint64_t launched = atomic_load(&s->launched_ns);
        assert_int_equal(gate_join(&x->gate, 3), 1);
        assert_false(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&s->outstanding), 4);
        assert_int_equal(atomic_load(&s->submitted), 6);
        assert_int_equal(atomic_load(&s->launched_ns), launched);
        assert_int_equal(counters(&x->gate).tracked, 4);
        gate_complete(&x->gate, 3, 3000);
        assert_false(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&s->mean_ns), 1000);

        /* They are counted while the queue is held: they were made before. */
        fake_verdict(x->f, 0, VERDICT_HOLD);
        assert_int_equal(gate_join(&x->gate, 2), 1);
        gate_complete(&x->gate, 3, 0);
        assert_true(fake_take_edge(x->f, 0));
        assert_int_equal(atomic_load(&s->outstanding), 0);
        assert_int_equal(atomic_load(&s->completed), 6);
}

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
        assert_int_equal(fake_counted(x->f, 0), 1); /* another process's bit */
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
        assert_int_equal(write(x->f->wake, &full, sizeof(full)), sizeof(full)); /* every further write fails */
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

/* An open launch makes no system call: a filter ends the process at any call. */
static void forbid_system_calls(void) {
        struct sock_filter filter[] = {
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(filter), .filter = filter};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
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

        /* The filter works: a call of getppid() ends the process. */
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

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                        T(test_open_without_page),
                        T(test_attach_carries_over),
                        T(test_attach_watched),
                        T(test_used_slot),
                        T(test_tracked_while_watched),
                        T(test_started),
                        T(test_threshold_tracks),
                        T(test_drain),
                        T(test_drain_by_completion),
                        T(test_nowait),
                        T(test_boost),
                        T(test_lease_expiry),
                        T(test_join),
                        T(test_two_pages),
                        T(test_reset),
                        T(test_errno),
                        T(test_no_system_calls),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
