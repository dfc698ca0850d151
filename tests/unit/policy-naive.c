/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle. It shares no code with policy/ except the contract: no tree, no list, no running sum, no learned state
 * that is not recomputed from the raw history.
 */

#include <assert.h>

#include "naive-fair.h"
#include "policy-naive.h"

__extension__ typedef __int128 wide_t;

/* --- time --- */

static PolicyEntity *next_chosen(const Policy *p, const PolicyEntity *after) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->chosen && (!after || e->chosen_order > after->chosen_order) &&
                                (!best || e->chosen_order < best->chosen_order))
                        best = e;
        return best;
}

#define FOR_EACH_CHOSEN(p, e) for (PolicyEntity *e = next_chosen(p, NULL); e; e = next_chosen(p, e))

static void charge_queues(Policy *p, uint64_t ns) {
        if (p->active >= 0 && !naive_is_ranked(p, p->active))
                naive_advance(&p->root, p->active, p->slots, ns);
        if (p->guaranteed && !naive_is_ranked(p, p->turn)) {
                Below r = naive_runners(p->guaranteed, p->turn);

                if (r.n > 0 && naive_n_blocked(r.m[0], p->turn) < r.m[0]->used) {
                        naive_advance(p->guaranteed, p->turn, 1, ns);
                        for (PolicyNode *n = p->guaranteed; n->parent; n = n->parent)
                                naive_charge(n->parent, p->turn, &n->in[p->turn], ns);
                }
        }
}

static void charge_all(Policy *p, uint64_t from, uint64_t ns) {
        charge_queues(p, ns);
        naive_order_advance(p, ns);
        naive_charge_tails(p, from, ns);
        FOR_EACH_CHOSEN(p, e)
        if (!e->blocked) {
                naive_charge_above(e, from, ns, !e->kept, true);
                e->placed = MIN(e->placed + ns, 100 * p->config.linger_ns);
        }
        if (p->owed && !p->owed->chosen && !p->owed->blocked)
                naive_charge_above(p->owed, from, ns, true, false);
        FOR_EACH_CHOSEN(p, e)
        naive_check_quotas(e);
        if (p->owed)
                naive_check_quotas(p->owed);
}

static void step(Policy *p, uint64_t to, uint64_t charged) {
        uint64_t from = p->now, until = MIN(to, charged);

        if (to <= from)
                return;
        FOR_EACH_NODE(p, n)
        if (n->wanting && n->settings.min > 0)
                naive_add_credit(n, (int64_t) (MIN(to - from, UINT64_C(1) << 48) * n->settings.min));
        naive_account_awaiting(p, to - from);
        if (naive_turn_awaits(p))
                p->turn_until += to - from;
        p->now = to;
        naive_note_blocked(p);
        if (until > from)
                charge_all(p, from, until - from);
}

static void advance(Policy *p, uint64_t now) {
        uint64_t charged = now;

        if (ns_sub(now, p->wake) > POLICY_LATE_MAX)
                charged = MIN(now, ns_add(p->wake, p->config.timeslice_ns));
        for (PolicyEntity *e; (e = naive_next_drainer(p, NULL)) && e->drain_until <= now; e->draining = false)
                step(p, e->drain_until, charged);
        step(p, now, charged);
}

/* --- decisions --- */

static void choose(Policy *p) {
        int top = naive_highest_of(&p->root);

        FOR_EACH(p, e)
                e->chosen = false;
        FOR_EACH_NODE(p, n)
        naive_list_due(n, false);
        if (p->linger && (p->now >= p->linger_until || naive_is_stopped(p->linger->node)))
                naive_linger_end(p, false);
        p->lingering = top >= 0 && p->linger && p->linger->tier > top && p->linger->tier >= p->outside;
        p->slots = p->config.concurrency - (p->guaranteed ? 1 : 0);
        p->active = p->lingering || p->slots == 0 || top < p->outside ? -1 : top;
        if (p->active >= 0)
                naive_choose(&p->root, p->active, p->slots);
        if (p->guaranteed)
                naive_choose(p->guaranteed, p->turn, 1);
        FOR_EACH_NODE(p, n)
        naive_list_due(n, false);
}

