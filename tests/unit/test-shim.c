/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched and the service: registration, and its end and repetition
 */

#include <signal.h>

#include "include/xsched/local.h"
#include "shim-cases.h"
#include "tests/lib/threads.h"

/* --- registration --- */

static void case_register(void) {
        FakeScheduler *s = scheduler();

        CHECK(counters().state == XSCHED_STATE_OFF);
        errno = ENOTUNIQ;
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){.label = "main", .priority_hint = -5});
        CHECK(s->n_clients == 1);
        FakeClient *c = &s->clients[0];
        CHECK(streq(c->job, "token") && streq(c->class, "batch") && c->version[0] != '\0');
        CHECK(c->priority == -7 && c->weight == 50);
        CHECK(streq(s->device, "pci:0000:65:00.0") && streq(s->backend, "test") && streq(s->label, "main"));
        CHECK(s->priority_hint == -5);

        fake_hold(c->f, 0, NSEC_INFINITY);
        Launcher l;
        launch(&l, q);
        CHECK(poll_until(has_waiters(c, 0, 1)));
        CHECK(atomic_load(&l.began) == -1);
        fake_run(c->f, 0);
        CHECK(pthread_join(l.thread, NULL) == 0);
        CHECK(atomic_load(&l.began) == XSCHED_TRACKED);
        CHECK(counters().waited == 1 && counters().tracked == 1 && counters().launches == 1);
        xsched_queue_complete(q, 1, 0);
        CHECK(fake_counted(c->f, 0) == 0);
}

static void case_arguments(void) {
        XschedQueueInfo info = {.size = sizeof(info), .device = "d", .backend = "b"}, bad;
        XschedQueue *q = NULL;

        bad = info, bad.size = 4;
        CHECK(xsched_queue_new(&bad, &q) == -EINVAL);
        bad = info, bad.device = NULL;
        CHECK(xsched_queue_new(&bad, &q) == -EINVAL);
        bad = info, bad.backend = "";
        CHECK(xsched_queue_new(&bad, &q) == -EINVAL);
        CHECK(xsched_queue_new(NULL, &q) == -EINVAL);
        CHECK(!q);
        CHECK(xsched_queue_unref(NULL) == NULL);
        CHECK(counters().state == XSCHED_STATE_OFF);

        /* Callers of older and newer versions. */
        info.size = offsetof(XschedQueueInfo, label);
        CHECK(xsched_queue_new(&info, &q) == 0);
        struct {
                XschedQueueInfo known;
                uint64_t unknown[4];
        } future = {.known = info};
        future.known.size = sizeof(future);
        CHECK(xsched_queue_new(&future.known, &q) == 0);
        XschedCounters c = {.size = offsetof(XschedCounters, launches), .launches = 77};
        CHECK(xsched_get_counters(&c) == 0);
        CHECK(c.launches == 77);

        CHECK(xsched_hint("Colour", 1) == -EINVAL);
        CHECK(xsched_hint(NULL, 1) == -EINVAL);
        CHECK(xsched_hint("Priority", -256) == -ERANGE);
        CHECK(xsched_hint("Weight", 0) == -ERANGE);
        CHECK(xsched_hint("Priority", -255) == 0);
}

static void case_unregister(void) {
        static int one = 1;
        FakeScheduler *s = scheduler();
        XschedQueue *first = attached_queue(s, (XschedQueueInfo){.userdata = &one, .destroy = count_destroy});
        XschedQueue *second = attached_queue(s, (XschedQueueInfo){});

        xsched_queue_begin(first);
        xsched_queue_begin(second);
        xsched_queue_ref(first);
        xsched_queue_unref(first);
        CHECK(atomic_load(&destroyed) == 0);
        xsched_queue_unref(first);
        CHECK(scheduler_until(s, s->clients[0].n_gone == 1));
        CHECK(s->clients[0].last_gone == 1000);
        CHECK(poll_until(counters().queues == 1));
        CHECK(atomic_load(&destroyed) == 1);
        CHECK(counters().launches == 2); /* counts of removed queues stay in the sum */

        /* The next queue uses the removed one's memory. */
        XschedQueue *third = attached_queue(s, (XschedQueueInfo){});
        CHECK(third == first);
        CHECK(xsched_queue_begin(third) == XSCHED_UNTRACKED);
        CHECK(counters().launches == 3);
}

