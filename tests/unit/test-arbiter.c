/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Arbiter and entities: real pages and the real policy, no bus; the test is the clients' side of the pages
 */

#include <stdio.h>
#include <sys/socket.h>
#include <utlist.h>

#include "service/core/arbiter.h"
#include "service/core/resolve.h"
#include "service/core/suspension.h"
#include "service/core/usage.h"
#include "service/core/user.h"
#include "service/settings/xsched-conf.h"
#include "tests/lib/deadline.h"
#include "tests/unit/arbiter-harness.h"

static void test_alone(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        Queue *q = queue(&a, "d", 0);

        begin(q);
        finish(q);
        assert_int_equal(watch(q), 0);
        assert_int_equal(m->n_verdicts, 0);
        assert_int_equal(m->n_edges, 0);
        assert_false(held(q));
        check(m);

        /* A second process of the same group is no neighbour. */
        Process b = join(m, "/a", 0);
        Queue *r = queue(&b, "d", 0);
        assert_int_equal(watch(r), 0);
        assert_ptr_equal(r->entity, q->entity);
        check(m);
        leave(&a);
        leave(&b);
        manager_free(m);
}

static void test_priority(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0);

        assert_int_equal(watch(h), PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED);
        assert_int_equal(watch(l), PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED);
        begin(l);
        assert_false(held(l));
        assert_false(held(h)); /* in advance */
        begin(h);
        assert_true(held(l));
        assert_false(held(h));
        check(m);

        /* A queue that comes later gets the verdict of its entity. */
        Queue *l2 = queue(&low, "d", 0);
        assert_true(held(l2));
        check(m);

        leave(&high);
        assert_false(held(l));
        assert_false(held(l2));
        assert_int_equal(watch(l), 0);
        check(m);
        leave(&low);
        manager_free(m);
}

static void test_devices_are_apart(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0), *other = queue(&low, "e", 0);

        begin(h);
        begin(l);
        begin(other);
        assert_true(held(l));
        assert_false(held(other));
        check(m);
        leave(&high);
        leave(&low);
        manager_free(m);
}

static bool has_settled(Manager *m, Device *d) {
        device_touch(d);
        arbiter_flush(m);
        return d->state != DEVICE_CONTENDED;
}

/* Does without the event loop, which would also notice that the cgroups of these tests have no processes. */
static void settle(Manager *m, Device *d) {
        assert_true(poll_until(has_settled(m, d)));
}

/* Among idle neighbours, the service notices each burst of a client that pauses, and no longer looks at one that does
 * not pause. */
static void test_bursts(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0);
        Device *d = h->device;

        for (unsigned i = 0; i < 2; i++) {
                begin(h);
                assert_int_equal(d->state, DEVICE_CONTENDED);
                finish(h);
                settle(m, d);
                assert_int_equal(d->state, DEVICE_QUIET);
                assert_int_equal(watch(h), PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED);
                assert_false(held(l)); /* in a pause any other client may run */
        }

        begin(h);
        settle(m, d);
        assert_int_equal(d->state, DEVICE_SOLE);
        assert_int_equal(watch(h), 0);
        assert_int_equal(watch(l), PAGE_WATCH_READY | PAGE_WATCH_IDLE | PAGE_WATCH_DRAINED);
        assert_true(held(l));
        check(m);
        leave(&high);
        leave(&low);
        manager_free(m);
}

/* Launches that passed before the queue was watched are asked for, and count until they are drained. */
static void test_untracked(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10);
        Queue *h = queue(&high, "d", 0);
        char look = 0;

        assert_int_equal(page_slot_begin_open(h->page_slot), 0);
        assert_int_equal(recv(high.fds.lifeline, &look, 1, MSG_DONTWAIT), -1);

        Process low = join(m, "/low", 0);
        Queue *l = queue(&low, "d", 0);
        assert_int_equal(recv(high.fds.lifeline, &look, 1, MSG_DONTWAIT), 1);
        assert_int_equal(look, 'l');
        begin(l);
        assert_true(held(l));

        atomic_store(&h->page_slot->outstanding, 0);
        page_mark_dirty(high.client->page.header, h->slot);
        (void) arbiter_client_woke(high.client);
        arbiter_flush(m);
        assert_false(h->ready);
        check(m);
        leave(&high);
        leave(&low);
        manager_free(m);
}

