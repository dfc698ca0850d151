/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Remnants: launches that removed queues left in flight are charged to the group that launched them
 */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/core/client.h"
#include "service/core/entity-facts.h"
#include "service/core/job.h"
#include "service/core/remnant.h"
#include "service/core/resolve.h"
#include "service/core/tail.h"
#include "service/core/usage.h"
#include "service/core/user.h"
#include "tests/unit/arbiter-harness.h"
#include "tests/unit/own-clock.h"

/* Each read of the clock takes time; the tests read it less often than this. */
#define SOME_READS (UINT64_C(1000) * OWN_CLOCK_READ_NS)

static uint64_t ran(const Group *g) {
        PolicyUsage u;

        group_usage(g, now_ns(), &u);
        return u.run_ns;
}

static void flush(Device *d) {
        device_touch(d);
        arbiter_flush(d->manager);
        check(d->manager);
}

/* Lets `ns` pass. Returns the group's run time in it. */
static uint64_t ran_within(const Group *g, uint64_t ns) {
        uint64_t before = ran(g);

        own_clock_pass(ns);
        return ran(g) - before;
}

static Entity *entity_of(const char *group, Manager *m) {
        const Group *g = group_find(m, group);

        return g ? g->entities : NULL;
}

static void expire(Entity *e) {
        Manager *m = e->device->manager;

        remnants_expire(e, now_ns());
        arbiter_flush(m);
        check(m);
}

/* One client launches, and its queue is removed. An equal wants the device. With a third client no client is alone. */
typedef struct World {
        Manager *m;
        Process a, b, c;
        Queue *q, *other;
        Group *group;
} World;

static World world(void) {
        World w = {.m = manager_make()};

        w.a = join(w.m, "/a", 0);
        w.b = join(w.m, "/b", 0);
        w.c = join(w.m, "/c", 0);
        w.q = queue(&w.a, "d", 0);
        w.other = queue(&w.b, "d", 0);
        (void) queue(&w.c, "d", 0);
        w.group = w.a.client->group;
        return w;
}

static void world_done(World *w) {
        if (w->a.client)
                leave(&w->a);
        leave(&w->b);
        leave(&w->c);
        manager_free(w->m);
}

/* Ends the client, whose launches run on. */
static void hang_up(Process *p) {
        Manager *m = p->client->manager;

        client_free(TAKE_PTR(p->client));
        client_fds_done(&p->fds);
        arbiter_flush(m);
        check(m);
}

static void drop(World *w) {
        TAKE_PTR(w->q);
        hang_up(&w->a);
}

static void drop_queue(World *w) {
        queue_free(TAKE_PTR(w->q));
        arbiter_flush(w->m);
        check(w->m);
}

/* Checks that the running launch is charged to the former client, to the nanosecond but for reads of the clock, and
 * that the next one's time begins when it ends. */
static void check_charged(World *w, uint64_t left_ns) {
        Group *next = w->b.client->group;
        Device *d = w->other->device;

        begin(w->other);
        uint64_t before = ran(next);
        assert_in_range(ran_within(w->group, 10 * NSEC_PER_MSEC), 10 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC + SOME_READS);
        flush(d);
        assert_int_equal(ran(next), before);
        assert_in_range(ran_within(w->group, left_ns - 20 * NSEC_PER_MSEC), left_ns - 20 * NSEC_PER_MSEC, left_ns);
        flush(d);
        assert_int_equal(ran(next), before);
}

/* Checks that the remnant has ended, and that the next client has the device. */
static void check_over(World *w) {
        Group *next = w->b.client->group;

        flush(w->other->device);
        assert_false(held(w->other));
        assert_in_range(ran_within(next, 10 * NSEC_PER_MSEC), 10 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC + SOME_READS);
        finish(w->other);
}

/* The client ends, and its process does not: the remnant lasts until the bound. */
static void test_client_gone(void **state) {
        World w = world();

        begin(w.q);
        drop(&w);

        Entity *e = entity_of("/a", w.m);
        assert_non_null(e);
        assert_int_equal(e->n_queues, 0);
        assert_int_equal(e->n_tails, 1);
        check_charged(&w, REMNANT_MAX_NS);

        uint64_t before = ran(w.group);
        remnants_expire(e, now_ns());
        assert_ptr_equal(group_find(w.m, "/a"), w.group); /* the remnant does not end early */
        own_clock_pass(20 * NSEC_PER_MSEC);
        assert_in_range(ran(w.group) - before, 0, 20 * NSEC_PER_MSEC + SOME_READS);
        expire(e);
        assert_null(group_find(w.m, "/a"));
        check_over(&w);
        world_done(&w);
}

