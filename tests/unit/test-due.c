/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Due times
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/macro.h"
#include "common/time-util.h"
#include "service/core/due.h"

#define N_DUES 100U

typedef struct Thing {
        Due due;
        unsigned n_calls;
        uint64_t again_at;
} Thing;

static void on_due(Due *d) {
        Thing *t = container_of(d, Thing, due);

        assert_true(d->at == NSEC_INFINITY);
        t->n_calls++;
        due_set(d, t->again_at);
}

static void test_earliest_is_first(void **state) {
        static Thing things[N_DUES];
        Dues dues = {};

        srandom(12);
        for (unsigned i = 0; i < N_DUES; i++) {
                things[i] = (Thing){.again_at = NSEC_INFINITY};
                due_init(&things[i].due, &dues, on_due);
        }
        assert_true(dues_next(&dues) == NSEC_INFINITY);

        for (unsigned round = 0; round < 20000; round++) {
                uint64_t at = random() % 4 == 0 ? NSEC_INFINITY : (uint64_t) random() % 1000;
                uint64_t by = random() % 2 == 0 ? at : ns_add(at, (uint64_t) random() % 1000);
                due_set_by(&things[(unsigned) random() % N_DUES].due, at, by);

                uint64_t earliest = NSEC_INFINITY, latest = NSEC_INFINITY;
                for (unsigned i = 0; i < N_DUES; i++) {
                        earliest = MIN(earliest, things[i].due.at);
                        latest = MIN(latest, things[i].due.by);
                }
                assert_true(dues_next(&dues) == earliest);
                assert_true(dues_latest(&dues) == latest);
        }

        for (uint64_t now = 0; now <= 1000; now++) {
                unsigned n = 0;
                for (unsigned i = 0; i < N_DUES; i++)
                        n += things[i].due.at <= now;
                assert_int_equal(dues_turn(&dues, now), n);
        }
        assert_true(dues_next(&dues) == NSEC_INFINITY);
        assert_true(dues_latest(&dues) == NSEC_INFINITY);
        for (unsigned i = 0; i < N_DUES; i++)
                due_done(&things[i].due);
}

/* A handler that is due again at once is called again in the loop's next turn: no handler blocks the loop. */
static void test_once_a_turn(void **state) {
        Thing a = {.again_at = 5}, b = {.again_at = NSEC_INFINITY};
        Dues dues = {};

        due_init(&a.due, &dues, on_due);
        due_init(&b.due, &dues, on_due);
        due_set(&a.due, 5);
        due_set(&b.due, 6);
        assert_int_equal(dues_turn(&dues, 4), 0);
        assert_true(dues_turn(&dues, 5) <= 2);
        unsigned before = a.n_calls;
        assert_true(before >= 1 && before <= 2);
        (void) dues_turn(&dues, 5);
        assert_true(a.n_calls > before);
        assert_int_equal(b.n_calls, 0);

        /* A due handler that is freed is not called. */
        due_done(&a.due);
        assert_int_equal(dues_turn(&dues, 6), 1);
        assert_int_equal(b.n_calls, 1);
        due_done(&b.due);
        due_done(&b.due);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_earliest_is_first),
                        cmocka_unit_test(test_once_a_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