static void note_contention(Policy *p) {
        int top = naive_highest_of(&p->root);
        uint32_t places = 0;

        if (top >= 0)
                places = naive_places(&p->root, top);
        if (top >= 0 && p->guaranteed && p->turn == top)
                places += naive_places(p->guaranteed, top);
        bool contends = places > p->config.concurrency;
        uint64_t ns = p->now - p->crowd_at;

        p->crowd_at = p->now;
        p->crowd_ns = ns_sub(p->crowd_ns + (p->contends ? ns : 0), ns / POLICY_CROWD_PART);
        p->crowd_ns = MIN(p->crowd_ns, 2 * POLICY_CROWD_NS);
        if (top >= 0 && top != p->crowd)
                p->crowd_ns = 0;
        p->crowd = top >= 0 ? top : p->crowd;
        p->contends = contends;
        if (!contends)
                return;
        p->contended_until[top] = p->now + NAIVE_RECENT;
        if (p->crowd_ns >= POLICY_CROWD_NS)
                p->crowded_until[top] = p->now + NAIVE_RECENT;
}

static void owe(Policy *p) {
        PolicyEntity *e;

        if (p->owed && (p->now >= p->owed_until || p->owed->chosen || naive_is_stopped(p->owed->node)))
                p->owed = NULL;
        if (p->owed || p->config.starve_ns == 0 || p->config.starve_run_ns == 0 || p->now < p->owed_next)
                return;
        e = p->now >= p->config.starve_ns ? naive_floor_next(p, p->now - p->config.starve_ns) : NULL;
        if (!e)
                return;
        naive_floor_take_turn(e);
        p->owed = e;
        p->owed_until = ns_add(p->now, p->config.starve_run_ns);
        p->owed_next = ns_add(p->now, p->config.starve_ns);
}

static bool is_last(const PolicyEntity *e) {
        return e->p->last == e && naive_n_ready(e->p) == 0 && !naive_is_stopped(e->node) && e->tier >= e->p->outside;
}

static bool may_run(const PolicyEntity *e) {
        const Policy *p = e->p;

        if (e->ready)
                return e->chosen || p->owed == e;
        return e->kept || naive_is_advanced(e) || is_last(e) || (p->lingering && p->linger == e);
}

static void report(PolicyEntity *e, Verdict v) {
        Policy *p = e->p;
        PolicyGrant g = {.verdict = v, .threshold = e->threshold ?: p->config.threshold};

        if (v == VERDICT_RUN) {
                e->by_floor = p->owed == e && !e->chosen;
                e->by_turn = naive_has_turn(e);
        }
        if (v == VERDICT_RUN && !naive_is_claimed(e))
                g.threshold = 0;
        if (g.verdict == e->grant.verdict && g.threshold == e->grant.threshold)
                return;
        if (v != e->grant.verdict && v == VERDICT_RUN) {
                e->draining = false;
                e->grant_order = p->order++;
        } else if (v != e->grant.verdict && e->ready) {
                naive_drain_begin(e);
                e->held_order = p->order++;
                e->held_since = p->now;
        }
        e->grant = g;
        p->callbacks.grant(e->owner, &g, p->callbacks.userdata);
}

static PolicyEntity *next_granted(const Policy *p, uint64_t below) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (e->grant.verdict == VERDICT_RUN && !e->stands && e->grant_order < below)
                        if (!best || e->grant_order > best->grant_order)
                                best = e;
        return best;
}

/* The latest idle one of them, or the one before. */
static PolicyEntity *next_advanced(const Policy *p, uint64_t below) {
        PolicyEntity *best = NULL;

        FOR_EACH(p, e)
                if (naive_is_advanced(e) && e->idle_order < below)
                        if (!best || e->idle_order > best->idle_order)
                                best = e;
        return best;
}

