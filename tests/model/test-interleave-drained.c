/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The drained edge, in every order: the launches in flight of a held queue have ended
 */

#include "explore.h"

/* --- in flight --- */

/* n launches are counted, and have passed the gate before the hold. */
static void prepare_in_flight(unsigned n) {
        w.slot.outstanding = n;
        w.in_flight = n;
        w.slot.watch = PAGE_WATCH_DRAINED; /* without any other edge */
}

static void prepare_one_in_flight(void) {
        prepare_in_flight(1);
}

static void prepare_two_in_flight(void) {
        prepare_in_flight(2);
}

static void prepare_one_in_flight_held(void) {
        prepare_in_flight(1);
        service_hold();
        w.draining = true;
}

/* The service was woken without a reason, and may look at any time. */
static void prepare_one_in_flight_dirty(void) {
        prepare_one_in_flight_held();
        notify();
}

static void client_completes_one(void) {
        w.in_flight--;
        if (page_slot_end(&w.slot, 1))
                notify();
}

/* Looks at the verdict, then counts what has completed. */
static void client_completes_one_broken(void) {
        bool told = atomic_load_explicit(&w.slot.verdict, memory_order_seq_cst) & PAGE_VERDICT_HOLD;

        w.in_flight--;
        uint32_t left = atomic_fetch_sub_explicit(&w.slot.outstanding, 1, memory_order_seq_cst) - 1;
        if (told && left == atomic_load_explicit(&w.slot.waiters, memory_order_seq_cst))
                notify();
}

/* As gate_begin_slow(): counted, and then it waits while it is held. */
static void client_launches_and_waits(void) {
        if (page_slot_begin(&w.slot) & PAGE_BEGIN_EDGE)
                notify();
        if (!(atomic_load_explicit(&w.slot.verdict, memory_order_relaxed) & PAGE_VERDICT_HOLD)) {
                w.in_flight++;
                return;
        }
        client_launch_at_gate();
        w.in_flight++;
}

/* Counts as waiting, and does not look whether that was the last launch in flight. */
static void client_launches_and_waits_broken(void) {
        if (page_slot_begin(&w.slot) & PAGE_BEGIN_EDGE)
                notify();
        if (!(atomic_load_explicit(&w.slot.verdict, memory_order_relaxed) & PAGE_VERDICT_HOLD)) {
                w.in_flight++;
                return;
        }
        atomic_fetch_add_explicit(&w.slot.waiters, 1, memory_order_seq_cst);
        while (page_slot_wait(&w.header, &w.slot, &w.escape, NSEC_INFINITY) == PAGE_WAIT_AGAIN)
                ;
        page_slot_end_wait(&w.slot);
        w.in_flight++;
}

static void client_gives_up(void) {
        if (page_slot_begin(&w.slot) & PAGE_BEGIN_EDGE)
                notify();
        if (page_slot_begin_wait(&w.slot))
                notify();
        page_slot_end_wait(&w.slot);
        if (page_slot_end(&w.slot, 1))
                notify();
}

/* Subtracts from outstanding before it subtracts from waiters: for a moment a launch in flight looks like one that
 * waits. */
static void client_gives_up_broken(void) {
        if (page_slot_begin(&w.slot) & PAGE_BEGIN_EDGE)
                notify();
        if (page_slot_begin_wait(&w.slot))
                notify();
        if (page_slot_end(&w.slot, 1))
                notify();
        page_slot_end_wait(&w.slot);
}

static void service_look_in_flight(void) {
        bool more = page_slot_read_in_flight(&w.slot) > 0;

        if (w.draining && !more)
                CHECK(w.in_flight == 0);
        w.draining &= more;
}

static void service_look_in_flight_broken(void) {
        uint32_t waiters = atomic_load_explicit(&w.slot.waiters, memory_order_seq_cst);
        uint32_t outstanding = atomic_load_explicit(&w.slot.outstanding, memory_order_seq_cst);
        bool more = page_slot_in_flight(outstanding, waiters) > 0;

        if (w.draining && !more)
                CHECK(w.in_flight == 0);
        w.draining &= more;
}