static void *storm_main(void *p) {
        for (int i = 0; i < 100; i++) {
                XschedQueue *q[4];
                for (size_t k = 0; k < ELEMENTSOF(q); k++)
                        q[k] = queue((XschedQueueInfo){.userdata = p, .destroy = count_destroy});
                for (size_t k = 0; k < ELEMENTSOF(q); k++) {
                        xsched_queue_begin(q[k]);
                        xsched_queue_unref(q[k]);
                }
        }
        return NULL;
}

/* Counts move from queues that end to the sum of these, and from a page's slot to its queue. */
static void *counting_main(void *stop) {
        for (uint64_t last = 0, now = 0; !atomic_load((const _Atomic bool *) stop); last = now) {
                now = counters().launches;
                CHECK(now >= last);
        }
        return NULL;
}

static void case_storm(void) {
        static int one = 1;
        FakeScheduler *s = scheduler();
        pthread_t threads[4], counting;
        _Atomic bool stop = false;

        CHECK(pthread_create(&counting, NULL, counting_main, &stop) == 0);
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_create(&threads[i], NULL, storm_main, &one) == 0);
        CHECK(scheduler_until(s, atomic_load(&destroyed) == 1600));
        for (size_t i = 0; i < ELEMENTSOF(threads); i++)
                CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(scheduler_until(s, s->n_clients == 1 && s->clients[0].n_queues == 0));
        atomic_store(&stop, true);
        CHECK(pthread_join(counting, NULL) == 0);
        CHECK(counters().launches == 1600);
        CHECK(counters().queues == 0);
}

/* --- draining --- */

static void case_drain(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){.drain = count_drain});
        FakeClient *c = &s->clients[0];

        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        fake_client_nudge(c); /* no queue is watched, so nothing happens */
        CHECK(page_slot_set_watch(fake_slot(c->f, 0), WATCH_ALL) == PAGE_OUTSTANDING_UNTRACKED);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&drains) == 1));
        CHECK(streq(drain_thread, "xsched"));
        CHECK(fake_counted(c->f, 0) == 1);
        fake_client_nudge(c); /* a drain is under way already */
        CHECK(xsched_queue_begin(q) == XSCHED_TRACKED);
        xsched_queue_complete(q, 1, 0);
        CHECK(!fake_take_edge(c->f, 0));
        xsched_queue_drained(q);
        CHECK(atomic_load(&fake_slot(c->f, 0)->outstanding) == 0);
        CHECK(fake_take_edge(c->f, 0));
        CHECK(atomic_load(&drains) == 1);

        page_slot_set_watch(fake_slot(c->f, 0), 0);
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
}

/* --- looking --- */

static _Atomic int looks, looks_more;

static void count_look(XschedQueue *q, void *userdata) {
        CHECK(userdata == &looks);
        atomic_fetch_add(&looks, 1);
        if (atomic_load(&looks_more) > 0) {
                atomic_fetch_sub(&looks_more, 1);
                xsched_queue_look(q);
        }
}

/* Each request for a look makes one look: also from inside a look, after a pause, and when the service is gone. There
 * is no look without a request. */
static void case_look(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, (XschedQueueInfo){.look = count_look, .userdata = &looks});
        XschedQueue *other = queue((XschedQueueInfo){.look = count_look, .userdata = &drains});
        XschedQueue *blind = queue((XschedQueueInfo){});

        atomic_store(&looks_more, 5);
        xsched_queue_look(blind);
        xsched_queue_look(q);
        CHECK(poll_until(atomic_load(&looks) == 6));
        for (int i = 7; i < 100; i++) {
                xsched_queue_look(q);
                CHECK(poll_until(atomic_load(&looks) == i));
                if (i % 10 == 0)
                        CHECK(poll_until(thread_is_asleep("xsched")));
        }
        fake_client_hang_up(&s->clients[0]);
        CHECK(poll_until(counters().state == XSCHED_STATE_DETACHED));
        xsched_queue_look(q);
        CHECK(poll_until(atomic_load(&looks) == 100));
        xsched_queue_unref(other);
        xsched_queue_unref(blind);
        xsched_queue_unref(q);
}

#define TICK_NS (750 * NSEC_PER_USEC) /* LOOK_NS */

static _Atomic uint64_t looked_at_ns;

