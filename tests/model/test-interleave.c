/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The real page.h and page.c, in every order
 *
 * The models beside this file check the protocol; this checks that the code is that protocol. The sides (threads of
 * a client, its control thread, the service, a clock) run as coroutines on one thread. Every atomic access, futex call
 * and message is a point where another side may go on, and the explorer runs a scenario again and again until every order
 * with at most `preemptions` forced switches has been seen. Each order ends with a check of what must hold then.
 *
 * The code under test is included, not linked, with <stdatomic.h>'s operations, the futex call and the clock replaced. The
 * operations are executed one by one, which is what sequential consistency is; the weaker orders of page.h are not in
 * question here, they are argued there.
 *
 * A scenario with a deliberate error (named "broken") must be caught: an explorer that sees nothing proves nothing.
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cmocka.h>

#include "common/macro.h"
#include "common/time-util.h"

static void step(void);
static void loaded(const volatile void *p);
static void stored(const volatile void *p);
static long fake_futex(long nr, uint32_t *word, int op, uint32_t val, const struct timespec *timeout,
                void *u, uint32_t bits);
static uint64_t fake_now(void);

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit

/* The builtins of clang want pointers to what is not _Atomic; the comma loses the qualifier. */
#define PLAIN(p) ((__typeof__((void) 0, *(p)) *) (p))

