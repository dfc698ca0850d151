/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * libxsched and queues whose backend can stop what was submitted: holds beyond the gate
 */

#include "shim-cases.h"

/* A backend that can stop submitted work, with counts and results of its calls. */
static struct {
        _Atomic uint32_t n_holds, n_releases;
        _Atomic uint32_t last_n;
        _Atomic int fail_hold, fail_release;
        _Atomic bool held;
} stopper;

static int stopper_apply(XschedQueue *const *queues, void *const *userdata, uint32_t n, int held) {
        for (uint32_t i = 0; i < n; i++)
                CHECK(userdata[i] == &stopper && queues[i]);
        atomic_store(&stopper.last_n, n);
        int r = atomic_exchange(held ? &stopper.fail_hold : &stopper.fail_release, 0);
        if (r == 0)
                atomic_store(&stopper.held, held);
        atomic_fetch_add(held ? &stopper.n_holds : &stopper.n_releases, 1);
        return r;
}

static XschedQueueInfo stoppable(void) {
        return (XschedQueueInfo){.apply = stopper_apply, .userdata = &stopper, .level = LEVEL_INTERRUPT};
}

static void order(FakeClient *c, uint32_t slot, PreemptLevel level, uint64_t lease_ns) {
        atomic_store(&fake_slot(c->f, slot)->level, level);
        fake_hold(c->f, slot, lease_ns);
        fake_client_nudge(c);
}

static bool is_applied(FakeClient *c, uint32_t slot) {
        return atomic_load(&fake_slot(c->f, slot)->applied) == atomic_load(&fake_slot(c->f, slot)->verdict);
}

static void case_stop(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *a = attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 1)); /* the first verdict */
        (void) attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 2));
        FakeClient *c = &s->clients[0];

        /* The level of the gate alone makes no call to the backend. */
        order(c, 0, LEVEL_GATE, NSEC_INFINITY);
        order(c, 1, LEVEL_INTERRUPT, NSEC_INFINITY);
        CHECK(poll_until(is_applied(c, 1)));
        CHECK(atomic_load(&stopper.n_holds) == 1 && atomic_load(&stopper.last_n) == 1);
        CHECK(!is_applied(c, 0));
        CHECK(xsched_queue_get_state(a) == XSCHED_QUEUE_HELD);
        fake_run(c->f, 0);
        fake_run(c->f, 1);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 3 && is_applied(c, 1)));
        CHECK(xsched_queue_get_state(a) == 0);

        /* Both of one device in one batch. */
        atomic_store(&fake_slot(c->f, 0)->level, LEVEL_DEQUEUE);
        fake_hold(c->f, 0, NSEC_INFINITY);
        order(c, 1, LEVEL_DEQUEUE, NSEC_INFINITY);
        CHECK(poll_until(is_applied(c, 0) && is_applied(c, 1)));
        CHECK(atomic_load(&stopper.n_holds) == 2 && atomic_load(&stopper.last_n) == 2);

        /* A queue that is removed is released first. */
        xsched_queue_unref(a);
        CHECK(scheduler_until(s, c->n_queues == 1));
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 4));
        fake_client_hang_up(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 5 && !atomic_load(&stopper.held)));
}

/* The hold ends with the lease alone, without a message. */
static void case_stop_lease(void) {
        FakeScheduler *s = scheduler();
        (void) attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 1));
        FakeClient *c = &s->clients[0];
        PageHeader *h = c->f->page.header;

        uint64_t start = now_ns();
        order(c, 0, LEVEL_INTERRUPT, 200 * NSEC_PER_MSEC);
        CHECK(poll_until(atomic_load(&stopper.n_holds) == 1));
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 2));
        CHECK(now_ns() - start >= 200 * NSEC_PER_MSEC);

        /* A renewed lease holds the queue again, for as long as it is renewed. */
        page_set_lease(h, NSEC_INFINITY);
        CHECK(poll_until(atomic_load(&stopper.n_holds) == 2));
        CHECK(atomic_load(&stopper.n_releases) == 2);
        page_set_lease(h, 0);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 3));
}

static void case_stop_failure(void) {
        FakeScheduler *s = scheduler();
        XschedQueue *q = attached_queue(s, stoppable());
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 1));
        FakeClient *c = &s->clients[0];

        /* A failed hold is not tried again for the same verdict, but for the next one. */
        atomic_store(&stopper.fail_hold, -ETIME);
        order(c, 0, LEVEL_INTERRUPT, NSEC_INFINITY);
        CHECK(poll_until(atomic_load(&stopper.n_holds) == 1));
        /* The backend's state is unknown after the failure: the queue is released. */
        CHECK(poll_until(atomic_load(&stopper.n_releases) == 2));
        fake_client_nudge(c);
        fake_run(c->f, 0);
        fake_hold(c->f, 0, NSEC_INFINITY);
        fake_client_nudge(c);
        CHECK(poll_until(is_applied(c, 0)));
        CHECK(atomic_load(&stopper.n_holds) == 2);

        /* An order that is taken back and given again before the control thread looks: nothing is done, and it counts
         * as applied. */
        uint32_t holds = atomic_load(&stopper.n_holds);
        fake_run(c->f, 0);
        fake_hold(c->f, 0, NSEC_INFINITY);
        fake_client_nudge(c);
        CHECK(poll_until(is_applied(c, 0)));
        CHECK(atomic_load(&stopper.n_holds) <= holds + 1); /* one more call if the control thread had just looked */
        uint32_t releases = atomic_load(&stopper.n_releases);

        /* A release is retried until it succeeds. */
        atomic_store(&stopper.fail_release, -EIO);
        fake_run(c->f, 0);
        fake_client_nudge(c);
        CHECK(poll_until(atomic_load(&stopper.n_releases) == releases + 2 && !atomic_load(&stopper.held)));
        CHECK(poll_until(is_applied(c, 0)));

        /* Another level: the queue is registered anew. */
        xsched_queue_lower_level(q, LEVEL_GATE);
        CHECK(scheduler_until(s, c->n_gone == 1 && c->n_queues == 1));
        CHECK(scheduler_until(s, s->level == LEVEL_GATE));
}

static const BusCase cases[] = {
                CASE(stop),
                CASE(stop_lease),
                CASE(stop_failure),
};

int main(int argc, char *argv[]) {
        return run_cases(cases, ELEMENTSOF(cases), argc, argv);
}