static void note_look(XschedQueue *q, void *userdata) {
        atomic_store(&looked_at_ns, now_ns());
        if (atomic_load(&looks_more) > 0) {
                atomic_fetch_sub(&looks_more, 1);
                xsched_queue_look_in(q, 10 * NSEC_PER_USEC);
        }
}

/* Looks that cannot wait come earlier than those that can, also while the timer for the others runs already: ten in a
 * row take less than half as long as without. The least of many tries counts, because we may lose our CPU. */
static void case_look_in(void) {
        XschedQueue *q = queue((XschedQueueInfo){.look = note_look, .userdata = &drains});
        XschedQueue *other = queue((XschedQueueInfo){.look = count_look, .userdata = &looks});
        XschedQueue *blind = queue((XschedQueueInfo){});
        uint64_t least = NSEC_INFINITY;

        xsched_queue_look_in(blind, 0);
        for (int i = 0; i < 50 || (i < 1000 && least >= 10 * TICK_NS / 2); i++) {
                uint64_t start = now_ns();

                xsched_queue_look(other);
                atomic_store(&looked_at_ns, 0);
                atomic_store(&looks_more, 9);
                xsched_queue_look_in(q, 10 * NSEC_PER_USEC);
                CHECK(poll_until(atomic_load(&looked_at_ns) != 0 && atomic_load(&looks_more) == 0));
                least = MIN(least, atomic_load(&looked_at_ns) - start);
        }
        CHECK(least < 10 * TICK_NS / 2);
        xsched_queue_unref(other);
        xsched_queue_unref(blind);
        xsched_queue_unref(q);
}

/* --- the service goes --- */

static void case_hang_up(void) {
        FakeScheduler *s = scheduler();
        Launcher l;
        XschedQueue *q = launch_held(s, &l);

        fake_client_hang_up(&s->clients[0]);
        CHECK(pthread_join(l.thread, NULL) == 0); /* released before the end of its lease */
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(counters().lease_expired == 0);

        /* The client registers again by itself, with a new page. */
        CHECK(scheduler_until(s, s->n_clients == 2 && counters().queues == 1));
        FakeClient *c = &s->clients[1];
        CHECK(atomic_load(&fake_slot(c->f, 0)->outstanding) == PAGE_OUTSTANDING_UNTRACKED);
        CHECK(atomic_load(&fake_slot(c->f, 0)->submitted) == 2);
        page_slot_set_watch(fake_slot(c->f, 0), WATCH_ALL);
        xsched_queue_complete(q, 1, 0); /* the old page's launch */
        CHECK(fake_counted(c->f, 0) == 0);
        CHECK(xsched_queue_begin(q) == XSCHED_TRACKED);
        CHECK(fake_counted(c->f, 0) == 1);
}

static void case_no_service(void) {
        FakeScheduler *s = fake_scheduler_new(bus.address);
        XschedQueue *q = queue((XschedQueueInfo){});

        CHECK(poll_until(counters().state == XSCHED_STATE_CONNECTING));
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        for (int i = 0; i < 50; i++)
                fake_scheduler_turn(s);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, counters().queues == 1));
        CHECK(counters().launches == 1);
}

/* Only the lifeline counts then: the hold goes on under its lease, and ends with the service. */
static void case_bus_lost(void) {
        FakeScheduler *s = scheduler();
        Launcher l;
        XschedQueue *q = launch_held(s, &l);

        CHECK(kill(bus.pid, SIGKILL) == 0);
        XschedQueue *in_the_gap = queue((XschedQueueInfo){});
        CHECK(poll_until(!private_bus_listens(bus.address)));
        CHECK(xsched_queue_begin(in_the_gap) == XSCHED_UNTRACKED);
        CHECK(!fake_client_is_gone(&s->clients[0]));
        CHECK(has_waiters(&s->clients[0], 0, 1));
        CHECK(counters().state == XSCHED_STATE_ATTACHED);
        fake_client_hang_up(&s->clients[0]);
        CHECK(pthread_join(l.thread, NULL) == 0);
        CHECK(poll_until(counters().state == XSCHED_STATE_DETACHED));
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
}

/* A new bus where the old one was, and the service on it with its clients: no client registers anew, held queues stay
 * held, and changes during the gap are sent afterwards. */
