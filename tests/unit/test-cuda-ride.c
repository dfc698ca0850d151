/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rides of short launches: who may begin, what is counted, and when a ride can be closed
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "common/time-util.h"
#include "shim/cuda/cuda-ride.h"
#include "tests/lib/single-step.h"
#include "tests/lib/unit.h"

#define US        NSEC_PER_USEC
#define N_THREADS 4
#define N_OPENED  5000

static void test_begins(void **state) {
        CudaRide r = {};
        uint64_t ticket = 0;
        uint64_t ns = 0;

        assert_false(cuda_ride_begin(&r, 1 * US, &ticket)); /* not open */
        cuda_ride_open(&r, 2, 5 * US);
        assert_true(cuda_ride_is_open(&r));
        assert_false(cuda_ride_begin(&r, 0, &ticket)); /* of unknown length */
        assert_false(cuda_ride_begin(&r, 5 * US + 1, &ticket));
        assert_true(cuda_ride_begin(&r, 5 * US, &ticket));
        assert_false(cuda_ride_was_last(ticket));
        assert_true(cuda_ride_begin(&r, 1 * US, &ticket));
        assert_true(cuda_ride_was_last(ticket));
        assert_false(cuda_ride_begin(&r, 1 * US, &ticket)); /* full */

        assert_int_equal(cuda_ride_take(&r, &ns), 0);
        cuda_ride_end(&r, ticket, 5 * US, true);
        cuda_ride_end(&r, ticket, 1 * US, false); /* was not made */
        assert_false(cuda_ride_begin(&r, 1 * US, &ticket));
        assert_int_equal(cuda_ride_take(&r, &ns), 1);
        assert_int_equal(ns, 5 * US);
        assert_int_equal(cuda_ride_take(&r, &ns), 0);
}

static void test_closes(void **state) {
        CudaRide r = {};
        uint64_t ticket = 0;
        uint64_t ns;

        cuda_ride_open(&r, 5, US);
        assert_true(cuda_ride_begin(&r, US, &ticket));
        assert_false(cuda_ride_close(&r)); /* a launch is on it */
        assert_true(cuda_ride_is_open(&r));
        cuda_ride_end(&r, ticket, US, true);
        assert_false(cuda_ride_close(&r)); /* it was not taken */
        assert_int_equal(cuda_ride_take(&r, &ns), 1);
        assert_true(cuda_ride_close(&r));
        assert_false(cuda_ride_is_open(&r));
        assert_false(cuda_ride_begin(&r, US, &ticket));
        cuda_ride_open(&r, 1, US);
        assert_true(cuda_ride_begin(&r, US, &ticket)); /* the room that was left has gone with the close */
        assert_false(cuda_ride_begin(&r, US, &ticket));
}

static void test_stops(void **state) {
        CudaRide r = {};
        uint64_t inside = 0, ticket = 0;
        uint64_t ns;

        cuda_ride_open(&r, 5, US);
        assert_true(cuda_ride_begin(&r, US, &inside));
        cuda_ride_stop(&r);
        assert_true(cuda_ride_is_open(&r));
        assert_false(cuda_ride_begin(&r, US, &ticket));
        cuda_ride_end(&r, inside, US, true);
        assert_int_equal(cuda_ride_take(&r, &ns), 1);
        cuda_ride_open(&r, 5, US);
        assert_true(cuda_ride_begin(&r, US, &ticket));
}

/* What was on a ride that was reset does not count on the next one. */
static void test_reset(void **state) {
        CudaRide r = {};
        uint64_t old = 0, ticket = 0;
        uint64_t ns;

        cuda_ride_open(&r, 5, US);
        assert_true(cuda_ride_begin(&r, US, &old));
        cuda_ride_reset(&r);
        assert_false(cuda_ride_is_open(&r));
        cuda_ride_end(&r, old, US, true);
        assert_int_equal(cuda_ride_take(&r, &ns), 0);
        assert_true(cuda_ride_close(&r));

        cuda_ride_open(&r, 5, US);
        assert_true(cuda_ride_begin(&r, US, &ticket));
        cuda_ride_end(&r, old, US, true);
        assert_false(cuda_ride_close(&r));
        cuda_ride_end(&r, ticket, US, true);
        assert_int_equal(cuda_ride_take(&r, &ns), 1);
        for (unsigned i = 0; i < 0x2001; i++) /* the generation begins anew, and nothing else changes */
                cuda_ride_reset(&r);
        assert_false(cuda_ride_is_open(&r));
        assert_true(cuda_ride_close(&r));
}