/* No client waits for a suspended one, and a suspended client does not run. */
static void test_suspend(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0);

        begin(l);
        begin(h);
        assert_true(held(l));
        group_set_suspended(high.client->group, true);
        arbiter_flush(m);
        assert_true(held(h));
        assert_false(held(l));
        check(m);

        group_set_suspended(high.client->group, false);
        arbiter_flush(m);
        assert_false(held(h));
        assert_true(held(l));
        check(m);

        queue_set_suspended(h, true);
        client_set_suspended(high.client, true);
        queue_set_suspended(h, false);
        arbiter_flush(m);
        assert_true(held(h));
        assert_int_equal(queue_state(h), QUEUE_SUSPENDED);
        client_set_suspended(high.client, false);
        arbiter_flush(m);
        assert_false(held(h));
        check(m);
        leave(&high);
        leave(&low);
        manager_free(m);
}

static void test_entities_of_their_own(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/g", 0), b = join(m, "/g", 0);
        Queue *qa = queue(&a, "d", 0), *qb = queue(&b, "d", 0), *hinted = queue(&b, "d", -5);

        assert_int_equal(qa->entity->kind, ENTITY_GROUP);
        assert_ptr_equal(qa->entity, qb->entity);
        assert_int_equal(hinted->entity->kind, ENTITY_QUEUE);
        assert_int_equal(hinted->resolved.policy.priority, -5);
        begin(hinted);
        begin(qb);
        assert_true(held(hinted));
        assert_false(held(qb));

        /* The other queue waits for the hinted one: with the hint they are equals, until the hinted queue is idle. */
        atomic_store(&hinted->page_slot->boost, 1);
        page_mark_dirty(b.client->page.header, hinted->slot);
        (void) arbiter_client_woke(b.client);
        arbiter_flush(m);
        assert_int_equal(hinted->entity->settings.priority, 0);
        finish(hinted);
        assert_int_equal(hinted->entity->settings.priority, -5);
        atomic_store(&hinted->page_slot->boost, 0);

        assert_int_equal(settings_set_priority(&b.client->override, 20), 0);
        client_settings_changed(b.client);
        arbiter_flush(m);
        assert_int_equal(qb->entity->kind, ENTITY_CLIENT);
        assert_int_equal(qa->entity->kind, ENTITY_GROUP);
        assert_int_equal(hinted->resolved.policy.priority, 15);
        check(m);

        begin(qa);
        assert_true(held(qa));
        b.client->override = SETTINGS_NULL;
        client_settings_changed(b.client);
        arbiter_flush(m);
        assert_ptr_equal(qa->entity, qb->entity);
        assert_false(held(qa));
        check(m);

        /* A wish that asks for no less than the group has changes nothing. */
        assert_int_equal(settings_set_priority(&a.client->wish, 3), 0);
        client_settings_changed(a.client);
        assert_int_equal(qa->entity->kind, ENTITY_GROUP);
        assert_int_equal(settings_set_priority(&a.client->wish, -3), 0);
        client_settings_changed(a.client);
        assert_int_equal(qa->entity->kind, ENTITY_CLIENT);
        arbiter_flush(m);
        check(m);
        leave(&a);
        leave(&b);
        manager_free(m);
}

/* Moves the process as if peer_refresh_cgroup() had found the new cgroup. */
static void move(Process *p, const char *cgroup) {
        free(p->client->peer.cgroup);
        p->client->peer.cgroup = strdup(cgroup);
        assert_int_equal(client_moved(p->client), 0);
        arbiter_flush(p->client->manager);
}

/* A client that changes groups is scheduled as a member of the new one. Time that it used stays with its former
 * group. */