#define atomic_load_explicit(p, order) (step(), loaded(p), __atomic_load_n(PLAIN(p), __ATOMIC_SEQ_CST))
#define atomic_store_explicit(p, v, order)                                                                  \
        (step(), stored(p), __atomic_store_n(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define atomic_exchange_explicit(p, v, order) (step(), __atomic_exchange_n(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(p, v, order)                                                              \
        (step(), stored(p), __atomic_fetch_add(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_sub_explicit(p, v, order) (step(), __atomic_fetch_sub(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_or_explicit(p, v, order)  (step(), __atomic_fetch_or(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_and_explicit(p, v, order) (step(), __atomic_fetch_and(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define syscall                                fake_futex
#define now_ns                                 fake_now

#include "common/page.h"

#include "common/page.c" /* NOLINT(bugprone-suspicious-include): the code under test, instrumented */

/* --- the explorer --- */

#define SIDES_MAX  5
#define STEPS_MAX  512
#define STACK_SIZE ((size_t) 64 * 1024)

typedef struct Side {
        void (*main)(void);
        ucontext_t context;
        bool done;
        bool asleep;           /* in FUTEX_WAIT ... */
        uint64_t until;        /* ... until then at most */
        const bool *waits_for; /* a message */
        unsigned word_seen;    /* n_stores when it last loaded the verdict */
} Side;

/* The whole world of one order. */
static struct {
        PageHeader header;
        PageSlot slot;
        _Atomic uint32_t escape;
        uint64_t now;
        bool event, knock;
        bool sleep;        /* somebody went to sleep */
        unsigned n_stores; /* of the verdict word */

        /* what the service knows */
        uint32_t word;
        bool watching, ready;

        /* what happened */
        unsigned passed, expired, uncounted, counted;
} w;

static Side sides[SIDES_MAX];
static size_t n_sides;
static Side *current;
static ucontext_t explorer;
static const char *broken; /* why this order is wrong */

static struct {
        uint8_t choice[STEPS_MAX], choices[STEPS_MAX];
        size_t n;
} path;

#define CHECK(x)                                                                                            \
        do {                                                                                                \
                if (!(x) && !broken)                                                                        \
                        broken = #x;                                                                        \
        } while (0)

static void yield_to_explorer(void) {
        assert_int_equal(swapcontext(&current->context, &explorer), 0);
}

static void step(void) {
        if (current)
                yield_to_explorer();
}

/* Blocks until another side has set `*flag`; takes it. */
static void receive(bool *flag) {
        current->waits_for = flag;
        yield_to_explorer();
        current->waits_for = NULL;
        *flag = false;
}

static void loaded(const volatile void *p) {
        if (current && p == &w.slot.verdict)
                current->word_seen = w.n_stores;
}

static void stored(const volatile void *p) {
        if (p == &w.slot.verdict)
                w.n_stores++;
}

static uint64_t fake_now(void) {
        step();
        return w.now;
}

static long fake_futex(long nr, uint32_t *word, int op, uint32_t val, const struct timespec *timeout,
                void *u, uint32_t bits) {
        assert_int_equal(nr, SYS_futex);
        step();
        if (op == FUTEX_WAKE) {
                for (size_t i = 0; i < n_sides; i++)
                        sides[i].asleep = false;
                return 0;
        }
        assert_int_equal(op, FUTEX_WAIT_BITSET);
        current->until = timespec_to_ns(timeout);
        if (*word != val || current->until <= w.now)
                return -1;
        /* Never asleep over a verdict that came after the look. */
        CHECK(current->word_seen == w.n_stores);
        current->asleep = true;
        w.sleep = true;
        while (current->asleep)
                yield_to_explorer();
        return 0;
}

static void side_main(void) {
        current->main();
        current->done = true;
        for (;;)
                yield_to_explorer();
}

static bool side_runnable(const Side *s) {
        return !s->done && !s->asleep && (!s->waits_for || *s->waits_for);
}

/* The next choice among n: replayed from the path, or the first one, and noted. */
static unsigned choose(size_t *at, unsigned n) {
        if (*at == path.n) {
                assert_true(path.n < STEPS_MAX);
                path.choice[path.n] = 0;
                path.choices[path.n++] = (uint8_t) n;
        }
        assert_int_equal(path.choices[*at], n);
        return path.choice[(*at)++];
}

/* Runs until nobody can go on: all have ended, sleep, or wait for a message. */
static void run_order(unsigned preemptions) {
        Side *last = NULL;
        size_t at = 0;

        while (!broken) {
                Side *options[SIDES_MAX];
                unsigned n = 0;

                /* The one that ran goes on at no cost; another one costs a preemption, unless the one that ran cannot. */
                bool can = last && side_runnable(last);
                if (can)
                        options[n++] = last;
                if (!can || preemptions > 0)
                        for (size_t i = 0; i < n_sides; i++)
                                if (side_runnable(sides + i) && sides + i != last)
                                        options[n++] = sides + i;
                if (n == 0)
                        return;

                unsigned c = n > 1 ? choose(&at, n) : 0;
                if (can && c > 0)
                        preemptions--;
                last = current = options[c];
                assert_int_equal(swapcontext(&explorer, &current->context), 0);
                current = NULL;
        }
}

static void sides_prepare(void (*const mains[])(void)) {
        static char stacks[SIDES_MAX][STACK_SIZE];

        for (n_sides = 0; mains[n_sides]; n_sides++) {
                Side *s = sides + n_sides;

                assert_true(n_sides < SIDES_MAX);
                *s = (Side){.main = mains[n_sides]};
                assert_int_equal(getcontext(&s->context), 0);
                s->context.uc_stack.ss_sp = stacks[n_sides];
                s->context.uc_stack.ss_size = STACK_SIZE;
                makecontext(&s->context, side_main, 0);
        }
}

/* Every order of the sides with at most `preemptions` forced switches. Returns why one was wrong, or NULL. */
static const char *explore(void (*const mains[])(void), void (*prepare)(void), void (*check)(void),
                unsigned preemptions, size_t *ret_orders) {
        size_t orders = 0;

        path.n = 0;
        do {
                memset(&w, 0, sizeof w);
                broken = NULL;
                if (prepare)
                        prepare();
                sides_prepare(mains);
                run_order(preemptions);
                if (!broken)
                        check();
                orders++;

                /* The next path: the last choice that has an alternative takes it. */
                while (path.n > 0 && path.choice[path.n - 1] + 1 == path.choices[path.n - 1])
                        path.n--;
                if (path.n > 0)
                        path.choice[path.n - 1]++;
        } while (path.n > 0 && !broken);
        *ret_orders = orders;
        return broken;
}

/* --- the sides --- */

#define LEASE 10

static void client_launch_at_gate(void) {
        for (;;)
                switch (page_slot_wait(&w.header, &w.slot, &w.escape)) {
                case PAGE_WAIT_AGAIN:
                        break;
                case PAGE_WAIT_EXPIRED:
                        w.expired++;
                        _fallthrough_;
                case PAGE_WAIT_RUN:
                        w.passed++;
                        return;
                }
}

static void service_hold(void) {
        page_set_lease(&w.header, w.now + LEASE);
        w.word = page_slot_set_verdict(&w.slot, w.word, VERDICT_HOLD);
}

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

/* The same without the generation: what the generation is for. */
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

/* Once at any time, and then as long as there is somebody whom it matters to. */
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

static void notify(void) {
        page_mark_dirty(&w.header, 0);
        step();
        w.event = true;
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

/* As page.h was first: whoever sets the bit does not look at watch again unless it was first. */
static void client_launches_broken(void) {
        if (!page_slot_is_open(&w.slot))
                return;
        if (atomic_fetch_or_explicit(
                            &w.slot.outstanding, PAGE_OUTSTANDING_UNTRACKED, memory_order_seq_cst) == 0 &&
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
                        if (page_slot_end_untracked(&w.slot))
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

typedef struct Scenario {
        const char *name;
        void (*mains[SIDES_MAX + 1])(void);
        void (*prepare)(void);
        void (*check)(void);
        unsigned preemptions;
        bool wrong; /* must be caught */
} Scenario;

static void prepare_held(void) {
        service_hold();
}

/* How many forced switches: all that are possible, where that is a matter of milliseconds. */
#define ALL 99

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
        { "broken: the bit set and not looked at again",
          { client_launches_broken, client_counted_launch, service_watches, client_control }, NULL, check_idle, 2, true },
};
/* clang-format on */

static void test_every_order(void **state) {
        for (size_t i = 0; i < ELEMENTSOF(scenarios); i++) {
                const Scenario *s = scenarios + i;
                size_t orders;
                const char *why = explore(s->mains, s->prepare, s->check, s->preemptions, &orders);

                print_message("%s: %zu orders%s%s\n", s->name, orders, why ? ", wrong: " : "",
                                strempty(why));
                if (s->wrong)
                        assert_non_null(why);
                else {
                        assert_null(why);
                        assert_true(orders > 10);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                        cmocka_unit_test(test_every_order),
        };

        return cmocka_run_group_tests_name("interleave", tests, NULL, NULL);
}
