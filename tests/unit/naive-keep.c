/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle's patience: for which entity and how long the device is kept, and how long a held entity still has it
 */

#include "naive-fair.h"

__extension__ typedef __int128 wide_t;

/* Finds the best gap to wait for by trying each gap on the whole history; of equally good ones the shortest. */
uint64_t naive_worth_waiting(const PolicyEntity *e, uint64_t limit) {
        uint64_t best = 0, wait = 0;
        wide_t best_gain = 0;

        for (size_t c = 0; c < e->n_gaps; c++) {
                uint64_t t = MIN(e->gaps[c] + e->gaps[c] / 4, limit);
                wide_t gain = 0;

                if (e->gaps[c] > limit)
                        continue;
                for (size_t i = 0; i < e->n_gaps; i++)
                        gain += e->gaps[i] <= e->gaps[c] ? (wide_t) limit - e->gaps[i] : -(wide_t) t;
                if (gain > best_gain || (gain == best_gain && e->gaps[c] < best)) {
                        best = e->gaps[c];
                        wait = t;
                        best_gain = gain;
                }
        }
        return wait;
}

void naive_note_last(PolicyEntity *e) {
        Policy *p = e->p;
        uint64_t until = p->now + naive_worth_waiting(e, p->config.linger_ns);
        bool better = p->linger && p->now < p->linger_until &&
                        (p->linger->tier > e->tier || (p->linger->tier == e->tier && p->linger_until >= until));

        p->last = e;
        if (until > p->now && !better) {
                p->linger = e;
                p->linger_until = until;
        }
}

void naive_linger_end(Policy *p, bool back) {
        PolicyEntity *e = p->linger;

        p->linger = NULL;
        if (back && p->now < p->linger_until)
                e->trusted += p->now - e->idle_since;
        else
                e->trusted = 0;
}

/* --- kept --- */

static PolicyEntity *next_kept(const Policy *p, uint64_t after) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->kept && e->kept_order > after && (!best || e->kept_order < best->kept_order))
                        best = e;
        return best;
}

bool naive_keep_begin(PolicyEntity *e) {
        Policy *p = e->p;
        uint64_t limit = p->config.linger_ns, wait;

        e->foreseen = naive_worth_waiting(e, limit);
        if (e->placed > limit * 100)
                e->placed = limit * 100;
        wait = e->foreseen > 0 ? MIN(e->foreseen + e->placed / 100, limit) : 0;
        if (!e->chosen || e->grant.verdict == VERDICT_HOLD || wait == 0)
                return false;
        e->kept = true;
        e->kept_until = p->now + wait;
        e->kept_order = ++p->order;
        return true;
}

void naive_gap_ended(PolicyEntity *e, uint64_t gap) {
        wide_t late = e->foreseen > 0 && gap > e->foreseen ? gap - e->foreseen : 0, left = e->placed - 100 * late;

        e->placed = left > 0 ? (uint64_t) left : 0;
}

void naive_keep_drop(PolicyEntity *e) {
        e->kept = e->chosen = false;
        FOR_EACH_NODE(e->p, n)
        naive_list_due(n, false);
        naive_leave(e->node, e->tier, &e->m);
        naive_fit_up(e->node, e->tier);
        naive_order_goes(e, false);
}

void naive_keep_end(PolicyEntity *e) {
        if (!e->kept)
                return;
        naive_keep_drop(e);
        naive_order_follow(e);
}

size_t naive_n_ready(const Policy *p) {
        size_t n = 0;

        FOR_EACH(p, e)
                n += e->ready;
        return n;
}

static bool is_worth_keeping(PolicyEntity *e) {
        const Policy *p = e->p;
        const Member *m = &e->m;

        if (naive_is_ranked(p, e->tier))
                return naive_order_is_worth_keeping(e);
        for (PolicyNode *n = e->node; n; m = &n->in[e->tier], n = n->parent) {
                if (naive_places(n, e->tier) > m->places) {
                        int64_t lag = naive_lag(n, e->tier, m);

                        e->behind = lag > (int64_t) p->config.timeslice_ns || (e->behind && lag > 0);
                        return e->behind || !naive_is_even(n, e->tier);
                }
                if (n == p->guaranteed && e->tier == p->turn)
                        return true;
        }
        return naive_n_ready(p) == 0;
}