/* The queue is removed, and its client stays. */
static void test_queue_gone(void **state) {
        World w = world();

        begin(w.q);
        drop_queue(&w);
        Entity *e = entity_of("/a", w.m);
        assert_non_null(e);
        check_charged(&w, REMNANT_MAX_NS);
        own_clock_pass(20 * NSEC_PER_MSEC);
        expire(e);
        assert_null(w.group->entities);
        assert_ptr_equal(group_find(w.m, "/a"), w.group);

        uint64_t after = ran(w.group);
        check_over(&w);
        assert_int_equal(ran(w.group), after);
        world_done(&w);
}

/* No remnant is made where no counted launch is in flight: it has ended, waits at the gate, or is untracked. */
static void test_nothing_left(void **state) {
        for (unsigned i = 0; i < 4; i++) {
                World w = world();

                if (i > 0)
                        begin(w.q);
                if (i == 1)
                        finish(w.q);
                else if (i == 2)
                        atomic_store(&w.q->page_slot->waiters, 1);
                else if (i == 3)
                        atomic_store(&w.q->page_slot->outstanding, PAGE_OUTSTANDING_UNTRACKED);
                if (i % 2 == 0)
                        drop(&w);
                else
                        drop_queue(&w);
                assert_null(entity_of("/a", w.m));
                begin(w.other);
                check_over(&w);
                world_done(&w);
        }
}

/* A queue is held with a launch in flight, removed, and made again: one process has one remnant, and its queues go on
 * beside it. */
static void test_again(void **state) {
        World w = world();
        User *u = w.a.client->user;
        unsigned n = u->n[USER_QUEUES];

        begin(w.q);
        begin(w.other);
        drop_queue(&w);
        assert_int_equal(u->n[USER_QUEUES], n); /* a remnant counts as a queue of the quota */

        Entity *e = entity_of("/a", w.m);
        for (unsigned i = 0; i < 5; i++) {
                own_clock_pass(NSEC_PER_SEC / 10);
                w.q = queue(&w.a, "d", 0);
                assert_ptr_equal(w.q->entity, e);
                begin(w.q);
                drop_queue(&w);
                assert_int_equal(u->n[USER_QUEUES], n);
                assert_int_equal(e->n_tails, 1);
        }
        own_clock_pass(REMNANT_MAX_NS - NSEC_PER_MSEC);
        remnants_expire(e, now_ns()); /* the bound counts from the last removal */
        assert_ptr_equal(entity_of("/a", w.m), e);
        own_clock_pass(NSEC_PER_MSEC);
        expire(e);
        assert_int_equal(u->n[USER_QUEUES], n - 1);
        assert_null(entity_of("/a", w.m));
        world_done(&w);
}

/* A client that makes queues, launches and removes them without end is charged for all time that its launches may have
 * had, which is most of it. So a client that always wants the device has at least its half. (Leases are not renewed
 * here: only the words of held queues count.) */
static void test_churn(void **state) {
        const uint64_t step = 10 * NSEC_PER_MSEC;
        World w = world();
        uint64_t begun, all, let = 0, equal;

        begin(w.other);
        begun = now_ns();
        for (unsigned i = 0; i < 1000; i++) {
                if (queue_holds(w.other))
                        drain(w.other);
                if (!w.q)
                        w.q = queue(&w.a, "d", 0);
                if (atomic_load(&w.q->page_slot->outstanding) == 0)
                        begin(w.q);
                if (queue_holds(w.q))
                        drain(w.q); /* it waits at the gate */
                else
                        queue_free(TAKE_PTR(w.q));
                arbiter_flush(w.m);
                let += queue_holds(w.other) ? 0 : step;
                own_clock_pass(step);
                if (w.group->entities)
                        remnants_expire(w.group->entities, now_ns());
                device_touch(w.other->device);
                arbiter_flush(w.m);
        }
        all = now_ns() - begun;
        equal = ran(w.b.client->group);
        assert_in_range(ran(w.group) + equal, all * 9 / 10, all + SOME_READS);
        assert_true(ran(w.group) > all / 2);
        assert_true(let > all / 2);
        world_done(&w);
}

/* --- processes that end --- */

static pid_t process(void) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid > 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child ends with a test that failed */
        for (;;)
                (void) pause();
}

