/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The KFD layer carries out verdicts, and reports to the service
 */

#include <pthread.h>

#include <sys/ioctl.h>
#include <sys/mman.h>

#include "common/macro.h"
#include "shim-kfd.h"

static uint32_t outstanding(uint32_t slot) {
        return atomic_load(&fake_slot(client->f, slot)->outstanding);
}

static void case_hold(void) {
        start(GFX90A);
        AqlQueue *a = queue(), *b = queue();

        for (int i = 0; i < 20; i++) {
                dispatch(a, 5, SHORT_NS);
                dispatch(b, 5, SHORT_NS);
                hold_all(2);
                CHECK(i % 10 != 0 || (stands_still(a) && stands_still(b)));
                dispatch(a, 5, SHORT_NS); /* rung while it is unmapped */
                run_all(2);
                finish(a);
                finish(b);
        }

        /* One queue alone is held. */
        hold(0, NSEC_INFINITY);
        CHECK(poll_until(is_applied(0)));
        dispatch(a, 5, SHORT_NS);
        dispatch(b, 5, SHORT_NS);
        finish(b);
        CHECK(stands_still(a) && aql_queue_backlog(a) == 5);
        run_all(1);
        finish(a);
}

/* The runtime's own update of its queue is remembered, and counts when the hold is over. */
static void case_update(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        dispatch(q, 5, SHORT_NS);
        CHECK(aql_queue_update(q, 100) == 0);
        CHECK(stands_still(q) && aql_queue_executed(q) == 0);
        CHECK(aql_queue_update(q, 0) == 0);
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        CHECK(stands_still(q) && aql_queue_executed(q) == 0);
        CHECK(aql_queue_update(q, 100) == 0);
        aql_ring(q);
        finish(q);

        hold_all(1);
        CHECK(aql_queue_update(q, 101) != 0);
        CHECK(aql_queue_destroy(q) == 0);
        CHECK(scheduler_until(s, client->n_queues == 0));
}

/* What the runtime keeps off the device does not count as under way, until the runtime puts it back. */
static void case_stopped(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        (void) page_slot_set_watch(fake_slot(client->f, 0), WATCH_ALL);
        fake_client_nudge(client);
        for (unsigned i = 0; i < 3; i++) {
                dispatch(q, 2, 10 * NSEC_PER_MSEC);
                CHECK(poll_until(outstanding(0) > 0));
                CHECK(aql_queue_update(q, 0) == 0);
                CHECK(poll_until(outstanding(0) == 0));
                dispatch(q, 1, SHORT_NS);
                CHECK(stands_still(q) && outstanding(0) == 0);

                (void) fake_take_edge(client->f, 0);
                CHECK(aql_queue_update(q, 100) == 0);
                CHECK(poll_until(fake_take_edge(client->f, 0)));
                aql_ring(q);
                finish(q);
                CHECK(poll_until(outstanding(0) == 0));
        }
}

static KfdsimQueue in_driver(uint32_t id) {
        KfdsimQueue q;
        CHECK(kfdsim_queue(id, &q));
        return q;
}

/* Percentage and priority are those of the application's last call, whenever that was. */
static void case_remembered(void) {
        KfdCreateQueue a;
        KfdsimQueue q;
        start(GFX90A);
        Raw r = raw_open();

        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, n_registered() == 1));
        CHECK(poll_until(is_applied(0)));
        hold_all(1);
        q = in_driver(a.queue_id);
        CHECK(q.percentage == 0 && q.priority == 7); /* as created */
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        q = in_driver(a.queue_id);
        CHECK(q.percentage == 70 && q.priority == 7);

        CHECK(raw_update(r.fd, &a, 37, 9) == 0);
        hold_all(1);
        q = in_driver(a.queue_id);
        CHECK(q.percentage == 0 && q.priority == 9);
        CHECK(raw_update(r.fd, &a, 55, 3) == 0); /* said while it is held */
        q = in_driver(a.queue_id);
        CHECK(q.percentage == 0 && q.priority == 3);
        CHECK(raw_update(r.fd, &a, 55, 16) < 0 && errno == EINVAL); /* the kernel's own words, and nothing changes */
        CHECK(raw_update(r.fd, &a, 101, 3) < 0 && errno == EINVAL);
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        q = in_driver(a.queue_id);
        CHECK(q.percentage == 55 && q.priority == 3);
}