static void report_all(Policy *p) {
        PolicyEntity *e;

        for (uint64_t below = UINT64_MAX; (e = next_advanced(p, below)); below = e->idle_order)
                e->stands = false;
        bool end = false;
        FOR_EACH(p, o)
                end = end || (o->stands && !naive_may_stand(o));
        if (end)
                naive_end_standing(p);
        for (uint64_t below = UINT64_MAX; (e = next_granted(p, below)); below = e->grant_order) {
                bool stands = !may_run(e) && naive_may_stand(e);

                report(e, stands || may_run(e) ? VERDICT_RUN : VERDICT_HOLD);
                e->stands = stands && p->linger != e;
        }
        naive_note_awaiting(p);
        FOR_EACH_CHOSEN(p, c)
        if (!c->awaits)
                report(c, VERDICT_RUN);
        if (p->owed)
                report(p->owed, VERDICT_RUN);
        if (p->lingering)
                report(p->linger, VERDICT_RUN);
        if (p->last && is_last(p->last))
                report(p->last, VERDICT_RUN);
        for (uint64_t below = UINT64_MAX; (e = next_advanced(p, below)); below = e->idle_order)
                report(e, VERDICT_RUN);
}

/* --- when to be asked again --- */

static uint64_t next_time(Policy *p) {
        naive_note_blocked(p);

        uint64_t next = NSEC_INFINITY, t = naive_quota_left(p);
        const PolicyNode *due = naive_first_due(p);

        next = ns_add(p->now, t);
        if (p->lingering)
                next = MIN(next, p->linger_until);
        t = naive_next_keep_end(p);
        next = MIN(next, t);
        t = naive_next_tail_end(p);
        next = MIN(next, t);
        if (p->ordering) {
                t = naive_order_next(p);
                next = MIN(next, t);
        }
        if (p->active >= 0 && !naive_is_ranked(p, p->active)) {
                t = ns_add(p->now, naive_left(&p->root, p->active, p->slots));
                next = MIN(next, t);
        }
        if (p->guaranteed) {
                t = naive_is_ranked(p, p->turn) ? NSEC_INFINITY : ns_add(p->now, naive_left(p->guaranteed, p->turn, 1));
                next = MIN(next, t);
                next = MIN(next, p->turn_until);
        } else if (due && due->due > p->now)
                next = MIN(next, due->due);
        FOR_EACH_NODE(p, n)
        next = MIN(next, n->refill);
        if (p->owed)
                next = MIN(next, p->owed_until);
        if (p->config.starve_ns == 0 || p->config.starve_run_ns == 0)
                return next;
        FOR_EACH(p, e)
                if (e->ready && e->grant.verdict == VERDICT_HOLD && !naive_is_out(e->node)) {
                        t = ns_add(e->held_since, p->config.starve_ns);
                        t = MAX(t, p->owed_next);
                        next = MIN(next, t);
                }
        return next;
}

uint64_t naive_latest(Policy *p) {
        uint64_t until = p->linger_until, latest;

        if (p->lingering)
                p->linger_until = ns_add(until, p->linger->trusted / 100);
        latest = next_time(p);
        p->linger_until = until;
        return latest;
}

static void decide(Policy *p) {
        (void) naive_review_kept(p);
        do {
                naive_continue_turn(p);
                choose(p);
                if (naive_begin_turn(p))
                        choose(p);
        } while (naive_drop_kept(p) || naive_review_kept(p));
}

static uint64_t naive_dispatch(Policy *p, uint64_t now) {
        advance(p, now);
        naive_refill(p);
        (void) naive_order_tick(p);
        do
                decide(p);
        while (naive_order_tick(p));
        note_contention(p);
        owe(p);
        report_all(p);
        p->wake = next_time(p);
        return p->wake;
}

/* --- events --- */

static PolicyNode *node_of(Policy *p, PolicyNode *n) {
        return n ?: &p->root;
}

static int naive_entity_new(
                Policy *p, PolicyNode *node, void *owner, const PolicySettings *s, uint64_t now, PolicyEntity **ret) {
        PolicyEntity *e = calloc(1, sizeof(*e));
        PolicyEntity **all = reallocarray(p->all, p->n + 1, sizeof(*all));

        if (!e || !all)
                abort();
        p->all = all;
        advance(p, now);
        e->p = p;
        e->owner = owner;
        e->node = node_of(p, node);
        e->settings = *s;
        e->settings.priority = CLAMP(s->priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX);
        e->threshold = s->threshold;
        e->party = s->party;
        naive_order_begin(e);
        e->m.e = e;
        e->m.weight = naive_weight(p, s);
        e->grant_order = p->order++;
        e->idle_order = p->order++;
        p->all[p->n++] = e;
        naive_floor_note(e);
        *ret = e;
        return 0;
}

