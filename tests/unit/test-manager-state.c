/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The manager's state over a restart: the next service finds it complete at any time, and the bytes written for a
 * change do not grow with the rest of the state
 */

#include <sys/syscall.h>

#include "service/core/job.h"
#include "service/core/observer.h"
#include "service/core/user.h"
#include "service/state/manager-state.h"
#include "tests/unit/arbiter-harness.h"

#define JOBS     64U
#define GROUPS   16U
#define ROUNDS   6000U
#define SOMEBODY 12345U

typedef struct World {
        Manager *m;
        Job *jobs[JOBS];
        Group *groups[GROUPS];
        int pidfd;
        unsigned seed;
} World;

static unsigned any(World *w, unsigned n) {
        return (unsigned) rand_r(&w->seed) % n;
}

static void make_job(World *w, unsigned i) {
        JobParameters p = {.name = "test", .uid = i % 2 ? SOMEBODY : 0, .lowers = any(w, 2)};

        assert_int_equal(settings_set_priority(&p.settings, (int) any(w, 100)), 0);
        assert_int_equal(job_new(w->m, &p, w->pidfd, &w->jobs[i]), 0);
}

/* The group of a unit that does not run; it exists only for its settings. */
static Group *group_of(World *w, unsigned i) {
        char name[64];
        Group *g;

        (void) snprintf(name, sizeof(name), "test-%u.service", i);
        assert_int_equal(group_get(w->m, name, &g), 0);
        return g;
}

static void set_group(World *w, unsigned i) {
        Group *g = group_of(w, i);

        if (any(w, 3) == 0)
                g->override = SETTINGS_NULL;
        else
                assert_int_equal(settings_set_priority(&g->override, (int) any(w, 100)), 0);
        observers_group_changed(g, GROUP_KEPT);
        group_gc(g);
}

static World *world_make(void) {
        World *w = calloc(1, sizeof(*w));

        assert_non_null(w);
        w->m = manager_make();
        w->seed = 4711;
        w->pidfd = (int) syscall(SYS_pidfd_open, getpid(), 0);
        assert_true(w->pidfd >= 0);
        assert_int_equal(manager_state_open(w->m, -EBADF), 0);
        return w;
}

static void world_free(World *w) {
        for (unsigned i = 0; i < JOBS; i++)
                job_free(w->jobs[i]);
        safe_close(w->pidfd);
        manager_free(w->m);
        free(w);
}

static void compare(World *w) {
        Manager *next = manager_make();
        unsigned n = 0;
        Group *g, *tmp;

        assert_int_equal(manager_state_open(next, w->m->state.fd), 0);
        for (unsigned i = 0; i < JOBS; i++) {
                const Job *j = w->jobs[i], *found;
                if (!j)
                        continue;
                n++;
                found = job_find(next, j->token, j->uid);
                assert_non_null(found);
                assert_true(settings_is_equal(&found->settings, &j->settings));
                assert_int_equal(found->lowers, j->lowers);
                assert_string_equal(found->group->name, j->group->name);
        }
        assert_int_equal(HASH_COUNT(next->jobs), n);
        assert_int_equal(next->next_job_id, w->m->next_job_id);
        n = 0;
        HASH_ITER(hh, w->m->groups, g, tmp) {
                const Group *found = group_find(next, g->name);
                if (settings_is_empty(&g->override))
                        continue;
                n++;
                assert_non_null(found);
                assert_true(settings_is_equal(&found->override, &g->override));
        }
        HASH_ITER(hh, next->groups, g, tmp)
                n -= !settings_is_empty(&g->override);
        assert_int_equal(n, 0);
        manager_free(next);
}

/* The service is killed after each of the changes. */
static void test_the_next_finds_it(void **state) {
        World *w = world_make();
        uint64_t longest = 0;

        for (unsigned round = 0; round < ROUNDS; round++) {
                unsigned i = any(w, JOBS);

                if (any(w, 3) == 0)
                        set_group(w, any(w, GROUPS));
                else if (w->jobs[i])
                        w->jobs[i] = job_free(w->jobs[i]);
                else
                        make_job(w, i);
                longest = MAX(longest, w->m->state.end - w->m->state.begin);
                if (round % 50 == 0)
                        compare(w);
        }
        compare(w);
        assert_true(w->m->state.end > 4 * longest); /* much of it is outdated */
        assert_in_range(longest, 0, 256 << 10);
        world_free(w);
}

/* Bytes written for one job, from its begin to its end. */
static uint64_t written_for_one(World *w) {
        const JobParameters p = {.name = "test", .uid = SOMEBODY};
        uint64_t before = w->m->state.end;
        Job *j;

        assert_int_equal(job_new(w->m, &p, w->pidfd, &j), 0);
        job_free(j);
        return w->m->state.end - before;
}

static void test_one_beside_many(void **state) {
        World *w = world_make();
        uint64_t few = written_for_one(w), most = 0;

        for (unsigned i = 0; i < JOBS; i++)
                make_job(w, i);
        for (unsigned i = 0; i < 1000; i++)
                most = MAX(most, written_for_one(w));
        assert_in_range(most, few, 8 * few);
        world_free(w);
}

static void test_ends_are_paid_for(void **state) {
        World *w = world_make();

        make_job(w, 1);
        const Bucket *b = user_budget(w->m, SOMEBODY, USER_CHANGES);
        assert_non_null(b);
        uint64_t before = b->empty_at;
        make_job(w, 3); /* so that the user is there after it */
        w->jobs[1] = job_free(w->jobs[1]);
        assert_true(b->empty_at > before);
        world_free(w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_the_next_finds_it),
                        cmocka_unit_test(test_one_beside_many),
                        cmocka_unit_test(test_ends_are_paid_for),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