/* Each call costs all processes of a GPU: no call is made that would change nothing. */
static void case_unchanged(void) {
        start(GFX90A);
        AqlQueue *q = queue();
        uint32_t id = aql_queue_id(q);

        CHECK(poll_until(is_applied(0)));
        CHECK(in_driver(id).n_updates == 0); /* the first verdict of a queue that runs */
        hold_all(1);
        CHECK(in_driver(id).n_updates == 1);
        for (int i = 0; i < 20; i++) { /* the same again: a new word, and renewed leases */
                hold_all(1);
                page_set_lease(client->f->page.header, NSEC_INFINITY);
        }
        CHECK(in_driver(id).n_updates == 1);
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        for (int i = 0; i < 20; i++) {
                run_all(1);
                CHECK(poll_until(is_applied(0)));
        }
        CHECK(in_driver(id).n_updates == 2);

        /* A queue that the application has stopped is left alone. */
        CHECK(aql_queue_update(q, 0) == 0);
        hold_all(1);
        run_all(1);
        CHECK(poll_until(is_applied(0)));
        CHECK(in_driver(id).n_updates == 3);
}

static void case_destroy_held(void) {
        start(GFX90A);
        AqlQueue *a = queue(), *b = queue();

        dispatch(a, 5, 10 * SHORT_NS);
        hold_all(2);
        dispatch(a, 5, SHORT_NS);
        dispatch(b, 5, SHORT_NS);
        uint64_t done = aql_queue_executed(b);
        CHECK(aql_queue_destroy(a) == 0);
        CHECK(scheduler_until(s, client->n_queues == 1));
        CHECK(stands_still(b) && aql_queue_executed(b) == done); /* the end of a queue releases no other */

        /* Its number is used again, by a queue that has never been held. */
        run_all(2);
        finish(b);
        AqlQueue *c = queue();
        dispatch(c, 5, SHORT_NS);
        finish(c);
}

static void case_create_held(void) {
        AqlQueue *storm[40];
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        for (size_t i = 0; i < ELEMENTSOF(storm); i++) {
                storm[i] = bare_queue();
                dispatch(storm[i], 3, SHORT_NS);
        }
        CHECK(stands_still(storm[0]) && aql_queue_executed(storm[0]) == 0);

        /* Its first own verdict is run, although the other queue is held. */
        CHECK(scheduler_until(s, n_registered() == ELEMENTSOF(storm) + 1));
        for (size_t i = 0; i < ELEMENTSOF(storm); i++)
                finish(storm[i]);
        CHECK(aql_queue_executed(q) == 0);

        /* Without a verdict of its own, it is released with the last held queue, or when that is destroyed. */
        fake_scheduler_disown(s);
        AqlQueue *late = bare_queue();
        dispatch(late, 3, SHORT_NS);
        CHECK(stands_still(late) && aql_queue_executed(late) == 0);
        CHECK(aql_queue_destroy(q) == 0);
        finish(late);
}

/* A queue is made while its device is held, by arguments that are not all in memory, or cannot be written: the call
 * gets the kernel's answer, and does not crash. */
static void case_create_held_nowhere(void) {
        KfdCreateQueue a;
        start(GFX90A);
        AqlQueue *q = queue();
        Raw r = raw_open();
        uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
        hold_all(1);
        KfdCreateQueue *last = (KfdCreateQueue *) (void *) (pages + 4096 - sizeof(a));
        errno = 0;
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a) + 8, last) < 0 && errno == EFAULT);
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE_AQL, sizeof(a), last) == 0);
        CHECK(raw_destroy(&r, last->queue_id) == 0);
        CHECK(mprotect(pages, 4096, PROT_READ) == 0);
        errno = 0;
        CHECK(ioctl(r.fd, KFD_IOC_CREATE_QUEUE, last) < 0 && errno == EFAULT);
        run_all(1);
        dispatch(q, 3, SHORT_NS);
        finish(q);
}

static void case_lease(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        dispatch(q, 200, 10 * SHORT_NS);
        hold(0, 300 * NSEC_PER_MSEC);
        CHECK(poll_until(is_applied(0)));
        CHECK(stands_still(q));
        finish(q); /* the service says nothing */

        page_set_lease(client->f->page.header, NSEC_INFINITY);
        CHECK(poll_until(fake_slot(client->f, 0)->applied & PAGE_VERDICT_HOLD));
        dispatch(q, 10, SHORT_NS);
        CHECK(stands_still(q));
        fake_client_hang_up(client);
        finish(q);
}