bool naive_review_kept(Policy *p) {
        PolicyEntity *e;
        bool any = false;

        for (uint64_t after = 0; (e = next_kept(p, after));) {
                after = e->kept_order;
                if (p->now < e->kept_until && !naive_is_stopped(e->node) && is_worth_keeping(e))
                        continue;
                naive_keep_end(e);
                any = true;
                after = 0;
        }
        return any;
}

bool naive_drop_kept(Policy *p) {
        bool any = false;
        PolicyEntity *e;

        for (uint64_t after = 0; (e = next_kept(p, after));) {
                after = e->kept_order;
                if (e->chosen)
                        continue;
                naive_keep_end(e);
                any = true;
        }
        return any;
}

static bool is_wanted(const Policy *p) {
        size_t places = p->guaranteed ? naive_places(p->guaranteed, p->turn) : 0, chosen = 0;
        bool counted[NAIVE_TIERS] = {};

        FOR_EACH(p, e) {
                if (!counted[e->tier])
                        places += naive_places(&p->root, e->tier);
                counted[e->tier] = true;
                chosen += e->chosen;
        }
        return places > chosen;
}

uint64_t naive_next_keep_end(const Policy *p) {
        uint64_t next = NSEC_INFINITY;

        if (!is_wanted(p))
                return next;
        FOR_EACH(p, e)
                if (e->kept)
                        next = MIN(next, e->kept_until);
        return next;
}

/* --- tails --- */

void naive_drain_begin(PolicyEntity *e) {
        e->draining = true;
        e->drain_until = e->p->now + NSEC_PER_SEC;
        e->drain_order = e->p->order++;
}

void naive_tail(PolicyEntity *e) {
        Policy *p = e->p;

        if (e->draining || (e->ready && e->grant.verdict == VERDICT_RUN))
                return;
        if (e->kept)
                naive_keep_end(e);
        p->linger = p->linger == e ? NULL : p->linger;
        p->last = p->last == e ? NULL : p->last;
        naive_drain_begin(e);
}

PolicyEntity *naive_next_drainer(const Policy *p, const PolicyEntity *after) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->draining && (!after || e->drain_order > after->drain_order) &&
                                (!best || e->drain_order < best->drain_order))
                        best = e;
        return best;
}

/* As many runners are blocked as there are more runners and tails than places, those granted last first. */
void naive_note_blocked(Policy *p) {
        size_t tails = 0, n = 0, blocked;

        FOR_EACH(p, e) {
                tails += e->draining;
                n += e->ready && e->grant.verdict == VERDICT_RUN;
                e->blocked = e->chosen && e->awaits;
        }
        tails = MIN(tails, (size_t) p->config.concurrency);
        n += tails;
        for (blocked = n > p->config.concurrency ? MIN(n - p->config.concurrency, tails) : 0; blocked > 0; blocked--) {
                PolicyEntity *latest = NULL;

                FOR_EACH(p, e)
                        if (e->ready && e->grant.verdict == VERDICT_RUN && !e->blocked &&
                                        (!latest || e->grant_order > latest->grant_order))
                                latest = e;
                if (latest)
                        latest->blocked = true;
        }
}

static bool has_tail(const PolicyEntity *e) {
        PolicyEntity *d = NULL;

        for (uint32_t i = 0; i < e->p->config.concurrency && (d = naive_next_drainer(e->p, d)); i++)
                if (d == e)
                        return true;
        return false;
}

