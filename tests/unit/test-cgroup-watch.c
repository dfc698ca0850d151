/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The watch over a hierarchy, here of plain directories, where a write to cgroup.procs counts as a move
 */

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cgroup/cgroup-watch.h"
#include "tests/lib/deadline.h"
#include "tests/lib/unit.h"

typedef struct Fixture {
        char root[32];
        sd_event *event;
        CgroupWatch *watch;
        char entered[64][64]; /* in order; "*" for all */
        size_t n;
        uid_t beyond; /* the user whose cgroups are not all watched; 0: none */
} Fixture;

#define WATCHES 64U

static uid_t user_of(uid_t uid, void *userdata) {
        return uid == 100001 ? 1000 : uid;
}

static void problem(uid_t user, bool is, void *userdata) {
        Fixture *f = userdata;

        assert_int_equal(f->beyond, is ? 0 : user);
        f->beyond = is ? user : 0;
}

static void entered(const char *cgroup, void *userdata) {
        Fixture *f = userdata;

        assert_true(f->n < ELEMENTSOF(f->entered));
        (void) snprintf(f->entered[f->n++], sizeof(f->entered[0]), "%s", cgroup ?: "*");
}

static const CgroupWatchOps ops = {.entered = entered, .user_of = user_of, .problem = problem};

static bool has_entered(const Fixture *f, const char *cgroup) {
        for (size_t i = 0; i < f->n; i++)
                if (streq(f->entered[i], cgroup))
                        return true;
        return false;
}

/* Runs the loop until that cgroup was entered. */
static void expect(Fixture *f, const char *cgroup) {
        uint64_t end = now_ns() + TEST_DEADLINE_NS;

        while (!has_entered(f, cgroup)) {
                assert_true(now_ns() < end);
                assert_true(sd_event_run(f->event, 10000) >= 0);
        }
}

static void settle(Fixture *f) {
        while (sd_event_run(f->event, 0) > 0)
                ;
}

static void put(const Fixture *f, const char *name) {
        char path[PATH_MAX];

        (void) snprintf(path, sizeof(path), "%s%s", f->root, name);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "1\n", 2), 2);
        assert_int_equal(close(fd), 0);
}

static void make(const Fixture *f, const char *name) {
        char path[PATH_MAX];

        (void) snprintf(path, sizeof(path), "%s%s", f->root, name);
        assert_int_equal(mkdir(path, 0700), 0);
}

static void setup(Fixture *f) {
        *f = (Fixture){.root = "/tmp/test-cgroup-watch-XXXXXX"};
        assert_non_null(mkdtemp(f->root));
        make(f, "/a");
        make(f, "/a/b");
        make(f, "/c");
        assert_int_equal(sd_event_new(&f->event), 0);
        assert_int_equal(cgroup_watch_new(f->event, f->root, WATCHES, &ops, f, &f->watch), 0);
        assert_int_equal(cgroup_watch_start(f->watch), 0);
        expect(f, "*"); /* the walk is over */
        assert_int_equal(f->n, 1);
        f->n = 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *w) {
        return remove(path);
}