static void test_moves(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0), mover = join(m, "/old", -5);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0), *q = queue(&mover, "d", 0);
        Queue *hinted = queue(&mover, "d", -3), *other = queue(&mover, "e", 0);
        PolicyUsage usage;

        begin(q);
        begin(h);
        begin(l);
        assert_true(held(q));
        assert_true(held(hinted));

        /* A move from one held group to another releases the queue for no moment. */
        uint32_t word = atomic_load(&q->page_slot->verdict);
        group_usage(mover.client->group, now_ns(), &usage);
        assert_true(usage.wait_ns > 0);
        move(&mover, "/new");
        assert_null(group_find(m, "/old")->clients);
        assert_string_equal(mover.client->group->name, "/new");
        assert_int_equal(atomic_load(&q->page_slot->verdict), word);
        assert_true(held(q));
        assert_int_equal(q->entity->settings.priority, 0);
        assert_int_equal(hinted->entity->settings.priority, -3);
        assert_ptr_equal(hinted->entity->group, mover.client->group);
        assert_ptr_equal(other->entity->group, mover.client->group);
        check(m);

        /* Only the wait until the move is the old group's. */
        PolicyUsage later;
        group_usage(group_find(m, "/old"), now_ns(), &later);
        assert_true(later.wait_ns >= usage.wait_ns);
        group_usage(group_find(m, "/old"), now_ns(), &usage);
        assert_int_equal(later.wait_ns, usage.wait_ns);

        /* The client moves into the running group, and out of it again. */
        move(&mover, "/high");
        assert_ptr_equal(q->entity, h->entity);
        assert_null(group_find(m, "/new")); /* the group had nothing to be kept for */
        assert_false(held(q));
        assert_true(held(hinted));
        check(m);
        move(&mover, "/low");
        assert_ptr_equal(q->entity, l->entity);
        assert_true(held(q));
        check(m);

        /* A process's own settings move with it. */
        assert_int_equal(settings_set_priority(&mover.client->override, 20), 0);
        client_settings_changed(mover.client);
        move(&mover, "/high");
        assert_int_equal(q->entity->kind, ENTITY_CLIENT);
        assert_ptr_equal(q->entity->group, high.client->group);
        assert_false(held(q));
        assert_true(held(h));
        check(m);
        leave(&mover);
        leave(&high);
        leave(&low);
        manager_free(m);
}

static void test_slots_are_used_again_late(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        Queue *first = queue(&a, "d", 0);
        uint32_t slot = first->slot;

        release(first);
        Queue *second = queue(&a, "d", 0);
        assert_int_not_equal(second->slot, slot);
        for (unsigned i = 0; i < 100; i++)
                (void) queue(&a, "d", 0);
        assert_int_equal(a.client->n_queues, 101);
        assert_non_null(a.client->slots[slot].queue);
        check(m);
        leave(&a);
        manager_free(m);
}

static void test_device_settings(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0);
        Device *d = device_find(m, "d");
        DeviceSettings s = DEVICE_SETTINGS_NULL;

        begin(l);
        begin(h);
        assert_int_equal(device_settings_set(&s, device_key_find("Concurrency"), 0), -ERANGE);
        assert_int_equal(device_settings_set(&s, device_key_find("TimeSliceUSec"), 7000), 0);
        assert_int_equal(device_configure(d, &s), 0);
        assert_int_equal(d->config.timeslice_ns, 7 * NSEC_PER_MSEC);
        arbiter_flush(m);
        assert_true(held(l));

        /* Settings that contradict each other change nothing. */
        s = DEVICE_SETTINGS_NULL;
        assert_int_equal(device_settings_set(&s, device_key_find("StarveUSec"), 1000), 0);
        assert_int_equal(device_settings_set(&s, device_key_find("StarveRunUSec"), 1000000), 0);
        assert_int_equal(device_configure(d, &s), -EINVAL);
        assert_int_equal(d->config.timeslice_ns, 7 * NSEC_PER_MSEC);
        assert_false(device_settings_has(&d->runtime, device_key_find("StarveUSec")));
        arbiter_flush(m);
        check(m);
        leave(&high);
        leave(&low);

        /* The device's settings are kept while no client uses it. */
        assert_ptr_equal(device_find(m, "d"), d);
        assert_int_equal(d->config.timeslice_ns, 7 * NSEC_PER_MSEC);
        manager_free(m);
}

static void test_devices_are_bounded(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        char name[32];

        for (unsigned i = 0; i < 200; i++) {
                (void) snprintf(name, sizeof(name), "d%u", i);
                queue_free(queue(&a, name, 0));
                manager_end_turn(m);
        }
        assert_in_range(HASH_COUNT(m->devices), 1, DEVICES_IDLE_MAX);
        assert_non_null(device_find(m, "d199"));
        leave(&a);
        manager_free(m);
}

/* The devices of a client that ends are removed at once, and not one by one as others are made. */
static void test_devices_go_with_their_queues(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        Queue *q[100];
        char name[32];

        for (unsigned i = 0; i < ELEMENTSOF(q); i++) {
                (void) snprintf(name, sizeof(name), "d%u", i);
                q[i] = queue(&a, name, 0);
        }
        DeviceSettings s = DEVICE_SETTINGS_NULL;
        assert_int_equal(device_settings_set(&s, device_key_find("TimeSliceUSec"), 7000), 0);
        assert_int_equal(device_configure(q[0]->device, &s), 0);
        assert_int_equal(user_count(m, a.client->peer.uid, USER_DEVICES), 100);
        uid_t uid = a.client->peer.uid;
        leave(&a);
        manager_end_turn(m);
        assert_int_equal(HASH_COUNT(m->devices), DEVICES_IDLE_MAX + 1);
        assert_int_equal(user_count(m, uid, USER_DEVICES), DEVICES_IDLE_MAX + 1);
        assert_non_null(device_find(m, "d0")); /* it has settings */
        assert_null(device_find(m, "d1"));
        assert_non_null(device_find(m, "d99"));
        manager_free(m);
}

