/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Parties: which entities are one party, whatever users do to be two
 */

#include <stdio.h>

#include "service/base/subuid-file.h"
#include "service/core/entity-facts.h"
#include "service/core/group-match.h"
#include "service/core/party.h"
#include "service/core/resolve.h"
#include "service/core/user.h"
#include "tests/unit/arbiter-harness.h"

static bool same(const char *a, uint64_t owner_a, const char *b, uint64_t owner_b) {
        const PolicyParty x = party_make(a, owner_a, owner_a), y = party_make(b, owner_b, owner_b);

        return party_is_same_owner(&x, &y);
}

static void test_paths(void **state) {
        const char *shell = "/user.slice/user-1000.slice/session-2.scope";

        /* A user's slice is one party, whatever runs in it under whichever uid. */
        assert_true(same(shell, 1000, "/user.slice/user-1000.slice/user@1000.service/app.slice/a.service", 1000));
        assert_true(same(shell, 1000, "/user.slice/user-1000.slice", 0));
        assert_true(same(shell, 1000, "/user.slice/user-1000.slice/user@1000.service/user.slice/pod.scope", 165536));
        assert_true(same(shell, 1000, shell, PARTY_SEVERAL));
        assert_false(same(shell, 1000, "/user.slice/user-1001.slice/session-2.scope", 1000));
        assert_false(same(shell, 1000, "/user.slice/user-100.slice/session-2.scope", 1000));
        assert_false(same(shell, 1000, "/user.slice", 1000));
        assert_false(same(shell, 1000, "/", 1000));

        /* Elsewhere a party is a cgroup at the top of the tree and a uid in it. */
        assert_true(same("/system.slice/a.service", 0, "/system.slice/b.service/c", 0));
        assert_true(same("/system.slice/slurmstepd.scope/job_1/step_0", 1000,
                        "/system.slice/slurmstepd.scope/job_2/step_0", 1000));
        assert_false(same("/system.slice/slurmstepd.scope/job_1/step_0", 1000,
                        "/system.slice/slurmstepd.scope/job_2/step_0", 1001));
        assert_false(same("/system.slice/a.service", 0, "/gpu.slice/a.service", 0));
        assert_false(same("/system.slice", 0, "/system.slic", 0));
        assert_false(same("/user.slicer/user-1000.slice/a", 1, "/user.slice/user-1000.slice/a", 1));
        assert_true(same("/user.slicer/a", 1, "/user.slicer/b", 1));

        /* Paths from inside a namespace, and texts that can be no path. */
        assert_true(same("/../../user.slice/user-1000.slice/a", 1, "/user.slice/user-1000.slice/b", 1));
        assert_true(same("/..", 1, "/..", 1));
        assert_true(same(NULL, 1, "", 1));
}

static void test_join(void **state) {
        assert_int_equal(party_join(PARTY_SEVERAL, 0, 1000), 1000);
        assert_int_equal(party_join(1000, 1, 1000), 1000);
        assert_int_equal(party_join(1000, 1, 1001), PARTY_SEVERAL);
        assert_int_equal(party_join(PARTY_SEVERAL, 2, 1000), PARTY_SEVERAL);
}

/* A stranger who comes and goes makes a group belong to several users once; later visits do not change its party. */
static void test_stranger(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/system.slice/engine.service", 0), b;
        Queue *q = queue(&a, "d", 0);
        uid_t uid = a.client->peer.uid;

        assert_int_equal(entity_party(q->entity).owner, uid);
        assert_int_equal(entity_party(q->entity).user, uid);
        a.client->group->owner = uid + 1; /* its former owner */
        for (unsigned i = 0; i < 3; i++) {
                b = join(m, "/system.slice/engine.service", 0);
                assert_true(entity_party(q->entity).owner == PARTY_SEVERAL);
                assert_true(entity_party(q->entity).user == PARTY_SEVERAL);
                assert_true(entity_settings(q->entity).party.owner == PARTY_SEVERAL);
                check(m);
                leave(&b);
                assert_true(entity_party(q->entity).owner == PARTY_SEVERAL);
        }

        /* A client with its own settings belongs to its user's party in that cgroup. */
        assert_int_equal(settings_set_priority(&a.client->override, -3), 0);
        client_settings_changed(a.client);
        arbiter_flush(m);
        assert_int_equal(q->entity->kind, ENTITY_CLIENT);
        assert_true(entity_party(q->entity).owner == PARTY_SEVERAL);
        assert_int_equal(entity_party(q->entity).user, uid);
        leave(&a);

        a = join(m, "/system.slice/engine.service", 0);
        q = queue(&a, "d", 0);
        assert_int_equal(entity_party(q->entity).owner, uid);
        leave(&a);
        manager_free(m);
}

/* A user's sub-uids are the user outside of the users' slices, too: a group with some of them is the user's alone. */
static void test_subuids(void **state) {
        const char *group = "/system.slice/engine.service";
        char path[] = "/tmp/test-party.XXXXXX";
        _cleanup_close_ int fd = mkstemp(path);
        Manager *m = manager_make();

        assert_true(fd >= 0 && dprintf(fd, "4711:200000:10\n") > 0);
        assert_int_equal(subuid_file_new(m->event, path, "/nowhere", &m->subuids), 0);
        Process a = join_as(m, group, 0, 200000), b = join_as(m, group, 0, 4711), c = join_as(m, group, 0, 200009);
        Queue *q = queue(&a, "d", 0);
        assert_int_equal(a.client->peer.uid, 200000);
        assert_int_equal(entity_party(q->entity).owner, 4711);
        assert_int_equal(user_count(m, 4711, USER_CLIENTS), 3);
        assert_int_equal(user_count(m, 4711, USER_QUEUES), 1);
        assert_int_equal(user_count(m, 4711, USER_DEVICES), 1);
        assert_int_equal(user_count(m, 200000, USER_CLIENTS), 0);

        /* The sub-uids do not have the user's rights. */
        assert_int_equal(group_owner(a.client->group), UID_NONE);

        /* A client with its own settings belongs to the user. */
        assert_int_equal(settings_set_priority(&a.client->override, -3), 0);
        client_settings_changed(a.client);
        arbiter_flush(m);
        assert_int_equal(q->entity->kind, ENTITY_CLIENT);
        assert_int_equal(entity_party(q->entity).user, 4711);

        /* The group stays its owner's, also when the file changes. */
        m->subuids = subuid_file_free(m->subuids);
        leave(&a);
        leave(&c);
        assert_int_equal(user_count(m, 4711, USER_CLIENTS), 1);
        assert_int_equal(user_count(m, 4711, USER_QUEUES), 0);
        assert_int_equal(user_count(m, 4711, USER_PLACES), b.client->place_cost);
        a = join_as(m, group, 0, 200000);
        assert_int_equal(user_count(m, 200000, USER_CLIENTS), 1);
        assert_true(a.client->group->owner == PARTY_SEVERAL);
        leave(&a);
        leave(&b);
        assert_int_equal(user_count(m, 4711, USER_CLIENTS), 0);
        assert_int_equal(unlink(path), 0);
        manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_paths),
                        cmocka_unit_test(test_join),
                        cmocka_unit_test(test_stranger),
                        cmocka_unit_test(test_subuids),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