static void teardown(Fixture *f) {
        assert_int_equal(f->beyond, 0);
        cgroup_watch_free(f->watch);
        sd_event_unref(f->event);
        assert_int_equal(nftw(f->root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void test_entered(void **state) {
        Fixture f;

        setup(&f);
        put(&f, "/a/b/cgroup.procs");
        expect(&f, "/a/b");
        put(&f, "/cgroup.procs");
        expect(&f, "/");
        put(&f, "/c/cgroup.threads");
        expect(&f, "/c");
        assert_false(has_entered(&f, "/a"));

        /* Writes to other files count as no move. */
        f.n = 0;
        put(&f, "/a/memory.max");
        put(&f, "/a/cgroup.procs");
        expect(&f, "/a");
        settle(&f);
        assert_int_equal(f.n, 1);
        teardown(&f);
}

/* Directories that are made later, with the contents that they have by the time they are seen. */
static void test_created(void **state) {
        Fixture f;

        setup(&f);
        make(&f, "/a/new");
        make(&f, "/a/new/deep");
        make(&f, "/a/new/deep/deeper");
        put(&f, "/a/new/deep/deeper/cgroup.procs");
        expect(&f, "/a/new/deep/deeper");
        settle(&f);
        f.n = 0;
        put(&f, "/a/new/deep/deeper/cgroup.procs");
        expect(&f, "/a/new/deep/deeper");
        settle(&f);
        f.n = 0;
        make(&f, "/a/new/deep/deeper/yet");
        expect(&f, "/a/new/deep/deeper/yet");
        teardown(&f);
}

/* A directory is removed and made again under the same name, many times: no watch is left over, and no move is
 * missed. */
static void test_come_and_go(void **state) {
        char path[PATH_MAX];
        Fixture f;

        setup(&f);
        for (unsigned i = 0; i < 200; i++) {
                make(&f, "/c/x");
                f.n = 0;
                put(&f, "/c/x/cgroup.procs");
                expect(&f, "/c/x");
                (void) snprintf(path, sizeof(path), "%s/c/x/cgroup.procs", f.root);
                assert_int_equal(unlink(path), 0);
                (void) snprintf(path, sizeof(path), "%s/c/x", f.root);
                assert_int_equal(rmdir(path), 0);
                f.n = 0;
                settle(&f);
        }
        teardown(&f);
}

/* More events than the kernel's queue holds: all cgroups are reported, and those made meanwhile are watched. */
static void test_overflow(void **state) {
        Fixture f;

        setup(&f);
        int fd = open("/proc/sys/fs/inotify/max_queued_events", O_RDONLY | O_CLOEXEC);
        char text[32] = "";
        assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
        assert_int_equal(close(fd), 0);
        unsigned long max = strtoul(text, NULL, 10);
        if (max > 100000) {
                teardown(&f);
                skip();
        }
        /* Two directories in turn: equal events in a row are one. */
        for (unsigned long i = 0; i < max + 100; i++)
                put(&f, i % 2 ? "/a/other" : "/c/other");
        make(&f, "/c/late");
        expect(&f, "*");
        f.n = 0;
        put(&f, "/c/late/cgroup.procs");
        expect(&f, "/c/late");
        teardown(&f);
}

/* A stopped watch reports nothing. When it is started again, it reports all cgroups. */
static void test_stop_and_start(void **state) {
        Fixture f;

        setup(&f);
        for (unsigned i = 0; i < 3; i++) {
                cgroup_watch_stop(f.watch);
                put(&f, "/a/cgroup.procs");
                char name[16];
                (void) snprintf(name, sizeof(name), "/a/n%u", i);
                make(&f, name);
                settle(&f);
                assert_int_equal(f.n, 0);
                assert_int_equal(cgroup_watch_start(f.watch), 0);
                expect(&f, "*");
                assert_int_equal(f.n, 1);
                f.n = 0;
                (void) snprintf(name, sizeof(name), "/a/n%u", i);
                char file[64];
                (void) snprintf(file, sizeof(file), "%s/cgroup.procs", name);
                put(&f, file);
                expect(&f, name);
                f.n = 0;
                settle(&f);
                f.n = 0;
        }
        teardown(&f);
}

static void make_of(const Fixture *f, uid_t uid, unsigned n) {
        char path[PATH_MAX], name[32];

        (void) snprintf(name, sizeof(name), "/a/%u-%u", (unsigned) uid, n);
        make(f, name);
        (void) snprintf(path, sizeof(path), "%s%s", f->root, name);
        assert_int_equal(chown(path, uid, 0), 0);
}

static void unmake_of(const Fixture *f, uid_t uid, unsigned n) {
        char path[PATH_MAX];

        (void) snprintf(path, sizeof(path), "%s/a/%u-%u", f->root, (unsigned) uid, n);
        assert_int_equal(rmdir(path), 0);
}

static void expect_entered(Fixture *f, const char *name) {
        char path[64];

        f->n = 0;
        (void) snprintf(path, sizeof(path), "%s/cgroup.procs", name);
        put(f, path);
        expect(f, name);
        f->n = 0;
}

/* However many cgroups a user makes, with any of the user's uids, those of others are watched. Cgroups that were left
 * out are watched when the user has room again. */
static void test_user_with_many(void **state) {
        enum { SHARE = WATCHES / CGROUP_WATCH_USERS };
        Fixture f;

        if (geteuid() != 0)
                skip(); /* only root can give directories away */
        setup(&f);
        for (unsigned i = 0; i < SHARE; i++)
                make_of(&f, i % 2 ? 100001 : 1000, i);
        settle(&f);
        assert_int_equal(f.beyond, 0);
        f.n = 0;
        for (unsigned i = 0; i < 5 * SHARE; i++)
                make_of(&f, 1000, 100 + i);
        settle(&f);
        assert_int_equal(f.beyond, 1000);
        make_of(&f, 2000, 0);
        make(&f, "/c/x");
        settle(&f);
        expect_entered(&f, "/a/2000-0");
        expect_entered(&f, "/c/x");
        assert_int_equal(f.beyond, 1000);

        /* The same for cgroups that exist before the watch starts. */
        cgroup_watch_stop(f.watch);
        assert_int_equal(f.beyond, 0);
        assert_int_equal(cgroup_watch_start(f.watch), 0);
        expect(&f, "*");
        assert_int_equal(f.beyond, 1000);
        expect_entered(&f, "/a/2000-0");
        expect_entered(&f, "/c/x");

        for (unsigned i = 0; i < SHARE; i++)
                unmake_of(&f, i % 2 ? 100001 : 1000, i);
        for (unsigned i = 0; i < 5 * SHARE - 3; i++)
                unmake_of(&f, 1000, 100 + i);
        expect(&f, "*");
        assert_int_equal(f.beyond, 0);
        char name[32];
        (void) snprintf(name, sizeof(name), "/a/1000-%u", 100U + 5 * SHARE - 1);
        expect_entered(&f, name);
        teardown(&f);
}

static void test_no_hierarchy(void **state) {
        Fixture f = {0};

        assert_int_equal(sd_event_new(&f.event), 0);
        assert_int_equal(cgroup_watch_new(f.event, "/nowhere/at/all", WATCHES, &ops, &f, &f.watch), 0);
        assert_int_equal(cgroup_watch_start(f.watch), 0);
        expect(&f, "*");
        assert_int_equal(f.beyond, 0);
        cgroup_watch_free(f.watch);
        sd_event_unref(f.event);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_entered),
                        cmocka_unit_test(test_created),
                        cmocka_unit_test(test_come_and_go),
                        cmocka_unit_test(test_overflow),
                        cmocka_unit_test(test_stop_and_start),
                        cmocka_unit_test(test_user_with_many),
                        cmocka_unit_test(test_no_hierarchy),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
