/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate under all events at once: many threads launch and complete while verdicts, watches, leases and pages change
 *
 * The test checks the sums at the end: every launch passed exactly once, every tracked launch was completed exactly
 * once on the page that counted it, and the service's last look agrees with the truth. A lost wake-up hangs the test.
 */

#include <poll.h>
#include <pthread.h>

#include "shim/core/gate-count.h"
#include "shim/core/gate.h"
#include "tests/lib/deadline.h"
#include "tests/lib/fake-service.h"
#include "tests/lib/unit.h"

#define WATCH_ALL (PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED)

#define THREADS 64
#define ACTS    10000

typedef struct Stress {
        Gate gate;
        FakeService *services[2];
        uint32_t slots[2]; /* the queue's current or last slot on each page */
        _Atomic unsigned threads_left;
        _Atomic uint64_t launched;
        _Atomic uint64_t tracked;
        _Atomic uint64_t to_complete; /* launches that another thread has to complete */
        _Atomic bool stop_launching, stop_completing;
} Stress;

static uint64_t next_random(uint64_t *seed) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

static void *launcher_main(void *p) {
        Stress *x = p;
        uint64_t seed = (uint64_t) (uintptr_t) &seed | 1;

        while (!atomic_load(&x->stop_launching)) {
                struct timespec nap = {.tv_nsec = 1000};
                if (next_random(&seed) % 8 == 0)
                        nanosleep(&nap, NULL); /* lets the other threads run on a machine with two processors */
                atomic_fetch_add(&x->launched, 1);
                if (!gate_begin(&x->gate, next_random(&seed) % 16 == 0 ? GATE_NOWAIT : GATE_WAIT))
                        continue;
                atomic_fetch_add(&x->tracked, 1);
                if (next_random(&seed) % 2)
                        gate_complete(&x->gate, 1, seed % 100000);
                else
                        atomic_fetch_add(&x->to_complete, 1);
        }
        atomic_fetch_sub(&x->threads_left, 1);
        return NULL;
}

static void *completer_main(void *p) {
        Stress *x = p;

        while (!atomic_load(&x->stop_completing) || atomic_load(&x->to_complete) > 0) {
                uint64_t n = atomic_exchange(&x->to_complete, 0);
                gate_complete(&x->gate, (uint32_t) n, 0);
                sched_yield();
        }
        return NULL;
}

/* Attaches the gate as after a new registration, in a slot that it never had. */
static uint32_t attach_anew(Stress *x, size_t which) {
        FakeService *f = x->services[which];
        int r = gate_attach(&x->gate, &f->client, x->slots[which] + 1, f->wake);

        if (r >= 0)
                x->slots[which]++;
        return r > 0 ? 1 : 0;
}

/* Plays one random act of the service and the control thread. Returns the number of launches to end as drained. */
static uint32_t act(Stress *x, uint64_t random) {
        size_t which = random / 16 % 2;
        FakeService *f = x->services[which];
        uint32_t slot = x->slots[which];
        PageSlot *s = fake_slot(f, slot);

        switch (random % 16) {
        case 0 ... 2:
                fake_hold(f, slot, random / 32 % 2 ? NSEC_PER_MSEC : PAGE_LEASE_NS);
                return 0;
        case 3 ... 6:
                fake_run(f, slot);
                return 0;
        case 7 ... 8:
                page_slot_set_watch(s, WATCH_ALL);
                return 0;
        case 9:
                page_slot_set_watch(s, 0);
                return 0;
        case 10:
                atomic_store(&s->threshold, (uint32_t) (random / 32 % 3));
                return 0;
        case 11 ... 12:
                return gate_adopt(&x->gate) ? 1 : 0;
        case 13:
                gate_detach(&x->gate);
                return 0;
        case 14:
                return attach_anew(x, which);
        default:
                gate_boost(&x->gate);
                return 0;
        }
}

static bool is_seated(const Stress *x, size_t which, uint32_t slot) {
        const PageSlot *s = page_slot(&x->services[which]->client, slot);

        return atomic_load(&x->gate.seats[0].slot) == s || atomic_load(&x->gate.seats[1].slot) == s;
}

