/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The shared page: making and opening it, pages of hostile or different makers, words, waits and leases
 */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/lib/deadline.h"
#include "tests/lib/fake-service.h"
#include "tests/lib/unit.h"

static void test_create_and_open(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();

        assert_int_equal(f->page.header->client_id, 1);
        assert_ptr_not_equal(f->page.header, f->client.header);
        assert_int_equal(f->client.n_slots, PAGE_SLOTS_MAX);

        atomic_store(&page_slot(&f->page, 7)->threshold, 3);
        assert_int_equal(atomic_load(&page_slot(&f->client, 7)->threshold), 3);
        assert_null(page_slot(&f->client, PAGE_SLOTS_MAX));

        /* No slot reaches beyond the end of the page. */
        uint8_t *end = (uint8_t *) f->client.header + PAGE_SIZE_BYTES;
        assert_ptr_equal(page_slot(&f->client, PAGE_SLOTS_MAX - 1) + 1, end);
}

static void test_sealed(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();

        assert_int_equal(ftruncate(f->page.fd, 4096), -1);
        assert_int_equal(ftruncate(f->page.fd, (off_t) PAGE_SIZE_BYTES * 2), -1);
        assert_int_equal(fcntl(f->page.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

static int make_memfd(off_t size, int seals) {
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, size), 0);
        if (seals)
                assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

static void test_hostile_files(void **state) {
        const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
        static const off_t sizes[] = {0, 1, 4096, PAGE_SIZE_BYTES - 1, PAGE_SIZE_BYTES + 1, (off_t) 1 << 40};
        Page p = PAGE_NULL;

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                _cleanup_close_ int fd = make_memfd(sizes[i], seals);
                assert_int_equal(page_open(fd, &p), -EPROTO);
        }

        /* The right size, and it could still shrink. */
        _cleanup_close_ int unsealed = make_memfd(PAGE_SIZE_BYTES, 0);
        assert_int_equal(page_open(unsealed, &p), -EPROTO);
        _cleanup_close_ int half = make_memfd(PAGE_SIZE_BYTES, F_SEAL_GROW | F_SEAL_SEAL);
        assert_int_equal(page_open(half, &p), -EPROTO);

        /* Sealed, and empty. */
        _cleanup_close_ int empty = make_memfd(PAGE_SIZE_BYTES, seals);
        assert_int_equal(page_open(empty, &p), -EPROTO);
        assert_true(fcntl(empty, F_GETFD) >= 0); /* the fd is still the caller's */

        _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        assert_int_equal(page_open(null, &p), -EPROTO);
        assert_int_equal(page_open(-EBADF, &p), -EBADF);
        assert_null(p.header); /* untouched */
}

static void test_other_versions(void **state) {
        const struct {
                size_t offset, size;
        } words[] = {
                        {offsetof(PageHeader, magic), 8},
                        {offsetof(PageHeader, version), 4},
                        {offsetof(PageHeader, header_size), 4},
                        {offsetof(PageHeader, slot_size), 4},
                        {offsetof(PageHeader, n_slots), 4},
        };

        for (size_t i = 0; i < ELEMENTSOF(words); i++) {
                _cleanup_(fake_service_freep)
                FakeService *f = fake_service_new();
                _cleanup_close_ int fd = fcntl(f->page.fd, F_DUPFD_CLOEXEC, 3);
                Page p = PAGE_NULL;

                ((uint8_t *) f->page.header)[words[i].offset] ^= 1;
                assert_int_equal(page_open(fd, &p), -EPROTO);
                ((uint8_t *) f->page.header)[words[i].offset] ^= 1;
                assert_int_equal(page_open(fd, &p), 0);
                TAKE_FD(fd); /* the fd is the page's now */
                page_done(&p);
        }
}

static void test_verdict_words(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        PageSlot *s = fake_slot(f, 0);

        uint32_t run = page_slot_set_verdict(s, 0, VERDICT_RUN);
        assert_int_equal(run, 0); /* an unchanged verdict is not written */
        uint32_t hold = page_slot_set_verdict(s, run, VERDICT_HOLD);
        assert_true(hold & PAGE_VERDICT_HOLD);
        assert_int_equal(atomic_load(&s->verdict), hold);
        assert_int_equal(page_slot_set_verdict(s, hold, VERDICT_HOLD), hold);
        uint32_t again = page_slot_set_verdict(s, hold, VERDICT_RUN);
        assert_false(again & PAGE_VERDICT_HOLD);
        assert_int_not_equal(again, run); /* a change and its reverse count as changes */

        /* The counter wraps without touching the verdict. */
        uint32_t last = page_slot_set_verdict(s, UINT32_MAX & ~PAGE_VERDICT_HOLD, VERDICT_HOLD);
        assert_int_equal(last, PAGE_VERDICT_HOLD);

        uint32_t adopted = page_slot_adopt(s);
        assert_false(adopted & PAGE_VERDICT_HOLD);
        assert_int_not_equal(adopted & ~PAGE_VERDICT_HOLD, last & ~PAGE_VERDICT_HOLD);
}

static void test_edges(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        PageSlot *s = page_slot(&f->client, 70);

        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_end(s, 1), 0);

        assert_int_equal(page_slot_set_watch(fake_slot(f, 70), PAGE_WATCH_READY | PAGE_WATCH_IDLE), 0);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED | PAGE_BEGIN_EDGE);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_end(s, 1), 0);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_IDLE);

        /* Each edge has its own bit. */
        page_slot_set_watch(fake_slot(f, 70), PAGE_WATCH_IDLE);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_IDLE);
        page_slot_set_watch(fake_slot(f, 70), PAGE_WATCH_READY);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED | PAGE_BEGIN_EDGE);
        assert_int_equal(page_slot_end(s, 1), 0);

        page_mark_dirty(f->client.header, 70);
        page_mark_dirty(f->client.header, 64);
        assert_int_equal(page_take_dirty(f->page.header, 0), 0);
        assert_int_equal(page_take_dirty(f->page.header, 1), 1 << 6 | 1);
        assert_int_equal(page_take_dirty(f->page.header, 1), 0);
}

