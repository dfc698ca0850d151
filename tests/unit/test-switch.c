/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A device gets another policy: no settings are lost, whatever else happens. Also the service's part in policies over
 * several devices, and in those by process
 */

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/core/resolve.h"
#include "service/settings/xsched-conf.h"
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

        /* Both are alone on their devices, where they are not watched. */
        begin(l);
        begin(h);
        assert_false(held(l));
        set_policy(m, "d1", "hhpf");
        assert_false(held(l)); /* the policy orders several devices, and here is one */
        set_policy(m, "d2", "hhpf");
        assert_true(held(l));
        assert_false(held(h));
        check(m);

        finish(h);
        assert_false(held(l));
        begin(h);
        assert_true(held(l));
        drain(l);

        /* Neither an equal nor a client on a device with another policy delays others. */
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

        /* A client that has ended delays no other. */
        leave(&high);
        arbiter_flush(m);
        assert_false(held(l));
        check(m);
        leave(&low);
        manager_free(m);
}

/* One entity of a high priority ends and another begins, in one turn and on two devices: nothing changes for a third.
 */
static void test_one_verdict_in_a_turn(void **state) {
        static const char *const devices[] = {"d1", "d2", "d3"};
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), other = join(m, "/other", 10), low = join(m, "/low", 0);
        Queue *q[] = {queue(&high, "d1", 0), queue(&other, "d2", 0)}, *l = queue(&low, "d3", 0);

        for (size_t i = 0; i < ELEMENTSOF(devices); i++)
                set_policy(m, devices[i], "hhpf");
        begin(l);
        begin(q[0]);
        assert_true(held(l));
        drain(l);
        for (unsigned i = 0; i < 8; i++) {
                uint32_t word = atomic_load(&l->page_slot->verdict);
                uint64_t n_verdicts = m->n_verdicts;

                /* Both orders of the two events. */
                if (i % 4 < 2)
                        assert_true(begin_in_turn(q[1 - i % 2]));
                assert_true(finish_in_turn(q[i % 2]));
                if (i % 4 >= 2)
                        assert_true(begin_in_turn(q[1 - i % 2]));
                arbiter_flush(m);
                assert_int_equal(atomic_load(&l->page_slot->verdict), word);
                assert_int_equal(m->n_verdicts, n_verdicts);
                assert_int_equal(l->device->n_preempted, 1);
        }
        check(m);
        leave(&high);
        leave(&other);
        leave(&low);
        manager_free(m);
}

/* Every client may name a device that does not exist. */
static void test_made_up_device(void **state) {
        Manager *m = manager_make();
        m->config->device.policy = policy_find("hhpf");
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "made-up", 0), *l = queue(&low, "d", 0);

        set_policy(m, "d", "hhpf");
        begin(l);
        begin(h);
        assert_false(held(l));
        finish(h);

        /* A device counts after the administrator has given it a policy. */
        set_policy(m, "made-up", "hhpf");
        begin(h);
        assert_true(held(l));
        leave(&high);
        leave(&low);
        manager_free(m);
}

/* A process that does nothing. */
static pid_t child_make(void) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;)
                        (void) pause();
        }
        return pid;
}

static void child_stop(pid_t pid) {
        int status;

        assert_int_equal(kill(pid, SIGSTOP), 0);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        assert_true(WIFSTOPPED(status));
}

static void child_end(pid_t pid) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Makes the look for stopped clients, which must be due. */
static void look_for_stopped(Manager *m, const char *device) {
        Device *d = device_find(m, device);

        assert_true(d->stall_at != NSEC_INFINITY);
        d->stall_at = 0;
        device_touch(d);
        arbiter_flush(m);
}

/* A client that was stopped with work in flight delays no other client, on any device. */
static void test_stopped_elsewhere(void **state) {
        Manager *m = manager_make();
        pid_t pid = child_make();
        Process high = join_pid(m, "/high", 10, pid), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d1", 0), *l = queue(&low, "d2", 0);

        set_policy(m, "d1", "hhpf");
        set_policy(m, "d2", "hhpf");
        begin(l);
        begin(h);
        assert_true(held(l));
        child_stop(pid);
        look_for_stopped(m, "d1");
        assert_false(held(l));
        look_for_stopped(m, "d1");
        assert_false(held(l));
        check(m);

        /* The client goes on with its launches in flight. */
        assert_int_equal(kill(pid, SIGCONT), 0);
        assert_int_equal(waitpid(pid, NULL, WCONTINUED), pid);
        look_for_stopped(m, "d1");
        assert_true(held(l));
        check(m);
        leave(&high);
        leave(&low);
        child_end(pid);
        manager_free(m);
}

/* --- by processes --- */

/* A change by renice of a waiting client counts when the device is free. */
static void test_renice_while_waiting(void **state) {
        Manager *m = manager_make();
        pid_t pid[3] = {child_make(), child_make(), child_make()};
        Process p[3];
        Queue *q[3];

        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(setpriority(PRIO_PROCESS, (id_t) pid[i], getpriority(PRIO_PROCESS, 0) + 2 * (int) i),
                                0);
                p[i] = join_pid(m, "/g", 0, pid[i]);
                q[i] = queue(&p[i], "d", 0);
        }
        set_policy(m, "d", "chpf");
        for (size_t i = 0; i < 3; i++)
                begin(q[i]);
        assert_true(!held(q[0]) && held(q[1]) && held(q[2]));
        assert_int_equal(setpriority(PRIO_PROCESS, (id_t) pid[1], getpriority(PRIO_PROCESS, 0) + 8), 0);
        look_for_stopped(m, "d");
        finish(q[0]);
        leave(&p[0]);
        arbiter_flush(m);
        assert_true(held(q[1]));
        assert_false(held(q[2]));
        check(m);
        leave(&p[1]);
        leave(&p[2]);
        for (size_t i = 0; i < 3; i++)
                child_end(pid[i]);
        manager_free(m);
}

