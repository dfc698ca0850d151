/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Counters for monitoring: histograms of decisions and of the time from ready to run, and the groups' use of a device
 */

#include <utlist.h>

#include "service/core/group.h"
#include "service/core/suspension.h"
#include "service/core/tally.h"
#include "service/core/usage.h"
#include "tests/lib/deadline.h"
#include "tests/unit/arbiter-harness.h"

static uint64_t count(const Histogram *h) {
        uint64_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(h->buckets); i++)
                n += h->buckets[i];
        return n;
}

static void buckets(void **state) {
        Histogram h = {0};

        /* A value equal to a bound is in that bound's bucket, and a greater one in the next. */
        for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
                uint64_t bound_ns = histogram_bound_us(i) * NSEC_PER_USEC;

                histogram_add(&h, bound_ns);
                assert_int_equal(h.buckets[i], i == 0 ? 1 : 2);
                histogram_add(&h, bound_ns + 1);
                assert_int_equal(h.buckets[i + 1], 1);
        }
        histogram_add(&h, 0);
        assert_int_equal(h.buckets[0], 2);
        assert_int_equal(count(&h), 2 * HISTOGRAM_BOUNDS + 1);
        histogram_add(&h, UINT64_MAX);
        assert_int_equal(h.buckets[HISTOGRAM_BOUNDS], 2);
        assert_int_equal(h.sum_ns, UINT64_MAX);
}

static void stamp(Queue *q, uint64_t ns) {
        atomic_store(&q->page_slot->ready_since_ns, ns);
}

/* A wait is counted when the verdict run ends it, and from the client's own stamp. */
static void ready_to_run(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0);
        const Histogram *all = &m->ready_to_run, *device = &h->device->ready_to_run;

        stamp(h, now_ns());
        begin(h);
        assert_int_equal(count(all), 1);
        assert_int_equal(all->buckets[0], 1); /* the queue was not held */
        assert_int_equal(all->sum_ns, 0);
        assert_int_equal(count(&m->decisions), 1);

        const uint64_t late_ns = 300 * NSEC_PER_MSEC;
        uint64_t since = now_ns() - late_ns;
        stamp(l, since);
        begin(l);
        assert_true(held(l));
        assert_int_equal(count(all), 1);
        uint64_t before = now_ns();
        finish(h);
        assert_true(poll_until((device_touch(l->device), arbiter_flush(m), !held(l))));
        assert_int_equal(count(all), 2);
        assert_true(all->sum_ns >= before - since);
        assert_true(all->sum_ns <= now_ns() - since);
        assert_memory_equal(all, device, sizeof(*all));

        /* An entity that loses the device while it has work waits from then on, whatever the stamp says. */
        uint64_t sum = all->sum_ns;
        stamp(h, now_ns());
        uint64_t lost = now_ns();
        begin(h);
        assert_true(held(l));
        assert_int_equal(count(all), 3);
        finish(h);
        assert_true(poll_until((device_touch(l->device), arbiter_flush(m), !held(l))));
        assert_int_equal(count(all), 4);
        assert_true(all->sum_ns - sum <= now_ns() - lost);

        /* A hold that ends with the queue is not counted, nor one that ends with a suspension. */
        begin(h);
        assert_true(held(l));
        assert_int_equal(count(all), 5);
        leave(&low);
        assert_int_equal(count(all), 5);
        queue_set_suspended(h, true);
        arbiter_flush(m);
        assert_true(held(h));
        queue_set_suspended(h, false);
        arbiter_flush(m);
        assert_int_equal(count(all), 5);
        leave(&high);
        manager_free(m);
}

