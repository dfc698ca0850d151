/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A device gets another policy: nobody's settings are lost, whatever else happens; and what the service has to do for
 * policies that go over several devices, and for those that go by processes
 */

#include <stdio.h>

#include "tests/unit/arbiter-harness.h"

static void set_policy(Manager *m, const char *device, const char *name) {
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        s.ops = policy_find(name);
        assert_non_null(s.ops);
        assert_int_equal(device_configure(device_find(m, device), &s), 0);
        arbiter_flush(m);
}

/* --- over several devices --- */

static void test_over_devices(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d1", 0), *l = queue(&low, "d2", 0);

        /* Both are alone on their devices, where nobody would look at them. */
        begin(l);
        begin(h);
        assert_false(held(l));
        set_policy(m, "d1", "hhpf");
        assert_false(held(l)); /* one device is not several */
        set_policy(m, "d2", "hhpf");
        assert_true(held(l));
        assert_false(held(h));
        check(m);

        finish(h);
        assert_false(held(l));
        begin(h);
        assert_true(held(l));
        drain(l);

        /* An equal, and one on a device that has another policy, are in nobody's way. */
        assert_int_equal(settings_set_priority(&low.client->group->override, 10), 0);
        group_settings_changed(low.client->group);
        arbiter_flush(m);
        assert_false(held(l));
        assert_int_equal(settings_set_priority(&low.client->group->override, 0), 0);
        group_settings_changed(low.client->group);
        arbiter_flush(m);
        assert_true(held(l));
        set_policy(m, "d1", "hpf");
        assert_false(held(l));
        set_policy(m, "d1", "hhpf");
        assert_true(held(l));
        set_policy(m, "d2", "tree");
        assert_false(held(l));
        set_policy(m, "d2", "hhpf");
        assert_true(held(l));

        /* Whoever goes holds nobody. */
        leave(&high);
        arbiter_flush(m);
        assert_false(held(l));
        check(m);
        leave(&low);
        manager_free(m);
}

/* --- by processes --- */

static void test_by_process(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/g", 0), b = join(m, "/g", 0);
        Queue *qa = queue(&a, "d", 0), *qb = queue(&b, "d", 0), *hinted = queue(&b, "d", -5);

        begin(qa);
        begin(qb);
        assert_ptr_equal(qa->entity, qb->entity);
        assert_false(held(qa) || held(qb));

        set_policy(m, "d", "pup");
        assert_int_equal(qa->entity->kind, ENTITY_CLIENT);
        assert_ptr_equal(qb->entity, hinted->entity);
        assert_true(qa->entity != qb->entity);
        assert_true(held(qa) != held(qb));
        check(m);

        /* The hint is there as before. */
        set_policy(m, "d", "kedf");
        assert_ptr_equal(qa->entity, qb->entity);
        assert_int_equal(hinted->entity->kind, ENTITY_QUEUE);
        assert_int_equal(hinted->entity->settings.priority, -5);
        check(m);

        /* A queue that comes while processes count is its process's. */
        set_policy(m, "d", "chpf");
        Queue *more = queue(&a, "d", -1);
        assert_ptr_equal(more->entity, qa->entity);
        assert_int_equal(more->entity->kind, ENTITY_CLIENT);
        check(m);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* --- anything, in any order --- */

#define N_PROCESSES 6U
#define N_QUEUES    24U

/* What was said, and is to hold whatever the policy is. */
typedef struct Said {
        int priority;
        int64_t deadline_us, laxity_us, utilization;
} Said;

static void say(Process *p, Said *s) {
        Settings *o = &p->client->override;

        *s = (Said){
                        .priority = (int) (random() % 9) - 4,
                        .deadline_us = random() % 50000,
                        .laxity_us = random() % 50000,
                        .utilization = 1 + random() % 100,
        };
        assert_int_equal(settings_set_priority(o, s->priority), 0);
        assert_int_equal(settings_set_deadline(o, s->deadline_us), 0);
        assert_int_equal(settings_set_laxity(o, s->laxity_us), 0);
        assert_int_equal(settings_set_utilization(o, s->utilization), 0);
        client_settings_changed(p->client);
}

static void check_said(const Queue *q, const Said *s, int hint) {
        const PolicySettings *is = &q->entity->settings;
        bool own = q->entity->kind == ENTITY_QUEUE;

        assert_int_equal(q->resolved.policy.priority, s->priority + hint);
        assert_int_equal(is->priority, s->priority + (own ? hint : 0));
        assert_int_equal(is->deadline_us, s->deadline_us);
        assert_int_equal(is->laxity_us, s->laxity_us);
        assert_int_equal(is->utilization, s->utilization);
        assert_int_equal(own, hint != 0 && !policy_is_by_process(q->device->ops));
        assert_int_equal(q->entity->kind == ENTITY_GROUP, false);
}

static void switch_any(Manager *m) {
        char device[16];
        size_t n = 0;

        while (policy_all[n])
                n++;
        (void) snprintf(device, sizeof(device), "d%ld", random() % 3);
        if (device_find(m, device))
                set_policy(m, device, policy_all[(size_t) random() % n]->name);
}

/* With as many switches as there is work. Time passes as it does. */
static void test_no_hint_is_lost(void **state) {
        Manager *m = manager_make();
        Process p[N_PROCESSES];
        Said said[N_PROCESSES];
        Queue *q[N_QUEUES] = {0};
        int hint[N_QUEUES] = {0};
        unsigned launched[N_QUEUES] = {0}, n_switched = 0;
        char name[16];

        srandom(815);
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                (void) snprintf(name, sizeof(name), "/g%u", i / 2);
                p[i] = join(m, name, 0);
                say(&p[i], &said[i]);
        }
        for (unsigned step = 0; step < 6000; step++) {
                unsigned i = (unsigned) random() % N_QUEUES, n = i % N_PROCESSES;

                switch (random() % 8) {
                case 0:
                        switch_any(m);
                        n_switched++;
                        break;
                case 1:
                        say(&p[n], &said[n]);
                        break;
                case 2:
                        if (q[i])
                                release(TAKE_PTR(q[i]));
                        else {
                                hint[i] = random() % 3 == 0 ? -(int) (1 + random() % 5) : 0;
                                (void) snprintf(name, sizeof(name), "d%ld", random() % 3);
                                q[i] = queue(&p[n], name, hint[i]);
                        }
                        launched[i] = 0;
                        break;
                default:
                        if (!q[i])
                                break;
                        if (launched[i] > 0 && random() % 2) {
                                finish(q[i]);
                                launched[i]--;
                        } else {
                                begin(q[i]);
                                launched[i]++;
                        }
                }
                arbiter_flush(m);
                check(m);
                for (unsigned k = 0; k < N_QUEUES; k++)
                        if (q[k])
                                check_said(q[k], &said[k % N_PROCESSES], hint[k]);
        }
        assert_true(n_switched > 500);
        for (unsigned i = 0; i < N_PROCESSES; i++)
                leave(&p[i]);
        assert_null(m->queues);
        assert_null(m->clients);
        manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_over_devices),
                        cmocka_unit_test(test_by_process),
                        cmocka_unit_test(test_no_hint_is_lost),
        };

        return cmocka_run_group_tests_name("switch", tests, NULL, NULL);
}