/* Launches in flight are those outstanding that do not wait. The drained edge is marked only when none is left, on a
 * watched slot, under a hold. */
static void test_drained(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        PageSlot *s = page_slot(&f->client, 3), *service = fake_slot(f, 3);

        /* One launch is in flight, and one waits behind it. */
        fake_hold(f, 3, NSEC_INFINITY);
        page_slot_set_watch(service, PAGE_WATCH_DRAINED);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_false(page_slot_begin_wait(s));
        assert_int_equal(page_slot_read_in_flight(service), 1);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);
        assert_int_equal(page_slot_read_in_flight(service), 0);

        /* A launch that passes the hold is in flight, and another launch's wait does not end it. */
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_false(page_slot_begin_wait(s));
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);

        /* A launch that begins to wait when the others have ended marks the edge as well: the end of the last one may
         * have come too early for that. */
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_true(page_slot_begin_wait(s));

        /* A wait is given up, with nothing in flight, and with a launch in flight. */
        page_slot_end_wait(s);
        assert_int_equal(page_slot_read_in_flight(service), 1);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        page_slot_end_wait(s);
        assert_int_equal(page_slot_end(s, 1), 0);
        assert_int_equal(page_slot_read_in_flight(service), 1);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);

        /* No edge is marked on an unwatched slot, nor under the verdict run. The edge has another bit than the idle
         * edge. */
        page_slot_end_wait(s);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);
        page_slot_set_watch(service, PAGE_WATCH_READY | PAGE_WATCH_IDLE);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED | PAGE_BEGIN_EDGE);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_IDLE);
        page_slot_set_watch(service, PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_IDLE | PAGE_END_DRAINED);
        fake_run(f, 3);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_IDLE);
        assert_int_equal(atomic_load(&s->outstanding), 0);
        assert_int_equal(atomic_load(&s->waiters), 0);
}