/* The client waits on two devices, which look one after the other. */
static void test_renice_on_two_devices(void **state) {
        static const char *const devices[] = {"d1", "d2"};
        Manager *m = manager_make();
        pid_t pid[2] = {child_make(), child_make()};
        Process p[2];
        Queue *q[2][2];

        for (size_t i = 0; i < 2; i++) {
                p[i] = join_pid(m, "/g", 0, pid[i]);
                for (size_t d = 0; d < 2; d++)
                        q[d][i] = queue(&p[i], devices[d], 0);
        }
        for (size_t d = 0; d < 2; d++) {
                set_policy(m, devices[d], "chpf");
                begin(q[d][0]);
                begin(q[d][1]);
                assert_true(!held(q[d][0]) && held(q[d][1]));
        }
        assert_int_equal(setpriority(PRIO_PROCESS, (id_t) pid[0], getpriority(PRIO_PROCESS, 0) + 5), 0);
        for (size_t d = 0; d < 2; d++) {
                look_for_stopped(m, devices[d]);
                assert_true(held(q[d][0]));
                finish(q[d][0]);
                assert_false(held(q[d][1]));
        }
        check(m);
        for (size_t i = 0; i < 2; i++) {
                leave(&p[i]);
                child_end(pid[i]);
        }
        manager_free(m);
}

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

        /* The hint still counts as before. */
        set_policy(m, "d", "kedf");
        assert_ptr_equal(qa->entity, qb->entity);
        assert_int_equal(hinted->entity->kind, ENTITY_QUEUE);
        assert_int_equal(hinted->entity->settings.priority, -5);
        check(m);

        /* A queue that is made while processes count belongs to its process's entity. */
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

/* Settings and hints that have to hold under every policy. */
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

/* Queues move between the entities of groups, of processes and their own, while others run: by a switch of the policy,
 * or by a setting of a process. No queue is held and let go in one turn, or the other way round. */
static void test_one_verdict_in_a_regrouping(void **state) {
        Manager *m = manager_make();
        Process p[N_PROCESSES];
        Queue *q[N_QUEUES];
        uint32_t word[N_QUEUES], launched[N_QUEUES] = {0};
        uint64_t n_regrouped = 0;
        char name[16];

        srandom(1203);
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                (void) snprintf(name, sizeof(name), "/g%u", i / 2);
                p[i] = join(m, name, 0);
                assert_int_equal(settings_set_priority(&p[i].client->group->override, (int) i / 2), 0);
                group_settings_changed(p[i].client->group);
        }
        for (unsigned i = 0; i < N_QUEUES; i++) {
                (void) snprintf(name, sizeof(name), "d%u", i / N_PROCESSES % 3);
                q[i] = queue(&p[i % N_PROCESSES], name, random() % 3 == 0 ? -(int) (1 + random() % 3) : 0);
        }
        for (unsigned step = 0; step < 6000; step++) {
                unsigned i = (unsigned) random() % N_QUEUES;
                Settings *o = &q[i]->client->override;
                const Entity *before = q[i]->entity;

                for (unsigned k = 0; k < N_QUEUES; k++)
                        word[k] = atomic_load(&q[k]->page_slot->verdict);
                switch (random() % 6) {
                case 0:
                        switch_any(m);
                        break;
                case 1:
                        *o = SETTINGS_NULL;
                        if (random() % 2)
                                assert_int_equal(settings_set_priority(o, (int) (random() % 7) - 3), 0);
                        client_settings_changed(q[i]->client);
                        arbiter_flush(m);
                        break;
                default:
                        if (launched[i] > 0 && random() % 2) {
                                finish(q[i]);
                                launched[i]--;
                        } else {
                                begin(q[i]);
                                launched[i]++;
                        }
                }
                n_regrouped += q[i]->entity != before;
                check(m);
                for (unsigned k = 0; k < N_QUEUES; k++)
                        assert_in_range(atomic_load(&q[k]->page_slot->verdict) / PAGE_VERDICT_GEN_STEP -
                                                        word[k] / PAGE_VERDICT_GEN_STEP,
                                        0, 1);
        }
        assert_true(n_regrouped > 100);
        for (unsigned i = 0; i < N_PROCESSES; i++)
                leave(&p[i]);
        manager_free(m);
}

/* Switches policies as often as there is work, in real time. */
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
                        cmocka_unit_test(test_one_verdict_in_a_turn),
                        cmocka_unit_test(test_made_up_device),
                        cmocka_unit_test(test_stopped_elsewhere),
                        cmocka_unit_test(test_renice_while_waiting),
                        cmocka_unit_test(test_renice_on_two_devices),
                        cmocka_unit_test(test_by_process),
                        cmocka_unit_test(test_one_verdict_in_a_regrouping),
                        cmocka_unit_test(test_no_hint_is_lost),
        };

        return cmocka_run_group_tests_name("switch", tests, NULL, NULL);
}