/* An impossible stamp gives no latency. */
static void stamps_that_lie(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0);
        const uint64_t lies[] = {1, UINT64_MAX};

        begin(h);
        uint64_t start = now_ns();
        for (size_t i = 0; i < ELEMENTSOF(lies); i++) {
                stamp(l, lies[i]);
                begin(l);
                assert_true(held(l));
                finish(h);
                assert_true(poll_until((device_touch(l->device), arbiter_flush(m), !held(l))));
                finish(l);
                begin(h);
        }
        assert_true(m->ready_to_run.sum_ns <= now_ns() - start);
        leave(&high);
        leave(&low);
        manager_free(m);
}

static const Tally *tally(const Group *g, const Device *d) {
        const Tally *t;

        DL_FOREACH2(g->tallies, t, group_next)
                if (t->device == d)
                        return t;
        return NULL;
}

static TallySum sum(const Group *g, const Device *d, uint64_t now) {
        TallySum s;

        assert_non_null(tally(g, d));
        tally_sum(tally(g, d), now, &s);
        return s;
}

/* The sums over devices equal the group's totals, while its entities come and go. */
static void tallies(void **state) {
        Manager *m = manager_make();
        Process high = join(m, "/high", 10), low = join(m, "/low", 0), other = join(m, "/low", 0);
        Queue *h = queue(&high, "d", 0), *l = queue(&low, "d", 0), *hinted = queue(&low, "d", -5);
        Queue *e = queue(&low, "e", 0), *rival = queue(&high, "e", 0);
        Group *g = low.client->group;
        Device *d = l->device;

        begin(h);
        begin(rival);
        begin(l);
        begin(hinted);
        begin(e);
        assert_true(held(l));
        uint64_t now = now_ns();
        TallySum on_d = sum(g, d, now), on_e = sum(g, e->device, now);
        assert_int_equal(on_d.n_held, 2);
        assert_string_equal(on_d.held_why, "priority");
        assert_int_equal(on_d.n_queues, 2);
        assert_int_equal(on_e.n_held, 1);
        assert_int_equal(sum(high.client->group, d, now).n_held, 0);
        assert_null(sum(high.client->group, d, now).held_why);
        /* The longest wait of the group's entities. */
        assert_true(poll_until(now_ns() > now));
        PolicyWait w;
        assert_true(d->ops->entity_wait(l->entity->policy, &w));
        assert_int_equal(on_d.held_since_ns, w.since_ns);

        leave(&low); /* the other process keeps the group */
        assert_ptr_equal(other.client->group, g);
        now = now_ns();
        PolicyUsage in_all;
        group_usage(g, now, &in_all);
        assert_true(in_all.wait_ns > 0);
        assert_int_equal(sum(g, d, now).usage.wait_ns + sum(g, rival->device, now).usage.wait_ns, in_all.wait_ns);
        assert_int_equal(sum(g, d, now).n_held, 0);
        assert_int_equal(sum(g, d, now).n_queues, 0);

        /* The new counters go on from the old values. */
        uint64_t before = sum(g, d, now).usage.wait_ns;
        Queue *again = queue(&other, "d", 0);
        begin(again);
        assert_true(held(again));
        assert_true(poll_until(sum(g, d, now_ns()).usage.wait_ns > before));
        check(m);
        leave(&other);
        leave(&high);
        manager_free(m);
}

/* Launches that passed by an expired lease stay counted after their clients have gone. */
static void lease_expiries(void **state) {
        Manager *m = manager_make();
        Process a = join(m, "/a", 0);
        Queue *q = queue(&a, "d", 0);

        atomic_store(&q->page_slot->lease_expiries, 7);
        assert_int_equal(m->n_lease_expired, 0);
        leave(&a);
        assert_int_equal(m->n_lease_expired, 7);
        manager_free(m);
}

static const struct CMUnitTest tests[] = {
                cmocka_unit_test(buckets),
                cmocka_unit_test(ready_to_run),
                cmocka_unit_test(stamps_that_lie),
                cmocka_unit_test(tallies),
                cmocka_unit_test(lease_expiries),
};

int main(void) {
        return cmocka_run_group_tests(tests, NULL, NULL);
}
