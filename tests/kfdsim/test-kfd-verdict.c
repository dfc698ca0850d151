/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the KFD layer does with verdicts, and what it tells the service
 */

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

        /* One alone. */
        hold(0, NSEC_INFINITY);
        CHECK(poll_until(is_applied(0)));
        dispatch(a, 5, SHORT_NS);
        dispatch(b, 5, SHORT_NS);
        finish(b);
        CHECK(stands_still(a) && aql_queue_backlog(a) == 5);
        run_all(1);
        finish(a);
}

/* The runtime's own word about its queue is remembered, and counts when the hold is over. */
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

        /* The first verdict of its own: run, though the other is held. */
        CHECK(scheduler_until(s, n_registered() == ELEMENTSOF(storm) + 1));
        for (size_t i = 0; i < ELEMENTSOF(storm); i++)
                finish(storm[i]);
        CHECK(aql_queue_executed(q) == 0);

        /* Without one: let go with the last that is held, or when that is destroyed. */
        fake_scheduler_disown(s);
        AqlQueue *late = bare_queue();
        dispatch(late, 3, SHORT_NS);
        CHECK(stands_still(late) && aql_queue_executed(late) == 0);
        CHECK(aql_queue_destroy(q) == 0);
        finish(late);
}

static void case_lease(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        dispatch(q, 200, 10 * SHORT_NS);
        hold(0, 300 * NSEC_PER_MSEC);
        CHECK(poll_until(is_applied(0)));
        CHECK(stands_still(q));
        finish(q); /* nobody says anything */

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
        dispatch(q, 50, SHORT_NS);
        CHECK(page_slot_set_watch(slot, WATCH_ALL) == PAGE_OUTSTANDING_UNTRACKED);
        fake_client_nudge(client);
        CHECK(poll_until(outstanding(0) > 0 && !(outstanding(0) & PAGE_OUTSTANDING_UNTRACKED)));
        CHECK(poll_until(outstanding(0) == 0));
        finish(q);
        CHECK(poll_until(fake_take_edge(client->f, 0)));

        /* Ready by its index alone, and idle. */
        for (int i = 0; i < 10; i++) {
                dispatch(q, 4, SHORT_NS);
                CHECK(poll_until(fake_take_edge(client->f, 0)));
                CHECK(poll_until(outstanding(0) == 0));
                finish(q);
        }
        CHECK(poll_until(atomic_load(&slot->completed) == 40));
        CHECK(atomic_load(&slot->mean_ns) > 0);

        /* Ready while it is held, and known to be when it is let go. */
        hold_all(1);
        dispatch(q, 4, SHORT_NS);
        CHECK(poll_until(outstanding(0) == 4));
        run_all(1);
        CHECK(poll_until(outstanding(0) == 0));
        finish(q);

        /* Not watched: nobody knows. */
        (void) page_slot_set_watch(slot, 0);
        CHECK(poll_until(outstanding(0) == PAGE_OUTSTANDING_UNTRACKED));
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(hold),
                        CASE(update),
                        CASE(create_held),
                        CASE(lease),
                        CASE(edges),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