static void naive_entity_ready(PolicyEntity *e, uint64_t now) {
        Policy *p = e->p;

        advance(p, now);
        if (e->ready)
                return;
        e->stands = false;
        p->n_missed[e->tier] = naive_is_recent(e) ? 0 : p->n_missed[e->tier] + 1;
        if (!e->kept)
                naive_order_comes(e);
        e->ready = true;
        p->last = NULL;
        if (p->linger == e)
                naive_linger_end(p, true);
        if (e->was_ready) {
                if (e->n_gaps == NAIVE_GAPS)
                        memmove(e->gaps, e->gaps + 1, --e->n_gaps * sizeof(e->gaps[0]));
                e->gaps[e->n_gaps++] = p->now - e->idle_since;
                naive_gap_ended(e, p->now - e->idle_since);
        }
        e->was_ready = true;
        if (e->grant.verdict == VERDICT_HOLD) {
                e->held_order = p->order++;
                e->held_since = p->now;
        } else
                e->draining = false;
        if (!e->kept) {
                naive_join(e->node, e->tier, &e->m, 1);
                naive_fit_up(e->node, e->tier);
        }
        e->kept = false;
}

static void naive_entity_idle(PolicyEntity *e, uint64_t now) {
        Policy *p = e->p;

        advance(p, now);
        if (!e->ready)
                return;
        e->ready = e->draining = false;
        e->idle_since = p->now;
        e->idle_order = p->order++;
        p->owed = p->owed == e ? NULL : p->owed;
        if (!naive_keep_begin(e)) {
                e->chosen = false;
                FOR_EACH_NODE(p, n)
                naive_list_due(n, false);
                naive_leave(e->node, e->tier, &e->m);
                naive_fit_up(e->node, e->tier);
        }
        if (e->grant.verdict == VERDICT_RUN)
                naive_note_last(e);
        if (!e->kept)
                naive_order_goes(e, true);
}

static PolicyEntity *naive_entity_free(PolicyEntity *e, uint64_t now) {
        Policy *p = e->p;

        naive_entity_idle(e, now);
        naive_keep_end(e);
        p->last = p->last == e ? NULL : p->last;
        p->linger = p->linger == e ? NULL : p->linger;
        for (size_t i = 0; i < p->n; i++)
                if (p->all[i] == e)
                        p->all[i] = p->all[--p->n];
        free(e);
        naive_forget_unused(p);
        naive_floor_forget(p);
        return NULL;
}

static void naive_entity_configure(PolicyEntity *e, const PolicySettings *s, uint64_t now) {
        uint32_t weight = naive_weight(e->p, s);

        advance(e->p, now);
        e->stands = false;
        e->threshold = s->threshold;
        naive_floor_change(e, &s->party);
        if (weight != e->m.weight)
                naive_reweight(e->node, e->tier, &e->m, weight);
        e->settings = *s;
        e->settings.priority = CLAMP(s->priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX);
        naive_order_told(e);
}

static int naive_entity_move(PolicyEntity *e, PolicyNode *to, uint64_t now) {
        advance(e->p, now);
        to = node_of(e->p, to);
        if (to != e->node)
                naive_change(e, to, e->tier);
        return 0;
}

static void naive_entity_tail(PolicyEntity *e, uint64_t now) {
        advance(e->p, now);
        if (!e->draining && !(e->ready && e->grant.verdict == VERDICT_RUN))
                e->stands = false;
        naive_tail(e);
}

static void naive_entity_tail_had(PolicyEntity *e, uint64_t ns, uint64_t now) {
        Policy *p = e->p;
        uint64_t until = ns_add(p->now, ns);

        if (!naive_tail_is_beside(e))
                return;
        advance(p, MIN(until, now));
        if (!e->draining)
                return;
        e->draining = false;
        advance(p, now);
        e->draining = true;
        advance(p, now);
}

static void naive_entity_drained(PolicyEntity *e, uint64_t now) {
        advance(e->p, now);
        e->draining = false;
}