static void serve_drained(void (*look)(void)) {
        for (;;) {
                receive(&w.event);
                step();
                if (page_take_dirty(&w.header, 0) & 1)
                        look();
        }
}

static void service_holds_and_drains(void) {
        service_hold();
        w.draining = true;
        service_look_in_flight();
        serve_drained(service_look_in_flight);
}

static void service_holds_and_drains_broken(void) {
        w.draining = true;
        service_look_in_flight();
        service_hold();
        serve_drained(service_look_in_flight);
}

static void service_drains(void) {
        serve_drained(service_look_in_flight);
}

static void service_drains_broken(void) {
        serve_drained(service_look_in_flight_broken);
}

/* --- what must hold at the end --- */

/* In the end the service knows whether the queue has drained. */
static void check_drained(void) {
        CHECK(w.draining == (w.in_flight > 0));
        CHECK(page_slot_in_flight(w.slot.outstanding, w.slot.waiters) == w.in_flight);
}

/* A launch that has read "run" may be in flight during the hold: the one launch of slack. Its end need not be told. */
static void check_drained_but_for_slack(void) {
        CHECK(page_slot_in_flight(w.slot.outstanding, w.slot.waiters) == w.in_flight);
        CHECK(!w.draining || w.in_flight > 0);
}

/* --- scenarios --- */

/* clang-format off */
static const Scenario scenarios[] = {
        { "what is in flight completes as it is held",
          { client_completes_one, service_holds_and_drains }, prepare_one_in_flight, check_drained, ALL },
        { "... two of it",
          { client_completes_one, client_completes_one, service_holds_and_drains },
            prepare_two_in_flight, check_drained, 2 },
        { "... one of two",
          { client_completes_one, service_holds_and_drains }, prepare_two_in_flight, check_drained, ALL },
        { "... and another comes to wait",
          { client_completes_one, client_launches_and_waits, service_drains },
            prepare_one_in_flight_held, check_drained, 2 },
        { "... or passes by a hair",
          { client_completes_one, client_launches_and_waits, service_holds_and_drains }, prepare_one_in_flight,
            check_drained_but_for_slack, 2 },
        { "... or two come",
          { client_completes_one, client_launches_and_waits, client_launches_and_waits, service_drains },
            prepare_one_in_flight_held, check_drained, 2 },
        { "one in flight, one gives up its wait",
          { client_gives_up, service_drains }, prepare_one_in_flight_held, check_drained, ALL },
        { "... and the other completes",
          { client_gives_up, client_completes_one, service_drains }, prepare_one_in_flight_held, check_drained, 2 },
        { "broken: the verdict read before the completion is counted",
          { client_completes_one_broken, service_holds_and_drains }, prepare_one_in_flight, check_drained, 3, true },
        { "broken: who comes to wait does not look",
          { client_completes_one, client_launches_and_waits_broken, service_drains },
            prepare_one_in_flight_held, check_drained, 3, true },
        { "broken: what gives up is off outstanding first",
          { client_gives_up_broken, service_drains }, prepare_one_in_flight_held, check_drained, 3, true },
        { "broken: the service looks before it holds",
          { client_completes_one, service_holds_and_drains_broken }, prepare_one_in_flight, check_drained, 3, true },
        { "broken: two words loaded one by one",
          { client_gives_up, service_drains_broken }, prepare_one_in_flight_dirty, check_drained, ALL, true },
        { "... as one",
          { client_gives_up, service_drains }, prepare_one_in_flight_dirty, check_drained, ALL },
};
/* clang-format on */

static void test_every_order(void **state) {
        explore_all(scenarios, ELEMENTSOF(scenarios));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_every_order),
        };

        return cmocka_run_group_tests_name("interleave-drained", tests, NULL, NULL);
}
