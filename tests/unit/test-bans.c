/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Bans: which users are in the socket's list, and for how long
 */

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#include "service/base/bans.h"
#include "tests/unit/door-fixture.h"

#define ACL "system.posix_acl_access"

static Bans bans;
static int listener;

/* How many users the socket's list names; 0: there is none. */
static unsigned n_named(void) {
        char list[65536];
        ssize_t size = getxattr(path, ACL, list, sizeof(list));
        const struct posix_acl_xattr_entry *e = (void *) (list + sizeof(struct posix_acl_xattr_header));
        unsigned n = 0;

        for (; size > 0 && (char *) e < list + size; e++) {
                bool of_user = e->e_tag == ACL_USER;
                assert_int_equal(e->e_perm, of_user ? 0 : ACL_READ | ACL_WRITE);
                n += of_user;
        }
        return n;
}

static int begin(void **state) {
        assert_int_equal(door_listen(path, &listener), 0);
        bans_init(&bans, listener);
        if (getxattr(path, ACL, NULL, 0) < 0 && errno != ENODATA)
                skip();
        return 0;
}

static int end(void **state) {
        bans_done(&bans);
        safe_close(listener);
        return unlink(path);
}

static void test_begin_and_end(void **state) {
        struct stat st;

        assert_true(bans_add(&bans, 1001, 1000, 20));
        assert_true(bans_add(&bans, 1000, 1000, 10));
        assert_false(bans_add(&bans, 1000, 1000, 30)); /* already banned */
        assert_true(bans_has(&bans, 1000));
        assert_false(bans_has(&bans, 1002));
        assert_int_equal(n_named(), 2);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0666); /* the other users may still connect */

        bans_expire(&bans, 9);
        assert_int_equal(n_named(), 2);
        bans_expire(&bans, 10);
        assert_false(bans_has(&bans, 1000));
        assert_int_equal(n_named(), 1);
        bans_expire(&bans, 20);
        assert_true(getxattr(path, ACL, NULL, 0) < 0);
        assert_true(bans_add(&bans, 1000, 1000, 40));
}

static void test_limits(void **state) {
        assert_false(bans_add(&bans, 0, 0, 10)); /* root passes every list */
        for (uid_t i = 0; i < BANS_USER_MAX; i++)
                assert_true(bans_add(&bans, 100000 + i, 1000, 10));
        assert_false(bans_add(&bans, 200000, 1000, 10));
        for (uid_t i = BANS_USER_MAX; i < BANS_MAX; i++)
                assert_true(bans_add(&bans, 300000 + i, 300000 + i, 10));
        assert_false(bans_add(&bans, 1001, 1001, 10));
        assert_int_equal(n_named(), BANS_MAX);
        bans_expire(&bans, 10);
        assert_int_equal(bans.n, 0);
}

/* Bans change neither an administrator's list, nor another file in the socket's place. */
static void test_of_others(void **state) {
        const struct {
                uint32_t version;
                struct posix_acl_xattr_entry entries[5];
        } list = {POSIX_ACL_XATTR_VERSION,
                        {{ACL_USER_OBJ, 6, ACL_UNDEFINED_ID}, {ACL_USER, 6, 1234}, {ACL_GROUP_OBJ, 6, ACL_UNDEFINED_ID},
                                        {ACL_MASK, 6, ACL_UNDEFINED_ID}, {ACL_OTHER, 0, ACL_UNDEFINED_ID}}};
        char now[256];

        assert_int_equal(setxattr(path, ACL, &list, sizeof(list), 0), 0);
        assert_false(bans_add(&bans, 1000, 1000, 10));
        assert_int_equal(getxattr(path, ACL, now, sizeof(now)), sizeof(list));
        assert_memory_equal(now, &list, sizeof(list));
        assert_int_equal(removexattr(path, ACL), 0);

        assert_int_equal(unlink(path), 0);
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_int_equal(fclose(f), 0);
        (void) bans_add(&bans, 1000, 1000, 10);
        assert_true(getxattr(path, ACL, NULL, 0) < 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test_setup_teardown(test_begin_and_end, begin, end),
                        cmocka_unit_test_setup_teardown(test_limits, begin, end),
                        cmocka_unit_test_setup_teardown(test_of_others, begin, end),
        };

        return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