static void test_conservation(void **state) {
        Stress *x = aligned_alloc(_Alignof(Stress), sizeof(Stress));
        pthread_t threads[THREADS], completer;
        uint64_t seed = 88172645463325252;

        memset(x, 0, sizeof(*x));
        gate_init(&x->gate, true);
        for (size_t i = 0; i < 2; i++)
                x->services[i] = fake_service_new();
        atomic_store(&x->threads_left, THREADS);
        assert_int_equal(pthread_create(&completer, NULL, completer_main, x), 0);
        for (size_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, launcher_main, x), 0);

        for (int i = 0; i < ACTS; i++) {
                struct timespec nap = {.tv_nsec = 20000};
                gate_end(&x->gate, act(x, next_random(&seed)));
                nanosleep(&nap, NULL); /* lets the launchers run */
        }
        atomic_store(&x->stop_launching, true);
        while (atomic_load(&x->threads_left) > 0)
                for (size_t i = 0; i < 2; i++) {
                        struct timespec nap = {.tv_nsec = 100000};
                        fake_run(x->services[i], x->slots[i]);
                        nanosleep(&nap, NULL);
                }
        for (size_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        atomic_store(&x->stop_completing, true);
        assert_int_equal(pthread_join(completer, NULL), 0);

        GateCounters c = {};
        gate_read(&x->gate, &c);
        /* A thread may count a launch in a slot that the gate has since left twice: here pages change a thousand times
         * faster than in a real process. */
        for (size_t i = 0; i < 2; i++)
                for (uint32_t slot = 0; slot <= x->slots[i]; slot++)
                        if (!is_seated(x, i, slot))
                                c.launches += atomic_load(&fake_slot(x->services[i], slot)->submitted);
        assert_int_equal(c.launches, atomic_load(&x->launched));
        assert_int_equal(c.tracked, atomic_load(&x->tracked));
        assert_int_equal(atomic_load(&x->gate.completed), c.tracked);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(atomic_load(&x->gate.seats[i].users), 0);
                for (uint32_t slot = 0; slot <= x->slots[i]; slot++) {
                        assert_int_equal(fake_counted(x->services[i], slot), 0);
                        assert_int_equal(atomic_load(&fake_slot(x->services[i], slot)->waiters), 0);
                }
        }
        print_message("%llu launches, %llu tracked, %llu waited\n", (unsigned long long) c.launches,
                        (unsigned long long) c.tracked, (unsigned long long) c.waited);
        assert_true(c.waited > 0);
        assert_true(c.tracked > 0);

        gate_detach(&x->gate);
        for (size_t i = 0; i < 2; i++)
                fake_service_free(x->services[i]);
        free(x);
}

/* --- the service's view --- */

typedef struct Observer {
        FakeService *f;
        uint32_t known; /* `outstanding` as of the last look */
        uint64_t looks;
        _Atomic bool stop;
} Observer;

/* Looks only when it is woken, as the service does. */
static void *observer_main(void *p) {
        Observer *o = p;
        struct pollfd fd = {.fd = o->f->wake, .events = POLLIN};

        while (!atomic_load(&o->stop) || poll(&fd, 1, 0) > 0) {
                if (poll(&fd, 1, 10) <= 0)
                        continue;
                if (fake_take_edge(o->f, 0)) {
                        o->known = atomic_load(&fake_slot(o->f, 0)->outstanding);
                        o->looks++;
                }
        }
        return NULL;
}

static void *pulse_main(void *p) {
        Gate *g = p;
        uint64_t seed = (uint64_t) (uintptr_t) &seed | 1;

        for (int i = 0; i < 5000; i++) {
                uint32_t n = 0;
                for (uint64_t k = next_random(&seed) % 3; k > 0; k--)
                        n += (uint32_t) gate_begin(g, GATE_WAIT);
                if (n > 0)
                        gate_complete(g, n, 0);
        }
        return NULL;
}

static void test_no_edge_lost(void **state) {
        for (unsigned n_threads = 1; n_threads <= 4; n_threads *= 2) {
                Gate *g = aligned_alloc(_Alignof(Gate), sizeof(Gate));
                Observer o = {.f = fake_service_new()};
                pthread_t observer, threads[4];

                gate_init(g, true);
                assert_int_equal(gate_attach(g, &o.f->client, 0, o.f->wake), 0);
                page_slot_set_watch(fake_slot(o.f, 0), WATCH_ALL);
                assert_int_equal(pthread_create(&observer, NULL, observer_main, &o), 0);
                for (unsigned i = 0; i < n_threads; i++)
                        assert_int_equal(pthread_create(&threads[i], NULL, pulse_main, g), 0);
                for (unsigned i = 0; i < n_threads; i++)
                        assert_int_equal(pthread_join(threads[i], NULL), 0);

                /* One launch stays in flight: the last edge is a ready edge. */
                assert_int_equal(atomic_load(&fake_slot(o.f, 0)->outstanding), 0);
                assert_int_equal(gate_begin(g, GATE_WAIT), 1);
                atomic_store(&o.stop, true);
                assert_int_equal(pthread_join(observer, NULL), 0);
                assert_int_equal(o.known, 1);
                assert_true(o.looks > 0);

                gate_complete(g, 1, 0);
                o.stop = true;
                observer_main(&o);
                assert_int_equal(o.known, 0);
                gate_detach(g);
                fake_service_free(o.f);
                free(g);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_conservation),
                        cmocka_unit_test(test_no_edge_lost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
