/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Local gates
 */

#include <limits.h>

#include "common/futex.h"
#include "shim/compat/side.h"

/* Made with the first XQueue, and kept for ever, because threads may be using it. */
static struct {
        Page page;
        _Atomic uint32_t nudges;     /* futex: changes when the scheduler has work */
        Side *sides[PAGE_SLOTS_MAX]; /* never freed */
        size_t n;
} all = {.page = {.fd = -EBADF}};

uint32_t side_nudges(void) {
        return atomic_load(&all.nudges);
}

void side_nudge(void) {
        atomic_fetch_add(&all.nudges, 1);
        (void) futex(&all.nudges, FUTEX_WAKE_PRIVATE, 1, NULL, 0);
}

void side_await_nudge(uint32_t seen, uint64_t until_ns) {
        const struct timespec until = ns_to_timespec(until_ns);

        (void) futex(&all.nudges, FUTEX_WAIT_BITSET_PRIVATE, seen, until_ns == NSEC_INFINITY ? NULL : &until,
                        FUTEX_BITSET_MATCH_ANY);
}

static int open_page(void) {
        if (all.page.header)
                return 0;

        int r = page_create(0, &all.page);
        if (r < 0)
                return r;
        all.page.fd = safe_close(all.page.fd); /* it is mapped */
        page_set_lease(all.page.header, UINT64_MAX);
        return 0;
}

static Side *take(void) {
        for (size_t i = 0; i < all.n; i++) {
                unsigned none = 0;
                if (atomic_compare_exchange_strong(&all.sides[i]->refs, &none, 1))
                        return all.sides[i];
        }
        if (all.n == PAGE_SLOTS_MAX)
                return NULL;
        Side *s = calloc(1, sizeof(Side));
        if (!s)
                return NULL;
        s->refs = 1;
        s->index = (uint32_t) all.n;
        s->slot = page_slot(&all.page, s->index);
        s->header = all.page.header;
        all.sides[all.n++] = s;
        return s;
}

int side_new(XQueue *x, Side **ret) {
        int r = open_page();
        if (r < 0)
                return r;
        Side *s = take();
        if (!s)
                return all.n == PAGE_SLOTS_MAX ? -ENOSPC : -ENOMEM;

        s->xq = x;
        s->limit = 0;
        s->flying = 0;
        s->n_launches = 0;
        s->slot->outstanding = 0;
        s->slot->waiters = 0;
        s->slot->watch = 0;
        s->word = page_slot_adopt(s->slot);
        atomic_store(&s->escape, 0);
        *ret = s;
        return 0;
}

void side_escape(Side *s) {
        atomic_store_explicit(&s->escape, 1, memory_order_seq_cst);
        page_slot_kick(s->slot);
}

void side_release(Side *s) {
        atomic_fetch_sub(&s->refs, 1);
}

/* --- what counts --- */

static void notify(Side *s) {
        page_mark_dirty(s->header, s->index);
        side_nudge();
}

static void begin(Side *s) {
        atomic_fetch_add_explicit(&s->n_launches, 1, memory_order_relaxed);
        if (page_slot_begin(s->slot) & PAGE_BEGIN_EDGE)
                notify(s);
}

static void end(Side *s, uint32_t n) {
        if (n == 0)
                return;
        if (page_slot_end(s->slot, n) != 0)
                notify(s);
        if (atomic_load(&s->idle_waiters) == 0 || side_outstanding(s) != 0)
                return;
        atomic_fetch_add(&s->idle, 1);
        (void) futex(&s->idle, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, 0);
}

void side_wait_idle(Side *s) {
        PROTECT_ERRNO;
        uint32_t seen;

        atomic_fetch_add(&s->idle_waiters, 1);
        while ((seen = atomic_load(&s->idle)), side_outstanding(s) != 0 && !atomic_load(&s->escape))
                (void) futex(&s->idle, FUTEX_WAIT_PRIVATE, seen, NULL, 0);
        atomic_fetch_sub(&s->idle_waiters, 1);
}

void side_submit(Side *s) {
        begin(s);
        if (page_slot_begin_wait(s->slot))
                notify(s);
}

void side_launch(Side *s) {
        page_slot_end_wait(s->slot);
}

void side_end(Side *s, uint32_t n) {
        end(s, n);
}

void side_drop(Side *s, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                page_slot_end_wait(s->slot);
        end(s, n);
}

void side_wait_run(Side *s) {
        (void) page_slot_wait(s->header, s->slot, &s->escape, NSEC_INFINITY);
}

void side_kick(Side *s) {
        page_slot_kick(s->slot);
}

/* --- launches that a layer sees --- */

static void local_begin(void *userdata, int wait) {
        Side *s = userdata;

        begin(s);
        /* Launches by this library have passed the gate already. */
        if (wait && side_is_held(s) && compat_launching != s->xq) {
                if (page_slot_begin_wait(s->slot))
                        notify(s);
                while (page_slot_wait(s->header, s->slot, &s->escape, NSEC_INFINITY) == PAGE_WAIT_AGAIN)
                        ;
                page_slot_end_wait(s->slot);
        }
        atomic_fetch_add(&s->flying, 1);
}

static void local_complete(void *userdata, uint32_t n) {
        Side *s = userdata;
        uint32_t flying = atomic_load(&s->flying), k;

        do
                k = MIN(flying, n);
        while (!atomic_compare_exchange_weak(&s->flying, &flying, flying - k));
        end(s, k);
}

static uint32_t local_limit(void *userdata) {
        const Side *s = userdata;
        return atomic_load_explicit(&s->limit, memory_order_relaxed);
}

static int local_held(void *userdata) {
        return side_is_held(userdata);
}

static void local_release(void *userdata) {
        side_release(userdata);
}

XschedLocal side_local(Side *s) {
        atomic_fetch_add(&s->refs, 1);
        return (XschedLocal){
                        .size = sizeof(XschedLocal),
                        .begin = local_begin,
                        .complete = local_complete,
                        .limit = local_limit,
                        .held = local_held,
                        .release = local_release,
                        .userdata = s,
        };
}

/* --- the scheduler's --- */

void side_take_edges(void (*edge)(XQueue *x)) {
        for (unsigned word = 0; all.page.header && word <= all.n / 64 && word < PAGE_SLOTS_MAX / 64; word++) {
                if (atomic_load(&all.page.header->dirty[word]) == 0)
                        continue;
                for (uint64_t bits = page_take_dirty(all.page.header, word); bits != 0; bits &= bits - 1) {
                        size_t i = (size_t) word * 64 + (size_t) __builtin_ctzll(bits);
                        if (i < all.n && all.sides[i]->xq)
                                edge(all.sides[i]->xq);
                }
        }
}

void side_set_watch(Side *s, uint32_t watch) {
        (void) page_slot_set_watch(s->slot, watch);
}

void side_set_verdict(Side *s, Verdict v) {
        bool held = s->word & PAGE_VERDICT_HOLD;

        /* The thread that launches commands may wait although no command is in flight any more. */
        s->word = page_slot_set_verdict(s->slot, s->word, v);
        if (held && v == VERDICT_RUN)
                page_slot_wake(s->slot, PAGE_WAKE_MAX);
}

/* The page is shared with the parent, whose threads do not exist here. */
void side_forget_all(void) {
        all.page = PAGE_NULL;
        all.n = 0;
}