/* A user who has as many devices as allowed loses an idle one for the next. Without an idle one the next is refused. */
static void test_devices_are_a_users(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        QueueParameters p = {.backend = "test"};
        Queue *q[3], *more;

        m->config->limits.devices_per_user = 3;
        q[0] = queue(&a, "d0", 0);
        q[1] = queue(&a, "d1", 0);
        q[2] = queue(&a, "d2", 0);
        p.device = "d3";
        assert_int_equal(queue_new(a.client, &p, &more), -EDQUOT);
        assert_null(device_find(m, "d3"));
        assert_int_equal(a.client->n_queues, 3);
        release(q[1]);
        assert_int_equal(queue_new(a.client, &p, &more), 0);
        assert_null(device_find(m, "d1"));
        assert_int_equal(user_count(m, a.client->peer.uid, USER_DEVICES), 3);
        p.device = "d2";
        assert_int_equal(queue_new(a.client, &p, &more), 0);
        leave(&a);
        manager_free(m);
}

#define N_PROCESSES 6U
#define N_QUEUES    24U

/* Random events in random order. */
static void test_random(void **state) {
        Manager *m = manager_make();
        Process p[N_PROCESSES];
        Queue *q[N_QUEUES] = {0};
        unsigned launched[N_QUEUES] = {0};
        char cgroup[16], device[16];

        srandom(4711);
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                (void) snprintf(cgroup, sizeof(cgroup), "/g%u", i / 2);
                p[i] = join(m, cgroup, (int) (i / 2));
        }
        for (unsigned step = 0; step < 5000; step++) {
                unsigned i = (unsigned) random() % N_QUEUES, n = i % N_PROCESSES;
                Client *c = p[n].client;

                switch (random() % 13) {
                case 0:
                        if (q[i])
                                release(TAKE_PTR(q[i]));
                        else {
                                (void) snprintf(device, sizeof(device), "d%ld", random() % 3);
                                q[i] = queue(&p[n], device, random() % 4 == 0 ? -1 : 0);
                        }
                        launched[i] = 0;
                        break;
                case 1:
                        client_set_suspended(c, random() % 2);
                        break;
                case 2:
                        group_set_suspended(c->group, random() % 4 == 0);
                        break;
                case 3:
                        if (q[i])
                                queue_set_suspended(q[i], random() % 2);
                        break;
                case 4:
                        c->override = SETTINGS_NULL;
                        if (random() % 2)
                                assert_int_equal(settings_set_priority(&c->override, random() % 5), 0);
                        client_settings_changed(c);
                        break;
                case 5:
                        assert_int_equal(settings_set_weight(&c->group->override, 1 + random() % 999), 0);
                        group_settings_changed(c->group);
                        break;
                case 6:
                        (void) snprintf(cgroup, sizeof(cgroup), "/g%ld", random() % 5);
                        move(&p[n], cgroup);
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
        }
        for (unsigned i = 0; i < N_PROCESSES; i++)
                leave(&p[i]);
        assert_null(m->queues);
        assert_null(m->clients);
        /* The user is kept for the devices that it was the first to name. */
        assert_int_equal(HASH_COUNT(m->users), 1);
        for (UserCount what = 0; what < _USER_COUNT_MAX; what++)
                assert_int_equal(m->users->n[what], what == USER_DEVICES ? HASH_COUNT(m->devices) : 0);
        manager_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_alone),
                        cmocka_unit_test(test_priority),
                        cmocka_unit_test(test_devices_are_apart),
                        cmocka_unit_test(test_bursts),
                        cmocka_unit_test(test_untracked),
                        cmocka_unit_test(test_suspend),
                        cmocka_unit_test(test_entities_of_their_own),
                        cmocka_unit_test(test_moves),
                        cmocka_unit_test(test_slots_are_used_again_late),
                        cmocka_unit_test(test_device_settings),
                        cmocka_unit_test(test_devices_are_bounded),
                        cmocka_unit_test(test_devices_go_with_their_queues),
                        cmocka_unit_test(test_devices_are_a_users),
                        cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
