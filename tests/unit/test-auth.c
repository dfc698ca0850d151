/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The whole table that decides in place of polkit
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "service/base/auth-table.h"
#include "service/base/auth.h"

#define ROOT    0U
#define SERVICE 990U
#define ALICE   1000U
#define BOB     1001U

static void test_table(void **state) {
        static const struct {
                AuthAction action;
                uid_t sender, owner;
                bool allowed;
        } rows[] = {
                        /* root and the service's own user may do everything, to all users */
                        {AUTH_REGISTER, ROOT, UID_NONE, true},
                        {AUTH_MANAGE_OWN, ROOT, ALICE, true},
                        {AUTH_MANAGE, ROOT, ALICE, true},
                        {AUTH_SUSPEND, ROOT, ALICE, true},
                        {AUTH_REGISTER, SERVICE, UID_NONE, true},
                        {AUTH_MANAGE_OWN, SERVICE, ALICE, true},
                        {AUTH_MANAGE, SERVICE, UID_NONE, true},
                        {AUTH_SUSPEND, SERVICE, ROOT, true},
                        /* every user may be a client */
                        {AUTH_REGISTER, ALICE, UID_NONE, true},
                        {AUTH_REGISTER, ALICE, ALICE, true},
                        /* owners may lower what is theirs, and nothing else */
                        {AUTH_MANAGE_OWN, ALICE, ALICE, true},
                        {AUTH_MANAGE_OWN, ALICE, BOB, false},
                        {AUTH_MANAGE_OWN, ALICE, ROOT, false},
                        {AUTH_MANAGE_OWN, ALICE, SERVICE, false},
                        {AUTH_MANAGE_OWN, ALICE, UID_NONE, false},
                        {AUTH_MANAGE_OWN, UID_NONE, UID_NONE, false},
                        /* and nothing beyond that, not even to what is theirs */
                        {AUTH_MANAGE, ALICE, ALICE, false},
                        {AUTH_MANAGE, ALICE, UID_NONE, false},
                        {AUTH_SUSPEND, ALICE, ALICE, false},
                        {AUTH_SUSPEND, ALICE, BOB, false},
                        {_AUTH_ACTION_MAX, ALICE, ALICE, false},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (auth_decide(rows[i].action, rows[i].sender, rows[i].owner, SERVICE) != rows[i].allowed)
                        fail_msg("row %zu", i);
}

/* A private bus: the service is its user's own, and there is no other. */
static void test_session(void **state) {
        for (AuthAction a = 0; a < _AUTH_ACTION_MAX; a++)
                assert_true(auth_decide(a, ALICE, UID_NONE, ALICE));
}

static void test_names(void **state) {
        for (AuthAction a = 0; a < _AUTH_ACTION_MAX; a++)
                for (AuthAction b = 0; b < a; b++)
                        assert_string_not_equal(auth_action_to_string(a), auth_action_to_string(b));
        assert_string_equal(auth_action_to_string(AUTH_MANAGE_OWN), "org.xsched.manage-own");
        assert_null(auth_action_to_string(_AUTH_ACTION_MAX));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_table),
                        cmocka_unit_test(test_session),
                        cmocka_unit_test(test_names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
