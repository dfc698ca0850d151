/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Clients by their ids, and what is fetched ahead for them
 */

#include "service/core/ahead.h"
#include "service/core/numbers.h"
#include "tests/unit/arbiter-harness.h"

/* Clients are found by their ids, also those that share a place with another, and none that has gone. */
static void test_found(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        uint64_t one = a.client->id, other = one + CLIENTS_FOUND;

        m->next_client_id = other;
        Process b = join(m, "/b", 0);
        assert_int_equal(b.client->id, other);
        for (unsigned i = 0; i < 3; i++) {
                assert_ptr_equal(client_find(m, other), b.client);
                assert_ptr_equal(client_find(m, one), a.client);
                assert_null(client_find(m, other + CLIENTS_FOUND));
        }
        leave(&a);
        assert_null(m->found[one % CLIENTS_FOUND].client);
        assert_null(client_find(m, one));
        assert_ptr_equal(client_find(m, other), b.client);
        leave(&b);
        assert_null(client_find(m, other));
        manager_free(m);
}

static void assert_noted(const Process *p, const Queue *q) {
        const ClientPlace *place = client_place(q->manager, p->client->id);

        assert_ptr_equal(place->client, p->client);
        assert_int_equal(place->ahead.page, (uintptr_t) p->client->page.header);
        assert_int_equal(place->ahead.page_slot, (uintptr_t) q->page_slot);
        assert_int_equal(place->ahead.queue, (uintptr_t) q);
        assert_int_equal(place->ahead.entity, (uintptr_t) q->entity);
        assert_int_equal(place->ahead.policy, (uintptr_t) q->entity->policy);
        assert_int_equal(q->manager->last_edge, p->client->id);
}

/* What is fetched ahead is what the client's last edge was about; and nothing depends on it. */
static void test_ahead(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0), b = join(m, "/b", 0);
        Queue *q[] = {queue(&a, "d", 0), queue(&b, "d", 0), queue(&b, "other", 0)};
        uint64_t gone = b.client->id;

        queue(&a, "other", 0);
        for (unsigned i = 0; i < 6; i++) {
                const Process *p = i % 3 == 0 ? &a : &b;

                ahead_fetch(m, p->client->id);
                assert_ptr_equal(client_find(m, p->client->id), p->client);
                assert_true(begin_in_turn(q[i % 3]));
                arbiter_flush(m);
                if (i % 3 < 2)
                        assert_noted(p, q[i % 3]);
                finish(q[i % 3]);
        }
        leave(&b);
        ahead_fetch(m, gone);
        ahead_fetch(m, gone + CLIENTS_FOUND);
        check(m);
        leave(&a);
        manager_free(m);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_found),
                        cmocka_unit_test(test_ahead),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
