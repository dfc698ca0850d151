/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Verdicts, leases, the ready and the idle edge, in every order
 */

#include "explore.h"

/* --- the sides --- */

static void service_run(void) {
        w.word = page_slot_set_verdict(&w.slot, w.word, VERDICT_RUN);
        page_set_lease(&w.header, 0);
}

static void service_hold_run(void) {
        service_hold();
        service_run();
}

static void service_flaps(void) {
        service_hold_run();
        service_hold_run();
}

/* The same without a generation in the word, which shows what the generation is for. */
static void service_flaps_broken(void) {
        for (unsigned i = 0; i < 2; i++) {
                page_set_lease(&w.header, w.now + LEASE);
                atomic_store_explicit(&w.slot.verdict, PAGE_VERDICT_HOLD, memory_order_seq_cst);
                atomic_store_explicit(&w.slot.verdict, 0, memory_order_seq_cst);
                if (atomic_load_explicit(&w.slot.waiters, memory_order_seq_cst) != 0)
                        slot_wake(&w.slot);
        }
}

/* Reads `waiters` before it stores. */
static void service_hold_run_broken(void) {
        service_hold();
        bool wake = atomic_load_explicit(&w.slot.waiters, memory_order_seq_cst) != 0;
        atomic_store_explicit(&w.slot.verdict, w.word + 1, memory_order_seq_cst);
        if (wake)
                slot_wake(&w.slot);
}

static void service_holds_and_dies(void) {
        service_hold();
}

static void service_dies_and_another_adopts(void) {
        service_hold();
        w.word = page_slot_adopt(&w.slot);
}

static void service_renews_and_dies(void) {
        service_hold();
        page_set_lease(&w.header, w.now + LEASE);
}

static void clock_tick(void) {
        step();
        w.now += LEASE;
        for (size_t i = 0; i < n_sides; i++)
                if (sides[i].until <= w.now)
                        sides[i].asleep = false;
}

/* The clock advances once at any time, and again while there is a thread that it can affect. */
static void clock_ticks(void) {
        for (;;) {
                clock_tick();
                receive(&w.sleep);
        }
}

static void client_escapes(void) {
        atomic_store_explicit(&w.escape, 1, memory_order_seq_cst);
        page_slot_kick(&w.slot);
}

static void client_escapes_broken(void) {
        atomic_store_explicit(&w.escape, 1, memory_order_seq_cst);
        slot_wake(&w.slot);
}

static void launch(void) {
        unsigned r = page_slot_is_open(&w.slot) ? page_slot_begin_open(&w.slot) : page_slot_begin(&w.slot);
        if (r & PAGE_BEGIN_EDGE)
                notify();
        if (r & PAGE_BEGIN_COUNTED) {
                w.counted++;
                if (page_slot_end(&w.slot, 1))
                        notify();
        } else
                w.uncounted++;
}

static void client_launches(void) {
        launch();
}

static void client_launches_twice(void) {
        launch();
        launch();
}

/* An early version of page.h: a launch that sets the bit looks at watch again only if it was the first. */
static void client_launches_broken(void) {
        if (!page_slot_is_open(&w.slot))
                return;
        if (atomic_fetch_or_explicit(&w.slot.outstanding, PAGE_OUTSTANDING_UNTRACKED, memory_order_seq_cst) == 0 &&
                        atomic_load_explicit(&w.slot.watch, memory_order_seq_cst) & PAGE_WATCH_READY)
                notify();
}

static void client_counted_launch(void) {
        if (page_slot_begin(&w.slot) & PAGE_BEGIN_EDGE)
                notify();
        if (page_slot_end(&w.slot, 1))
                notify();
}

static void client_launch_stays(void) {
        unsigned r = page_slot_begin(&w.slot);
        assert_true(r & PAGE_BEGIN_COUNTED);
        if (r & PAGE_BEGIN_EDGE)
                notify();
        w.counted++;
}

/* Looks at watch, then counts. */
static void client_launch_stays_broken(void) {
        bool watched = atomic_load_explicit(&w.slot.watch, memory_order_seq_cst) & PAGE_WATCH_READY;
        if (atomic_fetch_add_explicit(&w.slot.outstanding, 1, memory_order_seq_cst) == 0 && watched)
                notify();
}

static void client_control(void) {
        for (;;) {
                receive(&w.knock);
                if (atomic_load_explicit(&w.slot.watch, memory_order_seq_cst) &&
                                atomic_load_explicit(&w.slot.outstanding, memory_order_seq_cst) &
                                                PAGE_OUTSTANDING_UNTRACKED)
                        if (page_slot_count_untracked(&w.slot) && page_slot_end(&w.slot, 1) != 0)
                                notify();
        }
}

static void service_believe(uint32_t outstanding) {
        w.ready = outstanding != 0;
        if (outstanding & PAGE_OUTSTANDING_UNTRACKED) {
                step();
                w.knock = true;
        }
}

static void service_watch(void) {
        service_believe(page_slot_set_watch(&w.slot, PAGE_WATCH_READY | PAGE_WATCH_IDLE));
        w.watching = true;
}

static void service_serve(void) {
        for (;;) {
                receive(&w.event);
                step();
                if (page_take_dirty(&w.header, 0) & 1)
                        service_believe(atomic_load_explicit(&w.slot.outstanding, memory_order_seq_cst));
        }
}

static void service_watches(void) {
        service_watch();
        service_serve();
}

static void service_watches_again(void) {
        service_watch();
        (void) page_slot_set_watch(&w.slot, 0);
        w.watching = false;
        service_watches();
}