/* Whether it has the device, and a granted entity waits for it. */
bool naive_tail_is_beside(const PolicyEntity *e) {
        size_t n = 0, tails = 0;

        FOR_EACH(e->p, o) {
                tails += o->draining;
                n += o->ready && o->grant.verdict == VERDICT_RUN;
        }
        return e->draining && has_tail(e) && n > 0 &&
                        n + MIN(tails, (size_t) e->p->config.concurrency) > e->p->config.concurrency;
}

static bool goes_at_once(const PolicyEntity *e) {
        const Policy *p = e->p;
        bool starved = p->config.starve_ns > 0 && p->config.starve_run_ns > 0 &&
                        p->now - e->held_since >= p->config.starve_ns;

        return e->grant.verdict == VERDICT_RUN || e->draining || starved;
}

/* Whether the tail is younger than 50 ms: the turn of a minimum waits for it. */
static bool is_awaited_by_turn(const PolicyEntity *d) {
        return d->draining && !d->chosen && d != d->p->owed &&
                        d->p->now < d->drain_until - NSEC_PER_SEC + 50 * NSEC_PER_MSEC;
}

/* Others wait for tails of their own tier, of higher ones, and of turns of minima. */
static bool is_awaited(const PolicyEntity *d) {
        return is_awaited_by_turn(d) && (d->tier >= d->p->active || d->by_turn);
}

bool naive_turn_awaits(const Policy *p) {
        FOR_EACH(p, e)
                if (e->chosen && e->awaits && naive_has_turn(e))
                        return true;
        return false;
}

/* Each chosen entity has a place, and each tail that it waits for takes one. A chosen entity that finds none left
 * waits. */
void naive_note_awaiting(Policy *p) {
        size_t granted = 0, n_tails = 0, n_tails_of_turn = 0;
        uint64_t order = 0;

        FOR_EACH(p, e) {
                granted += e->chosen && goes_at_once(e);
                n_tails += is_awaited(e);
                n_tails_of_turn += is_awaited_by_turn(e);
                e->awaits = false;
        }
        for (;;) {
                PolicyEntity *next = NULL;

                FOR_EACH(p, e)
                        if (e->chosen && !goes_at_once(e) && e->chosen_order > order &&
                                        (!next || e->chosen_order < next->chosen_order))
                                next = e;
                if (!next)
                        return;
                order = next->chosen_order;
                size_t tails = naive_has_turn(next) ? n_tails_of_turn : n_tails;
                next->awaits = granted + tails >= p->config.concurrency;
                granted += !next->awaits;
        }
}

void naive_account_awaiting(Policy *p, uint64_t ns) {
        FOR_EACH(p, e)
                if (e->chosen && e->awaits && !has_tail(e))
                        e->awaited_ns += ns;
}

uint64_t naive_next_tail_end(const Policy *p) {
        uint64_t next = NSEC_INFINITY;
        bool any = false;

        FOR_EACH(p, e) {
                any = any || (e->chosen && e->awaits);
                if (e->blocked && e->grant.verdict == VERDICT_RUN)
                        next = MIN(next, naive_next_drainer(p, NULL)->drain_until);
        }
        FOR_EACH(p, d)
                if (any && (is_awaited(d) || (p->guaranteed && is_awaited_by_turn(d))))
                        next = MIN(next, d->drain_until - NSEC_PER_SEC + 50 * NSEC_PER_MSEC);
        return next;
}

void naive_charge_tails(Policy *p, uint64_t from, uint64_t ns) {
        PolicyEntity *e = NULL;

        for (uint32_t i = 0; i < p->config.concurrency && (e = naive_next_drainer(p, e)); i++) {
                if (!e->by_floor) {
                        naive_order_ran(e, ns);
                        naive_charge_tail(e->node, e->tier, &e->m, ns);
                        for (PolicyNode *n = e->node; n->parent; n = n->parent)
                                naive_charge_tail(n->parent, e->tier, &n->in[e->tier], ns);
                }
                naive_charge_above(e, from, ns, true, !e->by_floor);
        }
        e = NULL;
        for (uint32_t i = 0; i < p->config.concurrency && (e = naive_next_drainer(p, e)); i++)
                naive_check_quotas(e);
}
