/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sub-uids: the lines of /etc/subuid, and changes of the file
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "service/base/log.h"
#include "service/base/subuid-file.h"
#include "service/base/subuid.h"
#include "tests/lib/unit.h"

#define ALICE 1000U
#define BOB   1001U

static char problems[256]; /* "line what;" */

static int resolve(const char *name, uid_t *ret, void *userdata) {
        if (streq(name, "later"))
                return -EAGAIN;
        *ret = streq(name, "alice") ? ALICE : streq(name, "bob") ? BOB : 0;
        return *ret > 0 || streq(name, "root") ? 0 : -ENOENT;
}

static void on_problem(unsigned line, const char *what, void *userdata) {
        size_t n = strlen(problems);
        (void) snprintf(problems + n, sizeof(problems) - n, "%u %s;", line, what);
}

static Subuids *parse(const char *text) {
        const SubuidReader reader = {.resolve = resolve, .problem = on_problem};
        Subuids *s = NULL;

        problems[0] = '\0';
        assert_int_equal(subuids_parse(text, &reader, &s), 0);
        return s;
}

static void test_ranges(void **state) {
        _cleanup_(subuids_freep)
        Subuids *s = parse("alice:100000:65536\n1001:165536:65536\nbob:900000:1");

        assert_string_equal(problems, "");
        assert_int_equal(subuids_user(s, 99999), 99999);
        assert_int_equal(subuids_user(s, 100000), ALICE);
        assert_int_equal(subuids_user(s, 165535), ALICE);
        assert_int_equal(subuids_user(s, 165536), BOB);
        assert_int_equal(subuids_user(s, 231071), BOB);
        assert_int_equal(subuids_user(s, 231072), 231072);
        assert_int_equal(subuids_user(s, 900000), BOB);
        assert_int_equal(subuids_user(s, 900001), 900001);
        assert_int_equal(subuids_user(s, ALICE), ALICE);
        assert_int_equal(subuids_user(s, (uid_t) -1), (uid_t) -1);
        assert_int_equal(subuids_user(NULL, 100000), 100000);
}

static void test_first_line_wins(void **state) {
        _cleanup_(subuids_freep)
        Subuids *s = parse("bob:110000:10\nalice:100000:65536\nbob:90000:200000\nalice:110005:10\n");

        assert_int_equal(subuids_user(s, 89999), 89999);
        assert_int_equal(subuids_user(s, 90000), BOB);
        assert_int_equal(subuids_user(s, 100000), ALICE);
        assert_int_equal(subuids_user(s, 110000), BOB);
        assert_int_equal(subuids_user(s, 110009), BOB);
        assert_int_equal(subuids_user(s, 110010), ALICE);
        assert_int_equal(subuids_user(s, 165536), BOB);
        assert_int_equal(subuids_user(s, 290000), 290000);
}

/* A line of the file gives no user root's exemptions, and makes no user pay for another. */
static void test_who_stays(void **state) {
        _cleanup_(subuids_freep)
        Subuids *s = parse("root:1000000:1000000000\nroot:1000:1\nalice:0:70000\n0:200000:65537\n");

        assert_int_equal(subuids_user(s, 0), 0);
        assert_int_equal(subuids_user(s, ALICE), ALICE);
        assert_int_equal(subuids_user(s, BOB), BOB);
        assert_int_equal(subuids_user(s, 65535), 65535);
        assert_int_equal(subuids_user(s, 65536), ALICE);
        assert_int_equal(subuids_user(s, 1000000), 1000000);
        assert_int_equal(subuids_user(s, 1065535), 1000000);
        assert_int_equal(subuids_user(s, 1065536), 1065536);
        assert_int_equal(subuids_user(s, 1065537), 1065536);
        assert_int_equal(subuids_user(s, 265535), 200000);
        assert_int_equal(subuids_user(s, 265536), 265536);
}

static void test_odd_lines(void **state) {
        _cleanup_(subuids_freep)
        Subuids *s = parse(
                        "# a comment\n\nalice\nalice:100000\nalice:100000:1:\n:100000:1\nalice:-1:5\nalice:100000:0\n"
                        "alice:4294967290:6\nmallory:100000:1\nlater:100000:1\nbob:100000:1\nalice:100000:x");

        assert_string_equal(problems,
                        "3 not NAME:FIRST:COUNT;4 not NAME:FIRST:COUNT;5 not NAME:FIRST:COUNT;6 not NAME:FIRST:COUNT;"
                        "7 no range of uids;8 no range of uids;9 no range of uids;10 no such user;13 no "
                        "range of uids;");
        assert_int_equal(subuids_user(s, 100000), BOB);
        assert_int_equal(subuids_user(s, UINT32_MAX - 1), UINT32_MAX - 1);
}

/* Ranges that overlap in every way, and a file that is too long. */
static void test_many_lines(void **state) {
        _cleanup_free_ char *text = malloc(((size_t) SUBUID_LINES_MAX + 2) * 32);
        size_t n = 0;

        assert_non_null(text);
        for (unsigned i = 0; i < SUBUID_LINES_MAX + 2; i++)
                n += (size_t) sprintf(text + n, "%u:%u:%u\n", 1000 + i, 1000000 - 10 * i, 20 * i + 1);
        _cleanup_(subuids_freep)
        Subuids *s = parse(text);
        assert_string_equal(problems, "65537 the file is too long, from here on;");
        assert_int_equal(subuids_user(s, 1000000), 1000);
        for (unsigned i = 1; i < 93000; i++)
                assert_int_equal(subuids_user(s, 1000000 + 10 * i), i < SUBUID_LINES_MAX ? 1000 + i : 1000000 + 10 * i);
}

