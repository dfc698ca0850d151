/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Totals of groups where there is no room for their files
 */

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/base/log.h"
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
#define N_MOST  1000U

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

/* A launch that is over before the service hears of it. */
static void work_unseen(Queue *q) {
        atomic_store(&q->page_slot->ready_since_ns, now_ns());
        assert_true(page_slot_begin(q->page_slot) & PAGE_BEGIN_EDGE);
        atomic_store(&q->page_slot->launched_ns, now_ns());
        own_clock_pass(TURN_NS);
        atomic_fetch_add(&q->page_slot->busy_ns, TURN_NS);
        atomic_store(&q->page_slot->drained_ns, now_ns());
        assert_true(finish_in_turn(q));
}

static void check_stream(unsigned n_clients, uint64_t apart_ns) {
        static const ObserverOps ops = {.totals_saved = on_saved};
        unsigned n = 0;
        Manager *m = manager_make();
        Process p[N_MOST];
        Queue *q[N_MOST];

        log_set_max_level(LOG_WARNING); /* nothing of each group's end */
        for (unsigned i = 0; i < n_clients; i++) {
                char cgroup[32];

                (void) snprintf(cgroup, sizeof(cgroup), "/%u.service", i);
                p[i] = join(m, cgroup, 0);
                q[i] = queue(&p[i], "d", 0);
        }
        assert_int_equal(observer_add(m, &ops, &n), 0);
        pass(m, 2 * ARBITER_SETTLE_NS);
        n = 0;
        for (uint64_t until = now_ns() + 10 * apart_ns, i = 0; now_ns() < until; i++) {
                work_unseen(q[i % n_clients]);
                pass(m, TURN_NS);
                assert_int_equal(q[0]->device->state, DEVICE_QUIET);
        }
        assert_in_range(n, 9, 10);
        n = 0;
        pass(m, apart_ns);
        assert_int_equal(n, 1);
        for (unsigned i = 0; i < n_clients; i++)
                assert_saved(q[i]->entity);
        assert_true(q[0]->entity->saved.run_ns > 0);
        assert_true(dues_next(&m->dues) == NSEC_INFINITY);
        for (unsigned i = 0; i < n_clients; i++)
                leave(&p[i]);
        manager_free(m);
}

/* An idle device that hears edges in a stream has the table written as rarely as its entities are many, and once more
 * when the stream has ended, and then not again. */
static void test_stream(void **state) {
        check_stream(2, TOTALS_IDLE_NS + 2 * TOTALS_ENTITY_NS);
        check_stream(50, TOTALS_IDLE_NS + 50 * TOTALS_ENTITY_NS);
        check_stream(N_MOST, TOTALS_BUSY_NS);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_no_room_for_a_table),
                        cmocka_unit_test(test_no_table),
                        cmocka_unit_test(test_another_table),
                        cmocka_unit_test(test_no_room_for_a_copy),
                        cmocka_unit_test(test_pauses),
                        cmocka_unit_test(test_stream),
        };

        (void) signal(SIGXFSZ, SIG_IGN);
        return cmocka_run_group_tests_name("group-totals", tests, NULL, NULL);
}