/* Uncounted launches count as in flight. No two words of a client make an impossible number. */
static void test_in_flight(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        PageSlot *s = page_slot(&f->client, 0);

        assert_int_equal(page_slot_in_flight(0, 0), 0);
        assert_int_equal(page_slot_in_flight(7, 3), 4);
        assert_int_equal(page_slot_in_flight(3, 7), 0);
        assert_int_equal(page_slot_in_flight(PAGE_OUTSTANDING_UNTRACKED | 3, 3), 1);
        assert_int_equal(page_slot_in_flight(PAGE_OUTSTANDING_UNTRACKED, UINT32_MAX), 1);
        assert_int_equal(page_slot_in_flight(UINT32_MAX, 0), UINT32_C(0x80000000));
        assert_int_equal(page_slot_in_flight(0, UINT32_MAX), 0);

        assert_int_equal(page_slot_begin_open(s), 0);
        fake_hold(f, 0, NSEC_INFINITY);
        page_slot_set_watch(fake_slot(f, 0), PAGE_WATCH_DRAINED);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_false(page_slot_begin_wait(s));
        assert_true(page_slot_count_untracked(s));
        assert_int_equal(page_slot_read_in_flight(s), 1);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);
        page_slot_end_wait(s);
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);
        atomic_fetch_or(&s->outstanding, PAGE_OUTSTANDING_UNTRACKED);
        assert_true(page_slot_count_untracked(s));
        assert_int_equal(page_slot_end(s, 1), PAGE_END_DRAINED);
}

static void test_untracked(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        PageSlot *s = page_slot(&f->client, 0);

        assert_false(page_slot_count_untracked(s));
        assert_int_equal(page_slot_begin_open(s), 0);
        assert_int_equal(page_slot_set_watch(fake_slot(f, 0), PAGE_WATCH_READY | PAGE_WATCH_IDLE),
                        PAGE_OUTSTANDING_UNTRACKED);
        assert_int_equal(page_slot_begin(s), PAGE_BEGIN_COUNTED);
        assert_int_equal(page_slot_end(s, 1), 0); /* the rest may still run */

        /* A drain: a launch that passes uncounted during it is still known at its end. */
        assert_true(page_slot_count_untracked(s));
        assert_int_equal(atomic_load(&s->outstanding), 1);
        page_slot_set_watch(fake_slot(f, 0), 0);
        assert_int_equal(page_slot_begin_open(s), 0);
        assert_int_equal(page_slot_end(s, 1), 0);
        assert_int_equal(atomic_load(&s->outstanding), PAGE_OUTSTANDING_UNTRACKED);

        page_slot_set_watch(fake_slot(f, 0), PAGE_WATCH_READY | PAGE_WATCH_IDLE);
        assert_true(page_slot_count_untracked(s));
        assert_int_equal(page_slot_end(s, 1), PAGE_END_IDLE);
        assert_int_equal(atomic_load(&s->outstanding), 0);

        /* The gate was open, and the slot is watched by the time that the launch marks its edge. */
        assert_int_equal(page_slot_begin_open(s), PAGE_BEGIN_COUNTED | PAGE_BEGIN_EDGE);
        assert_int_equal(atomic_load(&s->outstanding), 1);
}