/* --- the file --- */

typedef struct World {
        char directory[64], path[128], passwd[128], next[128];
        sd_event *event;
        SubuidFile *file;
} World;

static World world;

static void write_file(const char *path, const char *text) {
        FILE *f = fopen(path, "we");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

/* Replaces the file as usermod(8) does. */
static void replace(const char *text) {
        write_file(world.next, text);
        assert_int_equal(rename(world.next, world.path), 0);
}

static void run_until(uid_t uid, uid_t user) {
        while (subuid_file_user(world.file, uid) != user)
                assert_true(sd_event_run(world.event, 20 * UINT64_C(1000000)) > 0);
}

static int setup(void **state) {
        world = (World){0};
        (void) snprintf(world.directory, sizeof(world.directory), "/tmp/test-subuid.XXXXXX");
        if (!mkdtemp(world.directory) || sd_event_new(&world.event) < 0)
                return -1;
        (void) snprintf(world.path, sizeof(world.path), "%s/subuid", world.directory);
        (void) snprintf(world.next, sizeof(world.next), "%s/subuid+", world.directory);
        (void) snprintf(world.passwd, sizeof(world.passwd), "%s/passwd", world.directory);
        write_file(world.passwd, "alice:x:1000:1000::/:/bin/sh\nnonsense\nbob:x:1001:1001::/:/bin/sh\n");
        log_set_max_level(LOG_EMERG);
        return 0;
}

static int teardown(void **state) {
        subuid_file_free(world.file);
        sd_event_unref(world.event);
        (void) unlink(world.path);
        (void) rmdir(world.path);
        (void) unlink(world.passwd);
        (void) unlink(world.next);
        return rmdir(world.directory);
}

static void begin(void) {
        assert_int_equal(subuid_file_new(world.event, world.path, world.passwd, &world.file), 0);
}

static void test_local_names_at_once(void **state) {
        replace("alice:100000:65536\nbob:165536:65536\n5:300000:1\n");
        begin();
        assert_int_equal(subuid_file_user(world.file, 100000), ALICE);
        assert_int_equal(subuid_file_user(world.file, 165536), BOB);
        assert_int_equal(subuid_file_user(world.file, 300000), 5);
}

/* A user of this machine that /etc/passwd does not have is looked up, and no caller waits for the result. */
static void test_other_names_later(void **state) {
        replace("daemon:100000:65536\nalice:165536:65536\nno-such-user-at-all:300000:1\n");
        begin();
        assert_int_equal(subuid_file_user(world.file, 100000), 100000);
        assert_int_equal(subuid_file_user(world.file, 165536), ALICE);
        run_until(100000, 1);
        assert_int_equal(subuid_file_user(world.file, 300000), 300000);
        assert_int_equal(subuid_file_user(world.file, 165536), ALICE);
}

static void test_changes_are_seen(void **state) {
        begin();
        assert_int_equal(subuid_file_user(world.file, 100000), 100000);
        replace("alice:100000:1\n");
        run_until(100000, ALICE);
        write_file(world.path, "bob:100000:1\n");
        run_until(100000, BOB);
        assert_int_equal(unlink(world.path), 0);
        run_until(100000, 100000);
        for (unsigned i = 0; i < 100; i++)
                replace(i % 2 ? "alice:100000:1\n" : "alice:100000:2\n");
        run_until(100000, ALICE);
        replace("bob:100000:1\n");
        run_until(100000, BOB);
}

/* A FIFO in the file's place blocks nothing. With an unreadable file one user does not count as many. */
static void test_no_file(void **state) {
        replace("alice:100000:1\n");
        begin();
        assert_int_equal(unlink(world.path), 0);
        assert_int_equal(mkfifo(world.path, 0600), 0);
        for (unsigned i = 0; i < 2; i++) {
                subuid_file_reread(world.file);
                assert_true(sd_event_run(world.event, 20 * UINT64_C(1000000)) > 0);
        }
        assert_int_equal(subuid_file_user(world.file, 100000), ALICE);
        replace("alice:200000:1\n");
        run_until(200000, ALICE);
        assert_int_equal(subuid_file_user(world.file, 100000), 100000);
}

static void test_freed_while_reading(void **state) {
        replace("daemon:100000:1\nno-such-user-at-all:300000:1\n");
        for (unsigned i = 0; i < 50; i++) {
                begin();
                world.file = subuid_file_free(world.file);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_ranges),
                        cmocka_unit_test(test_first_line_wins),
                        cmocka_unit_test(test_who_stays),
                        cmocka_unit_test(test_odd_lines),
                        cmocka_unit_test(test_many_lines),
                        cmocka_unit_test_setup_teardown(test_local_names_at_once, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_other_names_later, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_changes_are_seen, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_no_file, setup, teardown),
                        cmocka_unit_test_setup_teardown(test_freed_while_reading, setup, teardown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
