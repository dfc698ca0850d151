/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Totals of groups where there is no room for their files
 */

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/core/group-totals.h"
#include "service/core/observer.h"
#include "service/core/usage.h"
#include "service/state/totals-file.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

typedef struct Place {
        char runtime[64], state[64];
} Place;

static void make_directory(char path[static 64], const char *variable) {
        (void) snprintf(path, 64, "/tmp/test-group-totals-XXXXXX");
        assert_non_null(mkdtemp(path));
        assert_int_equal(setenv(variable, path, 1), 0);
}

static Place place(void) {
        Place p;

        make_directory(p.runtime, "RUNTIME_DIRECTORY");
        make_directory(p.state, "STATE_DIRECTORY");
        return p;
}

static void remove_from(const char *directory, bool totals) {
        char name[128];

        (void) snprintf(name, sizeof(name), "%s/" TOTALS_FILE, directory);
        assert_int_equal(unlink(name) == 0, totals);
        assert_int_equal(rmdir(directory), 0); /* nothing else is left there */
}

/* Allows no file to grow, as on a full file system. */
static void set_full(bool full) {
        struct rlimit l;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
        l.rlim_cur = full ? 0 : l.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static Manager *start(bool full) {
        Manager *m = manager_make();

        set_full(full);
        totals_file_open(m, true);
        set_full(false);
        return m;
}

/* Stops the service; `full`: the disk is full then. */
static void stop(Manager *m, bool full) {
        set_full(full);
        manager_free(m);
        set_full(false);
}

static uint64_t *counter(Manager *m, const char *name) {
        TotalsSlot *s = totals_get(&m->totals, name, name[0] != '/');

        assert_non_null(s);
        return &s->run_ns;
}

static bool is_degraded(const Manager *m, const char *key) {
        for (char **s = m->degraded; s && *s; s++)
                if (strncmp(*s, key, strlen(key)) == 0 && (*s)[strlen(key)] == ':')
                        return true;
        return false;
}

/* The existing table is used on; no counter falls, however the next services end. */
static void test_no_room_for_a_table(void **state) {
        Place p = place();
        Manager *m = start(false);

        assert_false(is_degraded(m, "counters"));
        *counter(m, "a.service") = 10;
        stop(m, false);

        m = start(true);
        assert_false(is_degraded(m, "counters"));
        assert_int_equal(*counter(m, "a.service"), 10);
        *counter(m, "a.service") = 20;
        *counter(m, "/user/1") = 5;
        stop(m, true); /* the copy has 10 */

        m = start(true);
        assert_int_equal(*counter(m, "a.service"), 20);
        assert_int_equal(*counter(m, "/user/1"), 5);
        *counter(m, "a.service") = 30;
        stop(m, true);

        m = start(false);
        assert_int_equal(*counter(m, "a.service"), 30);
        stop(m, false);
        remove_from(p.runtime, true);
        remove_from(p.state, true);
}

/* No table can be made: that is logged, and only the copy on the disk is left. */
static void test_no_table(void **state) {
        Place p = place();
        Manager *m = start(true);

        assert_true(is_degraded(m, "counters"));
        *counter(m, "a.service") = 10;
        stop(m, false);

        m = start(true);
        assert_int_equal(*counter(m, "a.service"), 10);
        stop(m, false);
        remove_from(p.runtime, false);
        remove_from(p.state, true);
}

/* A file in the table's place that is no table of ours does not keep newer counters from being kept. */
static void test_another_table(void **state) {
        Place p = place();
        Manager *m = start(false);
        char name[128];

        *counter(m, "a.service") = 10;
        stop(m, false);
        (void) snprintf(name, sizeof(name), "%s/" TOTALS_FILE, p.runtime);
        assert_int_equal(unlink(name), 0);
        assert_int_equal(symlink("/nonexistent", name), 0);

        m = start(true);
        assert_true(is_degraded(m, "counters"));
        *counter(m, "a.service") += 10;
        stop(m, false);
        (void) unlink(name);

        m = start(false);
        assert_int_equal(*counter(m, "a.service"), 20);
        stop(m, false);
        remove_from(p.runtime, true);
        remove_from(p.state, true);
}

/* The message is logged while the state lasts. */
static void test_no_room_for_a_copy(void **state) {
        Place p = place();
        Manager *m = start(false);

        assert_false(is_degraded(m, "stored counters"));
        set_full(true);
        totals_file_store(m);
        set_full(false);
        assert_true(is_degraded(m, "stored counters"));
        totals_file_store(m);
        assert_false(is_degraded(m, "stored counters"));
        stop(m, false);
        remove_from(p.runtime, true);
        remove_from(p.state, true);
}

/* --- when the table is written --- */

#define TURN_NS (1 * NSEC_PER_MSEC)

static void on_saved(Manager *m, uint64_t now_ns, void *userdata) {
        ++*(unsigned *) userdata;
}

static void pass(Manager *m, uint64_t ns) {
        for (uint64_t until = now_ns() + ns; now_ns() < until;) {
                own_clock_pass(TURN_NS);
                (void) dues_turn(&m->dues, now_ns());
                manager_end_turn(m);
        }
}

/* The first `n` clients work in turns, for as long, with pauses between. */
static void work(Manager *m, Queue *const *q, unsigned n, uint64_t ns) {
        for (uint64_t until = now_ns() + ns, i = 0; now_ns() < until; i++) {
                begin(q[i % n]);
                pass(m, 3 * TURN_NS);
                finish(q[i % n]);
                pass(m, 2 * TURN_NS);
        }
}

static void assert_saved(Entity *e) {
        const PolicyUsage saved = e->saved;
        PolicyUsage u;

        entity_usage(e, now_ns(), &u);
        assert_int_equal(saved.run_ns, u.run_ns);
        assert_int_equal(saved.wait_ns, u.wait_ns);
}

/* At work that pauses now and then the table is written as rarely as at work that does not, and yet it has all when the
 * device comes to rest. */
static void test_pauses(void **state) {
        static const ObserverOps ops = {.totals_saved = on_saved};
        unsigned n = 0;
        Manager *m = manager_make();
        Process a = join(m, "/a.service", 0), b = join(m, "/b.service", 0);
        Queue *const q[] = {queue(&a, "d", 0), queue(&b, "d", 0)};

        assert_int_equal(observer_add(m, &ops, &n), 0);
        work(m, q, 2, NSEC_PER_SEC / 10);
        n = 0;
        work(m, q, 2, 5 * NSEC_PER_SEC);
        assert_in_range(n, 4, 6);
        for (unsigned i = 0; i < 40; i++) {
                work(m, q, 2, TOTALS_BUSY_NS * 7 / 10 + i * (10 * NSEC_PER_MSEC));
                work(m, q, 1, ARBITER_SETTLE_NS * 9 / 10); /* it rests soon after this */
                pass(m, 2 * ARBITER_SETTLE_NS);
                assert_int_equal(q[0]->device->state, DEVICE_QUIET);
                assert_saved(q[0]->entity);
                assert_saved(q[1]->entity);
        }
        leave(&a);
        leave(&b);
        manager_free(m);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_no_room_for_a_table),
                        cmocka_unit_test(test_no_table),
                        cmocka_unit_test(test_another_table),
                        cmocka_unit_test(test_no_room_for_a_copy),
                        cmocka_unit_test(test_pauses),
        };

        (void) signal(SIGXFSZ, SIG_IGN);
        return cmocka_run_group_tests_name("group-totals", tests, NULL, NULL);
}