static void case_edges(void) {
        start(GFX90A);
        AqlQueue *q = queue();
        PageSlot *slot = fake_slot(client->f, 0);

        CHECK(outstanding(0) == PAGE_OUTSTANDING_UNTRACKED);
        AqlCompletion *go;
        CHECK(aql_completion_create(&device, 1, false, &go) == 0);
        CHECK(aql_barrier(q, false, &go, 1, NULL) == 0);
        dispatch(q, 50, SHORT_NS);
        CHECK(page_slot_set_watch(slot, WATCH_ALL) == PAGE_OUTSTANDING_UNTRACKED);
        fake_client_nudge(client);
        CHECK(poll_until(outstanding(0) > 0 && !(outstanding(0) & PAGE_OUTSTANDING_UNTRACKED)));
        aql_completion_set(go, 0);
        CHECK(poll_until(outstanding(0) == 0));
        finish(q);
        CHECK(poll_until(fake_take_edge(client->f, 0)));

        /* The queue is seen to be ready and idle by its index alone. */
        for (int i = 0; i < 10; i++) {
                dispatch(q, 4, SHORT_NS);
                CHECK(poll_until(fake_take_edge(client->f, 0)));
                CHECK(poll_until(outstanding(0) == 0));
                finish(q);
        }
        CHECK(poll_until(atomic_load(&slot->completed) == 40));
        /* What begins and ends between two looks has no known length, and looks are rarer on a busy machine. */
        for (uint64_t until = now_ns() + TEST_DEADLINE_NS; atomic_load(&slot->mean_ns) == 0;) {
                CHECK(now_ns() < until);
                dispatch(q, 4, SHORT_NS);
                CHECK(poll_until(fake_take_edge(client->f, 0)));
                CHECK(poll_until(outstanding(0) == 0));
                finish(q);
        }

        /* The queue becomes ready while it is held, and is known to be ready when it is released. */
        hold_all(1);
        dispatch(q, 4, SHORT_NS);
        CHECK(poll_until(outstanding(0) == 4));
        run_all(1);
        CHECK(poll_until(outstanding(0) == 0));
        finish(q);

        /* Without a watch the state is not known. */
        (void) page_slot_set_watch(slot, 0);
        CHECK(poll_until(outstanding(0) == PAGE_OUTSTANDING_UNTRACKED));
}

/* --- storms --- */

#define STORM_THREADS 3U
#define STORM_ROUNDS  40U

static _Atomic unsigned storms_ended;

static void *storm_thread(void *unused) {
        for (unsigned i = 0; i < STORM_ROUNDS; i++) {
                AqlQueue *q = bare_queue();
                dispatch(q, 1 + i % 4, SHORT_NS / 10);
                if (i % 8 != 7) /* each eighth queue is destroyed with work left */
                        finish(q);
                CHECK(aql_queue_destroy(q) == 0);
        }
        atomic_fetch_add(&storms_ended, 1);
        return NULL;
}

/* Threads make and destroy queues as fast as they can, while all present ones are held and released. */
static void case_storm(void) {
        pthread_t threads[STORM_THREADS];
        start(GFX90A);
        AqlQueue *steady = queue();

        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_create(threads + i, NULL, storm_thread, NULL) == 0);
        for (bool held = true; atomic_load(&storms_ended) < ELEMENTSOF(threads); held = !held) {
                uint32_t n = (uint32_t) (client->next_id % 1000);
                for (uint32_t i = 0; i < n; i++) {
                        atomic_store(&fake_slot(client->f, i)->level, LEVEL_INTERRUPT);
                        fake_verdict(client->f, i, held && (i + n) % 3 ? VERDICT_HOLD : VERDICT_RUN);
                }
                page_set_lease(client->f->page.header, now_ns() + 10 * NSEC_PER_SEC);
                fake_client_nudge(client);
                while (aql_queue_backlog(steady) < 8)
                        dispatch(steady, 1, SHORT_NS / 10);
                fake_scheduler_turn(s);
        }
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_join(threads[i], NULL) == 0);
        /* Some went before the service heard of them. */
        CHECK(scheduler_until(s, client->n_queues == 1 && client->n_gone == client->next_id % 1000 - 1));
        run_all(1);
        finish(steady);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(hold),
                        CASE(update),
                        CASE(stopped),
                        CASE(remembered),
                        CASE(unchanged),
                        CASE(destroy_held),
                        CASE(create_held),
                        CASE(create_held_nowhere),
                        CASE(storm),
                        CASE(lease),
                        CASE(edges),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