static void case_bus_restart(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *first = attached_queue(s, (XschedQueueInfo){}), *gone = attached_queue(s, (XschedQueueInfo){});
        FakeClient *c = &s->clients[0];
        PrivateBus again;
        Launcher l;

        fake_hold(c->f, 0, NSEC_INFINITY);
        launch(&l, first);
        CHECK(poll_until(has_waiters(c, 0, 1)));
        CHECK(kill(bus.pid, SIGKILL) == 0);
        CHECK(poll_until(!private_bus_listens(bus.address)));
        XschedQueue *second = queue((XschedQueueInfo){.label = "in the gap"});
        xsched_queue_unref(gone);
        CHECK(xsched_queue_begin(second) == XSCHED_UNTRACKED);

        CHECK(private_bus_start_again(bus.address, &again) == 0);
        fake_scheduler_reconnect(s, bus.address);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, counters().queues == 2 && c->n_gone == 1));
        CHECK(s->n_clients == 1 && c->n_queues == 2 && c->last_gone == 1001);
        CHECK(streq(s->label, "in the gap"));
        CHECK(counters().state == XSCHED_STATE_ATTACHED);
        CHECK(has_waiters(c, 0, 1));
        fake_run(c->f, 0);
        CHECK(pthread_join(l.thread, NULL) == 0);
        private_bus_stop(&again);
}

/* The lifeline stays open over a restart: no client registers anew, and changes during the gap are sent afterwards. */
static void case_restart(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *first = attached_queue(s, (XschedQueueInfo){});
        FakeClient *c = &s->clients[0];

        fake_scheduler_disown(s);
        XschedQueue *second = queue((XschedQueueInfo){.label = "in the gap"});
        xsched_queue_unref(first);
        CHECK(poll_until(counters().queues == 0));
        CHECK(xsched_queue_begin(second) == XSCHED_UNTRACKED);
        fake_scheduler_reconnect(s, bus.address);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, counters().queues == 1 && c->n_gone == 1));
        CHECK(s->n_clients == 1 && c->n_queues == 1 && c->last_gone == 1000);
        CHECK(streq(s->label, "in the gap"));
        CHECK(counters().state == XSCHED_STATE_ATTACHED);
        CHECK(!fake_client_is_gone(c));
}

static void case_amnesia(void) {
        FakeScheduler *s = scheduler();

        attached_queue(s, (XschedQueueInfo){});
        s->refuse_queue = "org.xsched.Scheduler.Error.NoSuchClient";
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, fake_client_is_gone(&s->clients[0])));
        s->refuse_queue = NULL;
        CHECK(scheduler_until(s, counters().queues == 2));
        CHECK(s->n_clients >= 2);
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
}

/* --- the service does not want us, or is no service of ours --- */

static void case_refused(void) {
        FakeScheduler *s = scheduler();

        s->refuse_client = "org.xsched.Scheduler.Error.QuotaExceeded";
        XschedQueue *q = queue((XschedQueueInfo){});
        for (int i = 0; i < 100; i++)
                fake_scheduler_turn(s);
        CHECK(counters().state == XSCHED_STATE_CONNECTING);
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);

        /* A new service may accept the client. */
        s->refuse_client = NULL;
        fake_scheduler_disown(s);
        fake_scheduler_own(s);
        CHECK(scheduler_until(s, counters().queues == 1));
}

/* A quota may be exceeded for a moment only: the same service is asked again soon. */
static void case_refused_for_now(void) {
        FakeScheduler *s = scheduler();

        s->refuse_client = "org.xsched.Scheduler.Error.QuotaExceeded";
        (void) queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, s->n_refused == 4)); /* with half a minute between them, there would be one */
        s->refuse_client = NULL;
        CHECK(scheduler_until(s, counters().queues == 1));
}

/* A connection from before a change of user is not used: the next attempt makes a new one. */
static void case_denied(void) {
        FakeScheduler *s = scheduler();

        s->refuse_client = "org.freedesktop.DBus.Error.AccessDenied";
        (void) queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, s->refused[0] != '\0'));
        s->refuse_client = NULL;
        CHECK(scheduler_until(s, counters().queues == 1));
        CHECK(!streq(s->refused, s->taken));
}

static void case_queue_refused(void) {
        FakeScheduler *s = scheduler();

        s->queues_max = 1;
        XschedQueue *first = attached_queue(s, (XschedQueueInfo){.label = "first"});
        XschedQueue *second = queue((XschedQueueInfo){.label = "second"});
        for (int i = 0; i < 50; i++)
                fake_scheduler_turn(s);
        CHECK(counters().queues == 1 && counters().state == XSCHED_STATE_ATTACHED);
        CHECK(xsched_queue_begin(second) == XSCHED_UNTRACKED);

        /* Now there is room for the queue. */
        xsched_queue_unref(first);
        CHECK(scheduler_until(s, s->clients[0].n_gone == 1 && counters().queues == 1));
        CHECK(streq(s->label, "second"));
}