/* The queue is quick: it tells no edges, and the service polls. */
static uint32_t service_looks(void) {
        (void) page_slot_set_watch(&w.slot, PAGE_WATCH_COUNTED);
        w.watching = true;
        return atomic_load_explicit(&w.slot.outstanding, memory_order_seq_cst);
}

/* Before it is held, the queue is watched for all edges. */
static void service_looks_then_watches(void) {
        service_watch();
        service_believe(service_looks());
        service_watches();
}

/* When it is found idle, the queue is watched for the ready edge alone. */
static void service_looks_while_ready(void) {
        uint32_t outstanding = service_looks();

        if (outstanding == 0)
                outstanding = page_slot_set_watch(&w.slot, PAGE_WATCH_READY);
        service_believe(outstanding);
        service_serve();
}

static void service_looks_while_ready_broken(void) {
        uint32_t outstanding = service_looks();

        if (outstanding == 0)
                (void) page_slot_set_watch(&w.slot, PAGE_WATCH_READY);
        service_believe(outstanding);
        service_serve();
}

/* --- what must hold at the end --- */

static void check_passed(void) {
        CHECK(w.passed == 1);
        CHECK(!sides[0].asleep);
        CHECK(w.slot.waiters == 0);
}

static void check_passed_without_expiry(void) {
        check_passed();
        CHECK(w.expired == 0);
}

static void check_passed_in_time(void) {
        check_passed();
        CHECK(w.expired == 0 || w.now >= LEASE);
}

static void check_both_passed(void) {
        CHECK(w.passed == 2);
        CHECK(w.slot.waiters == 0);
}

static void check_belief(void) {
        CHECK(w.watching);
        CHECK(w.ready == (w.slot.outstanding != 0));
        CHECK(!(w.slot.outstanding & PAGE_OUTSTANDING_UNTRACKED));
}

static void check_idle(void) {
        check_belief();
        CHECK(w.slot.outstanding == 0);
        CHECK(!w.ready);
}

static void check_busy(void) {
        check_belief();
        CHECK(w.ready);
}

/* --- scenarios --- */

static void prepare_held(void) {
        service_hold();
}

/* clang-format off */
static const Scenario scenarios[] = {
        { "a hold that ends wakes its waiter",
          { client_launch_at_gate, service_hold_run }, NULL, check_passed_without_expiry, ALL },
        { "... and both of two",
          { client_launch_at_gate, client_launch_at_gate, service_run }, prepare_held, check_both_passed, 3 },
        { "broken: waiters read before the store",
          { client_launch_at_gate, service_hold_run_broken }, NULL, check_passed, ALL, true },
        { "hold, run, hold, run",
          { client_launch_at_gate, service_flaps }, NULL, check_passed_without_expiry, 6 },
        { "broken: no generation",
          { client_launch_at_gate, service_flaps_broken }, NULL, check_passed, 6, true },
        { "a service that dies holding",
          { client_launch_at_gate, clock_ticks, service_holds_and_dies }, NULL, check_passed_in_time, 5 },
        { "a renewal, then death",
          { client_launch_at_gate, clock_ticks, service_renews_and_dies }, NULL, check_passed_in_time, 4 },
        { "broken: a clock that stands still frees nobody",
          { client_launch_at_gate, service_holds_and_dies }, NULL, check_passed, ALL, true },
        { "a service that adopts",
          { client_launch_at_gate, service_dies_and_another_adopts }, NULL, check_passed_without_expiry, ALL },
        { "escape",
          { client_launch_at_gate, client_escapes }, prepare_held, check_passed_without_expiry, ALL },
        { "escape, beside a release",
          { client_launch_at_gate, client_escapes, service_run }, prepare_held, check_passed_without_expiry, 3 },
        { "broken: escape without a new word",
          { client_launch_at_gate, client_escapes_broken }, prepare_held, check_passed, ALL, true },
        { "a launch that stays is seen",
          { client_launch_stays, service_watches }, NULL, check_busy, ALL },
        { "broken: watch read first",
          { client_launch_stays_broken, service_watches }, NULL, check_busy, ALL, true },
        { "a launch that completes is seen",
          { client_launches, service_watches, client_control }, NULL, check_idle, 4 },
        { "two launches of one thread",
          { client_launches_twice, service_watches, client_control }, NULL, check_idle, 3 },
        { "two threads",
          { client_launches, client_launches, service_watches, client_control }, NULL, check_idle, 2 },
        { "one completes, one stays",
          { client_launches, client_launch_stays, service_watches, client_control }, NULL, check_busy, 2 },
        { "watched, not watched, watched",
          { client_launches_twice, service_watches_again, client_control }, NULL, check_idle, 3 },
        { "quick, then to be held: a launch that stays",
          { client_launch_stays, service_looks_then_watches }, NULL, check_busy, ALL },
        { "quick, then to be held: two that complete",
          { client_launches_twice, service_looks_then_watches, client_control }, NULL, check_idle, 2 },
        { "quick, and taken to be idle: a launch that stays",
          { client_launch_stays, service_looks_while_ready }, NULL, check_busy, ALL },
        { "broken: the ready edge is watched, and not looked for again",
          { client_launch_stays, service_looks_while_ready_broken }, NULL, check_busy, ALL, true },
        { "broken: the bit set and not looked at again",
          { client_launches_broken, client_counted_launch, service_watches, client_control },
            NULL, check_idle, 2, true },
};
/* clang-format on */

static void test_every_order(void **state) {
        explore_all(scenarios, ELEMENTSOF(scenarios));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_every_order),
        };

        return cmocka_run_group_tests_name("interleave", tests, NULL, NULL);
}