static void process_end(pid_t pid) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static Process join_process(Manager *m, pid_t pid, Job *job) {
        const ClientParameters parameters = {.sender = ":1.2", .job = job};
        Process p;
        Peer peer;

        assert_int_equal(peer_from_pid(pid, &peer), 0);
        free(peer.cgroup);
        peer.cgroup = strdup("/p");
        assert_int_equal(client_new(m, &peer, &parameters, &p.client, &p.fds), 0);
        arbiter_flush(m);
        return p;
}

/* A process's launches end with it. */
static void test_process_ends(void **state) {
        for (unsigned before = 0; before < 2; before++) {
                World w = world();
                pid_t pid = process();
                Process p = join_process(w.m, pid, NULL);

                begin(queue(&p, "d", 0));
                if (before)
                        process_end(pid);
                hang_up(&p);
                assert_int_equal(entity_of("/p", w.m) != NULL, !before);
                if (!before) {
                        process_end(pid);
                        while (group_find(w.m, "/p"))
                                assert_true(manager_turn(w.m, NSEC_INFINITY) >= 0);
                }
                assert_null(group_find(w.m, "/p"));
                check(w.m);
                begin(w.other);
                check_over(&w);
                world_done(&w);
        }
}

/* A job stays as long as its processes' remnants. */
static void test_job(void **state) {
        World w = world();
        pid_t maker = process(), pid = process();
        const JobParameters parameters = {.name = "j", .cgroup = "/p", .uid = getuid()};
        Peer peer;
        Job *j;

        assert_int_equal(peer_from_pid(maker, &peer), 0);
        assert_int_equal(job_new(w.m, &parameters, peer.pidfd, &j), 0);
        peer_done(&peer);
        Process p = join_process(w.m, pid, j);
        Group *g = p.client->group;
        assert_ptr_equal(g->job, j);
        process_end(maker);
        j->pidfd_source = sd_event_source_disable_unref(j->pidfd_source); /* the manager notices the job's end */
        j->pidfd = safe_close(j->pidfd);
        begin(queue(&p, "d", 0));
        hang_up(&p);
        assert_ptr_equal(g->job, j);
        assert_int_equal(HASH_COUNT(w.m->jobs), 1);
        assert_non_null(g->parent);
        own_clock_pass(REMNANT_MAX_NS);
        expire(g->entities);
        assert_int_equal(HASH_COUNT(w.m->jobs), 0);
        assert_null(group_find(w.m, "/p"));
        process_end(pid);
        world_done(&w);
}

/* A client's own entity then belongs to no client, and another client's entity is not taken for it. */
static void test_own_entity(void **state) {
        World w = world();
        char name[64];

        assert_int_equal(settings_set_priority(&w.a.client->override, 5), 0);
        client_settings_changed(w.a.client);
        arbiter_flush(w.m);
        assert_int_equal(w.q->entity->kind, ENTITY_CLIENT);
        begin(w.q);

        Entity *e = w.q->entity;
        drop(&w);
        assert_null(e->client);
        assert_string_equal(entity_name(e, name, sizeof(name)), "/a");
        assert_in_range(ran_within(w.group, NSEC_PER_MSEC), NSEC_PER_MSEC, NSEC_PER_MSEC + SOME_READS);

        w.a = join(w.m, "/a", 0);
        assert_ptr_equal(w.a.client->group, w.group);
        assert_int_equal(settings_set_priority(&w.a.client->override, 5), 0);
        client_settings_changed(w.a.client);
        w.q = queue(&w.a, "d", 0);
        assert_ptr_not_equal(w.q->entity, e);
        check(w.m);
        own_clock_pass(REMNANT_MAX_NS);
        expire(e);
        assert_int_equal(w.q->entity->kind, ENTITY_CLIENT);
        world_done(&w);
}

/* The service ends meanwhile, and makes no remnants while it ends. */
static void test_stopping(void **state) {
        World w = world();

        begin(w.q);
        begin(w.other);
        drop_queue(&w);
        manager_free(w.m);
        client_fds_done(&w.a.fds);
        client_fds_done(&w.b.fds);
        client_fds_done(&w.c.fds);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_client_gone),
                        cmocka_unit_test(test_queue_gone),
                        cmocka_unit_test(test_nothing_left),
                        cmocka_unit_test(test_again),
                        cmocka_unit_test(test_churn),
                        cmocka_unit_test(test_process_ends),
                        cmocka_unit_test(test_job),
                        cmocka_unit_test(test_own_entity),
                        cmocka_unit_test(test_stopping),
        };

        return cmocka_run_group_tests_name("remnant", tests, NULL, NULL);
}
