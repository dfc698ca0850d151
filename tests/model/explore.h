/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The real page.h and page.c, in every order: the explorer
 *
 * The models beside this file check the protocol; this checks that the code is that protocol. The sides (threads of
 * a client, its control thread, the service, a clock) run as coroutines on one thread. Every atomic access, futex call
 * and message is a point where another side may go on, and the explorer runs a scenario again and again until every
 * order with at most `preemptions` forced switches has been seen. Each order ends with a check of what must hold then.
 *
 * The code under test is included, not linked, with <stdatomic.h>'s operations, the futex call and the clock replaced.
 * The operations are executed one by one, which is what sequential consistency is; the weaker orders of page.h are not
 * in question here, they are argued there.
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
static long fake_futex(
                long nr, uint32_t *word, int op, uint32_t val, const struct timespec *timeout, void *u, uint32_t bits);
static uint64_t fake_now(void);

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit

/* clang's builtins need pointers without _Atomic; the comma operator drops the qualifier. */
#define PLAIN(p) ((__typeof__((void) 0, *(p)) *) (p))

#define atomic_load_explicit(p, order)         (step(), loaded(p), __atomic_load_n(PLAIN(p), __ATOMIC_SEQ_CST))
#define atomic_store_explicit(p, v, order)     (step(), stored(p), __atomic_store_n(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define atomic_exchange_explicit(p, v, order)  (step(), __atomic_exchange_n(PLAIN(p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(p, v, order) (step(), stored(p), __atomic_fetch_add(PLAIN(p), (v), __ATOMIC_SEQ_CST))
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
        ucontext_t context; /* its stack, until it runs first */
        jmp_buf at;         /* where it goes on */
        bool begun;
        bool done;
        bool asleep;           /* in FUTEX_WAIT ... */
        uint64_t until;        /* ... until then at most */
        const bool *waits_for; /* a message */
        unsigned word_seen;    /* n_stores when it last loaded the verdict */
} Side;

/* The state of one order. */
static struct {
        PageHeader header;
        PageSlot slot;
        _Atomic uint32_t escape;
        uint64_t now;
        bool event, knock;
        bool sleep;        /* a thread went to sleep */
        unsigned n_stores; /* of the verdict word */

        /* what the service knows */
        uint32_t word;
        bool watching, ready;
        bool draining; /* held, and something of it in flight */

        /* what happened */
        unsigned passed, expired, uncounted, counted;
        unsigned in_flight; /* in truth */
} w;

static Side sides[SIDES_MAX];
static size_t n_sides;
static Side *current;
static jmp_buf explorer;
static const char *broken; /* why this order is wrong */

static struct {
        uint8_t choice[STEPS_MAX], choices[STEPS_MAX];
        size_t n;
} path;

#define CHECK(x)                                                                                                       \
        do {                                                                                                           \
                if (!(x) && !broken)                                                                                   \
                        broken = #x;                                                                                   \
        } while (0)

/* Not by swapcontext(), which asks the kernel for the signal mask each time: that was nine tenths of the time. */
static void yield_to_explorer(void) {
        if (_setjmp(current->at) == 0)
                _longjmp(explorer, 1);
}

static void go_on(Side *s) {
        if (_setjmp(explorer) != 0)
                return;
        if (s->begun)
                _longjmp(s->at, 1);
        s->begun = true;
        setcontext(&s->context);
        abort();
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

static long fake_futex(
                long nr, uint32_t *word, int op, uint32_t val, const struct timespec *timeout, void *u, uint32_t bits) {
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
        /* A thread must not sleep when the verdict has changed after its look. */
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

/* Runs until no thread can go on: all have ended, sleep, or wait for a message. */
static void run_order(unsigned preemptions) {
        Side *last = NULL;
        size_t at = 0;

        while (!broken) {
                Side *options[SIDES_MAX];
                unsigned n = 0;

                /* The side that ran last goes on at no cost. Another side costs a preemption, unless the last one
                 * cannot go on. */
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
                go_on(current);
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

/* Runs every order of the sides with at most `preemptions` forced switches. Returns why one was wrong, or NULL. */
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

/* --- what is explored --- */

typedef struct Scenario {
        const char *name;
        void (*mains[SIDES_MAX + 1])(void);
        void (*prepare)(void);
        void (*check)(void);
        unsigned preemptions;
        bool wrong; /* must be caught */
} Scenario;

/* Number of forced switches: all possible ones, for scenarios that take only milliseconds. */
#define ALL 99

static void explore_all(const Scenario *scenarios, size_t n_scenarios) {
        for (size_t i = 0; i < n_scenarios; i++) {
                const Scenario *s = scenarios + i;
                size_t orders;
                const char *why = explore(s->mains, s->prepare, s->check, s->preemptions, &orders);

                print_message("%s: %zu orders%s%s\n", s->name, orders, why ? ", wrong: " : "", strempty(why));
                if (s->wrong)
                        assert_non_null(why);
                else {
                        assert_null(why);
                        assert_true(orders > 10);
                }
        }
}

/* --- sides --- */

#define LEASE 10

static void notify(void) {
        page_mark_dirty(&w.header, 0);
        step();
        w.event = true;
}

static void client_launch_at_gate(void) {
        PageWait why;

        if (page_slot_begin_wait(&w.slot))
                notify();
        while ((why = page_slot_wait(&w.header, &w.slot, &w.escape, NSEC_INFINITY)) == PAGE_WAIT_AGAIN)
                ;
        page_slot_end_wait(&w.slot);
        w.expired += why == PAGE_WAIT_EXPIRED;
        w.passed++;
}

static void service_hold(void) {
        page_set_lease(&w.header, w.now + LEASE);
        w.word = page_slot_set_verdict(&w.slot, w.word, VERDICT_HOLD);
}