static void test_wait_without_waiting(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        PageSlot *s = page_slot(&f->client, 0);
        _Atomic uint32_t escape = 0;

        errno = ENOTUNIQ;
        assert_int_equal(page_slot_wait(f->client.header, s, &escape, NSEC_INFINITY), PAGE_WAIT_RUN);
        fake_verdict(f, 0, VERDICT_HOLD); /* no lease was ever written */
        assert_int_equal(page_slot_wait(f->client.header, s, NULL, NSEC_INFINITY), PAGE_WAIT_EXPIRED);
        page_set_lease(f->page.header, now_ns() - 1);
        assert_int_equal(page_slot_wait(f->client.header, s, NULL, NSEC_INFINITY), PAGE_WAIT_EXPIRED);
        page_set_lease(f->page.header, NSEC_INFINITY);
        atomic_store(&escape, 1);
        assert_int_equal(page_slot_wait(f->client.header, s, &escape, NSEC_INFINITY), PAGE_WAIT_RUN);
        assert_int_equal(errno, ENOTUNIQ);
        assert_int_equal(atomic_load(&s->waiters), 0);
}

typedef struct Waiter {
        FakeService *f;
        uint32_t slot;
        PageWait why;
        uint64_t at_ns;
        pthread_t thread;
} Waiter;

static void *waiter_main(void *p) {
        Waiter *w = p;
        PageSlot *s = page_slot(&w->f->client, w->slot);

        (void) page_slot_begin_wait(s);
        while ((w->why = page_slot_wait(w->f->client.header, s, NULL, NSEC_INFINITY)) == PAGE_WAIT_AGAIN)
                ;
        page_slot_end_wait(s);
        w->at_ns = now_ns();
        return NULL;
}

static bool slot_has_waiters(FakeService *f, uint32_t slot, uint32_t n) {
        return atomic_load(&fake_slot(f, slot)->waiters) == n;
}

static void test_release_wakes_all(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        Waiter w[8];

        fake_hold(f, 5, NSEC_INFINITY);
        for (size_t i = 0; i < ELEMENTSOF(w); i++) {
                w[i] = (Waiter){.f = f, .slot = 5, .why = PAGE_WAIT_AGAIN};
                assert_int_equal(pthread_create(&w[i].thread, NULL, waiter_main, &w[i]), 0);
        }
        assert_true(poll_until(slot_has_waiters(f, 5, ELEMENTSOF(w))));
        fake_run(f, 5);
        for (size_t i = 0; i < ELEMENTSOF(w); i++) {
                assert_int_equal(pthread_join(w[i].thread, NULL), 0);
                assert_int_equal(w[i].why, PAGE_WAIT_RUN);
        }
        assert_true(slot_has_waiters(f, 5, 0));
}

/* Tries a few times, because on a busy machine the test may look too late. */
static void test_lease_runs_out(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        uint64_t best = NSEC_INFINITY;

        for (int i = 0; i < 10 && best >= PAGE_LEASE_NS; i++) {
                Waiter w = {.f = f};
                uint64_t start = now_ns();

                fake_run(f, 0);
                fake_hold(f, 0, PAGE_LEASE_NS / 20);
                waiter_main(&w);
                assert_int_equal(w.why, PAGE_WAIT_EXPIRED);
                assert_true(w.at_ns >= atomic_load(&f->page.header->lease_until_ns));
                best = MIN(best, w.at_ns - start);
        }
        assert_true(best < PAGE_LEASE_NS);
}

/* A thread that has gone to sleep with one lease stays when the lease is renewed meanwhile. */
static void test_lease_is_renewed(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        bool renewed_in_time = false;

        for (int i = 0; i < 20 && !renewed_in_time; i++) {
                Waiter w = {.f = f};

                fake_run(f, 0);
                fake_hold(f, 0, PAGE_LEASE_NS / 20);
                uint64_t until = atomic_load(&f->page.header->lease_until_ns);
                assert_int_equal(pthread_create(&w.thread, NULL, waiter_main, &w), 0);
                while (!slot_has_waiters(f, 0, 1) && now_ns() < until)
                        sched_yield();
                page_set_lease(f->page.header, NSEC_INFINITY);
                renewed_in_time = now_ns() < until && slot_has_waiters(f, 0, 1);

                struct timespec nap = ns_to_timespec(ns_sub(until, now_ns()) + NSEC_PER_SEC / 50);
                nanosleep(&nap, NULL); /* past the first lease, because the test is about its renewal */
                if (renewed_in_time)
                        assert_true(poll_until(slot_has_waiters(f, 0, 1)));
                fake_run(f, 0);
                assert_int_equal(pthread_join(w.thread, NULL), 0);
                if (renewed_in_time)
                        assert_int_equal(w.why, PAGE_WAIT_RUN);
        }
        assert_true(renewed_in_time);
}

