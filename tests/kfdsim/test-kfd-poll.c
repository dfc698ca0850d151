/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * When the KFD layer looks at queues, and when it does not: by counting how often its thread goes to sleep
 */

#include "common/macro.h"
#include "shim-kfd.h"
#include "tests/lib/threads.h"

#define POLLER "xsched-kfd"

/* The thread may have been about to sleep. */
#define SLACK 3U

static void dispatch_and_finish(AqlQueue *q) {
        for (int i = 0; i < 10; i++) {
                dispatch(q, 20, SHORT_NS / 4);
                finish(q);
        }
}

static PageSlot *slot(void) {
        return fake_slot(client->f, 0);
}

/* While the service does not watch, the layer does not look, whatever is launched. */
static void case_unwatched(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        CHECK(poll_until(thread_is_asleep(POLLER)));
        uint64_t before = thread_sleeps(POLLER);
        CHECK(before > 0);
        dispatch_and_finish(q);
        CHECK(thread_sleeps(POLLER) <= before + SLACK);
        CHECK(atomic_load(&slot()->outstanding) == PAGE_OUTSTANDING_UNTRACKED);
}

/* The layer looks while the service watches a queue whose launches do not pass the layer; rarely if nothing moves. */
static void case_watched(void) {
        AqlCompletion *go;
        start(GFX90A);
        AqlQueue *q = queue();
        CHECK(aql_completion_create(&device, 1, false, &go) == 0);

        CHECK(poll_until(thread_is_asleep(POLLER)));
        CHECK(aql_barrier(q, false, &go, 1, NULL) == 0);
        dispatch(q, 5, SHORT_NS);
        (void) page_slot_set_watch(slot(), WATCH_ALL);
        fake_client_nudge(client);
        uint64_t before = thread_sleeps(POLLER), start_ns = now_ns();
        CHECK(poll_until(thread_sleeps(POLLER) > before + 200));
        CHECK(now_ns() - start_ns > 200 * SHORT_NS / 2); /* the thread did not spin */
        aql_completion_set(go, 0);
        finish(q);
        CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));

        /* The queue is idle, and no call would report a launch. */
        before = thread_sleeps(POLLER);
        CHECK(poll_until(thread_sleeps(POLLER) > before + 50));

        /* The layer looks until the service watches no more. */
        (void) page_slot_set_watch(slot(), 0);
        CHECK(poll_until(thread_is_asleep(POLLER)));
        before = thread_sleeps(POLLER);
        dispatch_and_finish(q);
        CHECK(thread_sleeps(POLLER) <= before + SLACK);
}

/* The service watches, and no more, and again, while the same launch is under way: each time it is asked for the end of
 * what is in flight, and each of them is told. */
static void case_drained_twice(void) {
        AqlCompletion *go;
        start(GFX90A);
        AqlQueue *q = queue();
        CHECK(aql_completion_create(&device, 1, false, &go) == 0);

        CHECK(aql_barrier(q, false, &go, 1, NULL) == 0);
        for (int i = 0; i < 3; i++) {
                dispatch(q, 1, SHORT_NS);
                CHECK(atomic_load(&slot()->outstanding) & PAGE_OUTSTANDING_UNTRACKED);
                (void) page_slot_set_watch(slot(), WATCH_ALL);
                fake_client_nudge(client);
                CHECK(poll_until(!(atomic_load(&slot()->outstanding) & PAGE_OUTSTANDING_UNTRACKED)));
                (void) page_slot_set_watch(slot(), 0);
                CHECK(poll_until(atomic_load(&slot()->outstanding) & PAGE_OUTSTANDING_UNTRACKED));
        }
        (void) page_slot_set_watch(slot(), WATCH_ALL);
        fake_client_nudge(client);
        aql_completion_set(go, 0);
        finish(q);
        CHECK(poll_until(atomic_load(&slot()->outstanding) == 0));
}

/* A hold alone is no reason to look. */
static void case_held(void) {
        start(GFX90A);
        AqlQueue *q = queue();

        hold_all(1);
        CHECK(poll_until(thread_is_asleep(POLLER)));
        uint64_t before = thread_sleeps(POLLER);
        dispatch(q, 5, SHORT_NS);
        nap(100 * SHORT_NS);
        CHECK(thread_sleeps(POLLER) <= before + SLACK);
        run_all(1);
        finish(q);
}

/* How launches of a queue are seen: without a runtime's view of the queue, by its indices; those of queues of other
 * kinds tell nothing. */
static void case_hooked(void) {
        KfdCreateQueue a;
        start(GFX90A);
        (void) queue();
        Raw r = raw_open();
        CHECK(raw_create(&r, KFD_QUEUE_COMPUTE, sizeof(a), &a) == 0);
        CHECK(scheduler_until(s, n_registered() == 2));
        CHECK(atomic_load(&fake_slot(client->f, 0)->hooked) == HOOKED_POLL);
        CHECK(atomic_load(&fake_slot(client->f, 1)->hooked) == HOOKED_NONE);
        CHECK(raw_destroy(&r, a.queue_id) == 0);
}

/* A program without queues has no such thread. */
static void case_no_queue(void) {
        start(GFX90A);
        CHECK(thread_sleeps(POLLER) == 0);
}

int main(int argc, char *argv[]) {
        static const BusCase cases[] = {
                        CASE(unwatched),
                        CASE(watched),
                        CASE(drained_twice),
                        CASE(held),
                        CASE(no_queue),
                        CASE(hooked),
        };
        return shim_cases_run(cases, ELEMENTSOF(cases), argc, argv);
}