/* However many and long they are, what is counted of them in one word does not run over into the next part. */
static void test_room(void **state) {
        CudaRide r = {};
        uint64_t ticket = 0;
        uint32_t n = 0;
        uint64_t ns;

        cuda_ride_open(&r, 5000, US);
        for (; !cuda_ride_was_last(ticket); n++)
                assert_true(cuda_ride_begin(&r, US, &ticket));
        assert_int_equal(n, CUDA_RIDE_MAX);
        cuda_ride_open(&r, 5000, US);
        assert_false(cuda_ride_begin(&r, US, &ticket));
        for (uint32_t i = 0; i < n; i++)
                cuda_ride_end(&r, ticket, US, true);
        assert_int_equal(cuda_ride_count(&r), n);
        cuda_ride_open(&r, 5000, US);
        assert_false(cuda_ride_begin(&r, US, &ticket));
        assert_int_equal(cuda_ride_take(&r, &ns), n);
        assert_int_equal(ns, n * US);

        cuda_ride_open(&r, 5000, 30 * US);
        for (n = 0, ticket = 0; !cuda_ride_was_last(ticket); n++)
                assert_true(cuda_ride_begin(&r, 30 * US, &ticket));
        assert_in_range(n, 10, CUDA_RIDE_MAX - 1);
        for (uint32_t i = 0; i < n; i++)
                cuda_ride_end(&r, ticket, 30 * US, true);
        cuda_ride_open(&r, 5000, US); /* there may be some time left for short ones */
        for (ticket = 0; !cuda_ride_was_last(ticket) && cuda_ride_begin(&r, US, &ticket); n++)
                cuda_ride_end(&r, ticket, US, true);
        assert_int_equal(cuda_ride_take(&r, &ns), n);
        assert_in_range(ns, 500 * US, 0xFFFFF);
        assert_true(cuda_ride_close(&r));
}

/* Launches of a long kind are still inside when the ride is opened for a short one. */
static void test_long_inside(void **state) {
        CudaRide r = {};
        uint64_t inside[20], ticket = 0, ns;
        uint32_t n = 0;

        cuda_ride_open(&r, 256, 30 * US);
        for (size_t i = 0; i < ELEMENTSOF(inside); i++)
                assert_true(cuda_ride_begin(&r, 30 * US, &inside[i]));
        cuda_ride_open(&r, 256, 3 * US);
        cuda_ride_open(&r, 256, 3 * US);
        for (; cuda_ride_begin(&r, 3 * US, &ticket); n++)
                cuda_ride_end(&r, ticket, 3 * US, true);
        assert_true(n > 0);
        for (size_t i = 0; i < ELEMENTSOF(inside); i++)
                cuda_ride_end(&r, inside[i], 30 * US, true);
        assert_int_equal(cuda_ride_take(&r, &ns), n + ELEMENTSOF(inside));
        assert_int_equal(ns, (n + 10 * ELEMENTSOF(inside)) * 3 * US);
        assert_true(cuda_ride_close(&r));
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) /* with that one, too many instructions */
static CudaRide stepped;
static uint32_t step, step_at, n_made;

static void launch_at_step(int sig) {
        uint64_t ticket;

        if (step++ != step_at)
                return;
        for (; cuda_ride_begin(&stepped, 30 * US, &ticket); n_made++)
                cuda_ride_end(&stepped, ticket, 30 * US, true);
}

/* At each instruction of the call that opens the ride for a longer kind, as many of that begin as may. */
static void test_opens_for_longer(void **state) {
        const struct sigaction action = {.sa_handler = launch_at_step};
        struct sigaction before;
        uint32_t n_with_launches = 0;
        uint64_t ns;

        assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
        for (step_at = 0, step = 1; step_at < step; step_at++) {
                stepped = (CudaRide){};
                step = n_made = 0;
                cuda_ride_open(&stepped, 256, 3 * US);
                single_step_begin();
                cuda_ride_open(&stepped, 27, 30 * US);
                single_step_end();
                n_with_launches += n_made > 0;
                assert_int_equal(atomic_load(&stepped.word) & CUDA_RIDE_GENERATIONS, 0);
                ns = 0;
                assert_int_equal(cuda_ride_take(&stepped, &ns), n_made);
                assert_int_equal(ns, n_made * (30 * US));
                assert_true(cuda_ride_close(&stepped));
        }
        assert_true(n_with_launches > 0);
        assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
}
#endif