/* The harness counts the other fields itself. */
static void naive_device_usage(const Policy *p, uint64_t now, PolicyDeviceUsage *ret) {
        *ret = (PolicyDeviceUsage){};
}

static void naive_entity_usage(const PolicyEntity *e, uint64_t now, PolicyUsage *ret) {
        *ret = (PolicyUsage){.drain_wait_ns = e->awaited_ns};
}

static void naive_node_configure(PolicyNode *n, const PolicyNodeSettings *s, uint64_t now) {
        advance(n->p, now);
        naive_end_standing(n->p);
        naive_set_node(n, s);
}

static int naive_node_new(Policy *p, PolicyNode *parent, const PolicyNodeSettings *s, uint64_t now, PolicyNode **ret) {
        advance(p, now);
        *ret = naive_make_node(node_of(p, parent), s);
        return 0;
}

static PolicyNode *naive_node_free(PolicyNode *n, uint64_t now) {
        PolicyNodeSettings s = n->settings;

        advance(n->p, now);
        s.min = 0;
        naive_set_node(n, &s);
        n->gone = true;
        naive_forget_unused(n->p);
        naive_bury(n->p);
        return NULL;
}

/* --- the instance --- */

static int naive_new(const PolicyConfig *config, const PolicyCallbacks *callbacks, Policy **ret) {
        Policy *p = calloc(1, sizeof(*p));

        if (!p)
                abort();
        p->config = *config;
        p->callbacks = *callbacks;
        p->wake = NSEC_INFINITY;
        p->active = p->turn = p->outside = p->crowd = -1;
        p->root.p = p;
        *ret = p;
        return 0;
}

static Policy *naive_free(Policy *p) {
        free(p->all);
        FOR_EACH_NODE(p, n)
        naive_free_node(n);
        free(p->nodes);
        free(p->floor);
        free(p->parties);
        free(p);
        return NULL;
}

static int naive_level_of(const Policy *p) {
        int top = naive_highest_of(&p->root);

        return (p->guaranteed ? MAX(top, p->turn) : top) + POLICY_PRIORITY_MIN;
}

static void naive_outside(Policy *p, int level, uint64_t now) {
        advance(p, now);
        p->outside = level - POLICY_PRIORITY_MIN;
}

static int naive_configure(Policy *p, const PolicyConfig *config, uint64_t now) {
        advance(p, now);
        naive_end_standing(p);
        p->config = *config;
        FOR_EACH_NODE(p, n)
        if (n->settings.min > 0) {
                naive_add_credit(n, 0);
                naive_list_due(n, true);
        }
        if (p->guaranteed) {
                uint64_t t = p->now + config->timeslice_ns;

                p->turn_until = MIN(p->turn_until, t);
        }
        if (p->owed) {
                uint64_t t = ns_add(p->now, config->starve_run_ns);

                p->owed_until = MIN(p->owed_until, t);
        }
        if (p->linger) {
                uint64_t t = ns_add(p->linger->idle_since, config->linger_ns);

                p->linger_until = MIN(p->linger_until, t);
        }
        FOR_EACH(p, e)
                if (e->kept) {
                        uint64_t t = ns_add(e->idle_since, config->linger_ns);

                        e->kept_until = MIN(e->kept_until, t);
                }
        return 0;
}

const PolicyOps policy_naive_ops = {
                .name = "naive",
                .description = "The oracle",
                .new = naive_new,
                .free = naive_free,
                .configure = naive_configure,
                .node_new = naive_node_new,
                .node_free = naive_node_free,
                .node_configure = naive_node_configure,
                .entity_new = naive_entity_new,
                .entity_free = naive_entity_free,
                .entity_configure = naive_entity_configure,
                .entity_move = naive_entity_move,
                .entity_ready = naive_entity_ready,
                .entity_idle = naive_entity_idle,
                .entity_drained = naive_entity_drained,
                .entity_tail = naive_entity_tail,
                .entity_tail_had = naive_entity_tail_had,
                .device_usage = naive_device_usage,
                .entity_usage = naive_entity_usage,
                .entity_wait = naive_entity_wait,
                .level = naive_level_of,
                .outside = naive_outside,
                .dispatch = naive_dispatch,
};
