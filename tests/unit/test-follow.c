/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * When clients are followed into other cgroups: from the first one to the last, and where that cannot begin
 */

#include "cgroup/cgroup-watch.h"
#include "service/core/follow.h"
#include "tests/lib/deadline.h"
#include "tests/lib/scratch-root.h"
#include "tests/unit/arbiter-harness.h"

static unsigned n_starts, n_stops, n_asked;
static unsigned n_failures; /* to come */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_cgroup_watch_start(CgroupWatch *w);
int __wrap_cgroup_watch_start(CgroupWatch *w);
void __real_cgroup_watch_stop(CgroupWatch *w);
void __wrap_cgroup_watch_stop(CgroupWatch *w);

int __wrap_cgroup_watch_start(CgroupWatch *w) {
        n_starts++;
        return __real_cgroup_watch_start(w);
}

void __wrap_cgroup_watch_stop(CgroupWatch *w) {
        n_stops++;
        __real_cgroup_watch_stop(w);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* The hierarchy is an empty directory: the cgroups of the clients are not in it. */
static int directory(const char *cgroup, char **ret) {
        if (*cgroup)
                return -ENOENT;
        n_asked++;
        if (n_failures > 0) {
                n_failures--;
                return -EMFILE;
        }
        *ret = strdup(scratch_root());
        return *ret ? 0 : -ENOMEM;
}

static Manager *make(unsigned failures) {
        n_starts = n_stops = n_asked = 0;
        n_failures = failures;
        cgroup_directory_instead = directory;
        return manager_make();
}

/* The client's cgroup is made up. When the watch is complete, the service finds its process in another one. */
static void check_followed(const Process *p, const char *made_up) {
        uint64_t end = now_ns() + TEST_DEADLINE_NS;

        while (streq(p->client->peer.cgroup, made_up)) {
                assert_true(now_ns() < end);
                assert_true(manager_turn(p->client->manager, 10 * NSEC_PER_MSEC) >= 0);
        }
        assert_string_equal(p->client->group->name, p->client->peer.cgroup);
}

static void test_from_first_to_last(void **state) {
        Manager *m = make(0);

        assert_int_equal(n_starts, 0);
        Process a = join(m, "/made-up-a", 0);
        assert_int_equal(n_starts, 1);
        Process b = join(m, "/made-up-b", 0);
        check_followed(&a, "/made-up-a");
        check_followed(&b, "/made-up-b");
        leave(&a);
        assert_int_equal(n_starts, 1);
        assert_int_equal(n_stops, 0);
        leave(&b);
        assert_int_equal(n_stops, 1);

        Process c = join(m, "/made-up-c", 0);
        assert_int_equal(n_starts, 2);
        check_followed(&c, "/made-up-c");
        leave(&c);
        assert_int_equal(n_stops, 2);
        manager_free(m);
}

static void test_begins_when_another_comes(void **state) {
        Manager *m = make(1);

        Process a = join(m, "/made-up-a", 0);
        assert_int_equal(n_starts, 0);
        Process b = join(m, "/made-up-b", 0);
        assert_int_equal(n_starts, 1);
        check_followed(&a, "/made-up-a");
        leave(&a);
        leave(&b);
        assert_int_equal(n_stops, 1);
        manager_free(m);
}

static void test_begins_when_another_goes(void **state) {
        Manager *m = make(2);

        Process a = join(m, "/made-up-a", 0);
        Process b = join(m, "/made-up-b", 0);
        assert_int_equal(n_starts, 0);
        leave(&a);
        assert_int_equal(n_starts, 1);
        check_followed(&b, "/made-up-b");
        leave(&b);
        assert_int_equal(n_stops, 1);
        manager_free(m);
}

/* A service that ends frees its clients, and begins nothing any more. */
static void test_end(void **state) {
        Manager *m = make(UINT_MAX);

        Process a = join(m, "/made-up-a", 0);
        Process b = join(m, "/made-up-b", 0);
        assert_int_equal(n_asked, 2);
        manager_free(m);
        assert_int_equal(n_asked, 2);
        client_fds_done(&a.fds);
        client_fds_done(&b.fds);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_from_first_to_last),
                        cmocka_unit_test(test_begins_when_another_comes),
                        cmocka_unit_test(test_begins_when_another_goes),
                        cmocka_unit_test(test_end),
        };
        return cmocka_run_group_tests(tests, scratch_root_setup, scratch_root_teardown);
}