static void case_bad_page(void) {
        FakeScheduler *s = scheduler();

        s->bad_page = true;
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, s->n_clients == 1 && fake_client_is_gone(&s->clients[0])));
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        CHECK(counters().state == XSCHED_STATE_CONNECTING);
}

static void case_bad_slots(void) {
        FakeScheduler *s = scheduler();

        s->force_slot = PAGE_SLOTS_MAX;
        XschedQueue *q = queue((XschedQueueInfo){});
        CHECK(scheduler_until(s, s->n_clients == 1 && s->clients[0].n_gone >= 1));
        CHECK(xsched_queue_begin(q) == XSCHED_UNTRACKED);
        s->force_slot = 5;
        attached_queue(s, (XschedQueueInfo){});
        XschedQueue *twin = queue((XschedQueueInfo){}); /* it gets the former queue's slot */
        CHECK(scheduler_until(s, s->clients[0].n_gone >= 2));
        CHECK(xsched_queue_begin(twin) == XSCHED_UNTRACKED);
}

static void case_hints(void) {
        FakeScheduler *s = scheduler();

        CHECK(xsched_hint("Priority", -100) == 0); /* before there is a client to tell it */
        attached_queue(s, (XschedQueueInfo){});
        CHECK(s->clients[0].priority == -100);
        CHECK(xsched_hint("Weight", 25) == 0);
        CHECK(xsched_hint("Threshold", 3) == 0);
        CHECK(scheduler_until(s, s->hint_weight == 25 && s->hint_threshold == 3));
        CHECK(s->hint_priority == -100);
}

/* The hint is sent at once by the page; the eventfd is written only while a queue is watched. */
static void case_will_launch(void) {
        FakeScheduler *s = scheduler();

        CHECK(xsched_hint("WillLaunch", -1) == -ERANGE);
        CHECK(xsched_hint("WillLaunch", 2000001) == -ERANGE);
        CHECK(xsched_hint("WillLaunch", 1000) == 0); /* there is no client to tell it, and no queue */
        attached_queue(s, (XschedQueueInfo){});
        XschedQueue *second = attached_queue(s, (XschedQueueInfo){});
        PageSlot *slots[] = {fake_slot(s->clients[0].f, 0), fake_slot(s->clients[0].f, 1)};
        PageHeader *header = s->clients[0].f->page.header;
        page_slot_set_watch(slots[1], PAGE_WATCH_READY);
        (void) page_take_dirty(header, 0);
        CHECK(atomic_load(&slots[0]->expected_ns) == 0);

        uint64_t before = now_ns();
        CHECK(xsched_hint("WillLaunch", 3000) == 0);
        for (unsigned i = 0; i < 2; i++) {
                uint64_t at = atomic_load(&slots[i]->expected_ns);
                CHECK(at >= before + 3 * NSEC_PER_MSEC && at <= now_ns() + 3 * NSEC_PER_MSEC);
        }
        CHECK(page_take_dirty(header, 0) == 2);
        CHECK(xsched_queue_hint(second, "WillLaunch", 2000000) == 0);
        CHECK(atomic_load(&slots[1]->expected_ns) >= before + 2 * NSEC_PER_SEC);
        CHECK(atomic_load(&slots[0]->expected_ns) < before + NSEC_PER_SEC);
        page_slot_set_watch(slots[1], 0);
}

static const BusCase cases[] = {
                CASE(register),
                CASE(arguments),
                CASE(unregister),
                CASE(storm),
                CASE(drain),
                CASE(look),
                CASE(look_in),
                CASE(hang_up),
                CASE(no_service),
                CASE(bus_lost),
                CASE(bus_restart),
                CASE(restart),
                CASE(amnesia),
                CASE(refused),
                CASE(refused_for_now),
                CASE(denied),
                CASE(queue_refused),
                CASE(bad_page),
                CASE(bad_slots),
                CASE(hints),
                CASE(will_launch),
};

int main(int argc, char *argv[]) {
        return run_cases(cases, ELEMENTSOF(cases), argc, argv);
}