/* A handler has jumped out of a launch that has no record. */
static void test_gives_up(void **state) {
        const uint64_t start = 5 * NSEC_PER_SEC;
        CudaRide r = {};
        uint64_t left = 0, ticket = 0;
        uint64_t ns;

        cuda_ride_open(&r, 5, US);
        assert_true(cuda_ride_begin(&r, US, &left));
        assert_false(cuda_ride_close(&r));
        assert_false(cuda_ride_give_up(&r, start));
        assert_false(cuda_ride_give_up(&r, start + NSEC_PER_SEC - 1));
        assert_true(cuda_ride_begin(&r, US, &ticket)); /* the program goes on */
        cuda_ride_end(&r, ticket, US, true);
        assert_int_equal(cuda_ride_take(&r, &ns), 1);
        assert_false(cuda_ride_close(&r));
        assert_false(cuda_ride_give_up(&r, start + 2 * NSEC_PER_SEC));
        assert_true(cuda_ride_give_up(&r, start + 3 * NSEC_PER_SEC));
        assert_false(cuda_ride_is_open(&r));
        assert_true(cuda_ride_close(&r));
        cuda_ride_end(&r, left, US, true);
        assert_int_equal(cuda_ride_take(&r, &ns), 0);
}

typedef struct Race {
        CudaRide ride;
        _Atomic bool over;
        _Atomic uint32_t inside; /* what the threads know themselves */
        _Atomic uint64_t made, made_ns;
} Race;

static void *launch_main(void *userdata) {
        Race *race = userdata;
        uint64_t ticket = 0;

        for (uint64_t i = 0; !atomic_load(&race->over); i++) {
                uint64_t ns = 1 + i % 7;
                atomic_fetch_add(&race->inside, 1); /* before it begins, until after it has ended */
                if (cuda_ride_begin(&race->ride, ns, &ticket)) {
                        bool made = i % 11 != 0;
                        if (made) {
                                atomic_fetch_add(&race->made, 1);
                                atomic_fetch_add(&race->made_ns, ns);
                        }
                        cuda_ride_end(&race->ride, ticket, ns, made);
                }
                atomic_fetch_sub(&race->inside, 1);
        }
        return NULL;
}

/* All that began were not made. */
static bool race_is_full(Race *race) {
        return cuda_ride_field(atomic_load(&race->ride.word), CUDA_RIDE_ROOM) == 0;
}

/* Threads launch, and one has the lock. Nothing is lost or counted twice, no more begin than there is room for, and
 * what was made before a close has been taken before it. */
static void test_threads(void **state) {
        Race race = {};
        pthread_t threads[N_THREADS];
        uint64_t taken = 0, taken_ns = 0, ns, room = 0, n_closed = 0;

        for (size_t i = 0; i < N_THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, launch_main, &race), 0);
        for (unsigned i = 0; i < N_OPENED; i++) {
                uint64_t before = atomic_load(&race.made);
                cuda_ride_open(&race.ride, 1 + i % 5, 7);
                room += 1 + i % 5;
                while (i % 64 == 0 && atomic_load(&race.made) == before && !race_is_full(&race))
                        sched_yield();
                for (unsigned k = 0; !cuda_ride_close(&race.ride) && k < 1000; k++) {
                        uint32_t n = cuda_ride_take(&race.ride, &ns);
                        taken += n;
                        taken_ns += n > 0 ? ns : 0;
                }
                if (cuda_ride_is_open(&race.ride))
                        continue;
                n_closed++;
                assert_int_equal(atomic_load(&race.made), taken);
        }
        atomic_store(&race.over, true);
        for (size_t i = 0; i < N_THREADS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        uint32_t n = cuda_ride_take(&race.ride, &ns);
        taken += n;
        taken_ns += n > 0 ? ns : 0;
        assert_int_equal(atomic_load(&race.inside), 0);
        assert_int_equal(taken, atomic_load(&race.made));
        assert_int_equal(taken_ns, atomic_load(&race.made_ns));
        assert_true(taken > 0 && taken <= room);
        assert_true(n_closed > 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_begins),
                cmocka_unit_test(test_closes),
                cmocka_unit_test(test_stops),
                cmocka_unit_test(test_reset),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_long_inside),
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
                cmocka_unit_test(test_opens_for_longer),
#endif
                cmocka_unit_test(test_gives_up),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