/* A service in a process of its own: it renews a lease until it is stopped. */
static pid_t service_that_renews(FakeService *f, uint64_t lease) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
                struct timespec nap = ns_to_timespec(lease / 10);
                page_set_lease(f->page.header, now_ns() + lease);
                nanosleep(&nap, NULL);
        }
}

static void test_stopped_service(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();
        const uint64_t lease = PAGE_LEASE_NS / 2;
        Waiter w = {.f = f};
        int status;

        fake_hold(f, 0, PAGE_LEASE_NS);
        pid_t pid = service_that_renews(f, lease);
        assert_int_equal(pthread_create(&w.thread, NULL, waiter_main, &w), 0);
        uint64_t first = atomic_load(&f->page.header->lease_until_ns);
        assert_true(poll_until(atomic_load(&f->page.header->lease_until_ns) > first + lease));
        assert_int_equal(kill(pid, SIGSTOP), 0);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        uint64_t stopped = now_ns(), until = atomic_load(&f->page.header->lease_until_ns);

        assert_int_equal(pthread_join(w.thread, NULL), 0); /* hangs if a stopped service's hold lasted */
        assert_int_equal(w.why, PAGE_WAIT_EXPIRED);
        assert_true(until < stopped + PAGE_LEASE_NS);
        assert_int_equal(atomic_load(&f->page.header->lease_until_ns), until);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
}

typedef struct EscapeWaiter {
        FakeService *f;
        const _Atomic uint32_t *escape;
        pthread_t thread;
} EscapeWaiter;

static void *escape_waiter_main(void *p) {
        EscapeWaiter *w = p;

        while (page_slot_wait(w->f->client.header, page_slot(&w->f->client, 0), w->escape, NSEC_INFINITY) ==
                        PAGE_WAIT_AGAIN)
                ;
        return NULL;
}

/* The kick must reach a thread at any point of its way to sleep. */
static void test_kick_is_never_lost(void **state) {
        _cleanup_(fake_service_freep)
        FakeService *f = fake_service_new();

        fake_hold(f, 0, NSEC_INFINITY);
        for (int i = 0; i < 2000; i++) {
                _Atomic uint32_t escape = 0;
                EscapeWaiter w = {.f = f, .escape = &escape};

                assert_int_equal(pthread_create(&w.thread, NULL, escape_waiter_main, &w), 0);
                for (volatile int spin = 0; spin < i % 100 * 50; spin++)
                        ;
                atomic_store(&escape, 1);
                page_slot_kick(page_slot(&f->client, 0));
                assert_int_equal(pthread_join(w.thread, NULL), 0); /* a lost kick hangs here */
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_create_and_open),
                        cmocka_unit_test(test_sealed),
                        cmocka_unit_test(test_hostile_files),
                        cmocka_unit_test(test_other_versions),
                        cmocka_unit_test(test_verdict_words),
                        cmocka_unit_test(test_edges),
                        cmocka_unit_test(test_drained),
                        cmocka_unit_test(test_in_flight),
                        cmocka_unit_test(test_untracked),
                        cmocka_unit_test(test_wait_without_waiting),
                        cmocka_unit_test(test_release_wakes_all),
                        cmocka_unit_test(test_lease_runs_out),
                        cmocka_unit_test(test_lease_is_renewed),
                        cmocka_unit_test(test_stopped_service),
                        cmocka_unit_test(test_kick_is_never_lost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
