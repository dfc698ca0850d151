/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle's nodes: which a maximum stops, which a minimum owes a turn, and which has the turn
 */

#include "naive-fair.h"

__extension__ typedef __int128 wide_t;

/* --- nodes --- */

/* Whether the node's own maximum or one above stops it. The end of a period counts from when the policy noticed it. */
bool naive_is_out(const PolicyNode *n) {
        for (; n; n = n->parent)
                if (n->stopped)
                        return true;
        return false;
}

static void roll(PolicyNode *n, uint64_t now) {
        uint64_t k = ns_sub(now, n->begin) / n->period;

        n->begin += k * n->period;
        n->used = (wide_t) k * n->quota >= n->used ? 0 : n->used - k * n->quota;
}

bool naive_is_spent(PolicyNode *n) {
        roll(n, n->p->now);
        return n->used >= n->quota;
}

bool naive_is_stopped(PolicyNode *n) {
        for (; n; n = n->parent)
                if (n->stopped && naive_is_spent(n))
                        return true;
        return false;
}

bool naive_is_limited(const PolicyNode *n) {
        for (; n; n = n->parent)
                if (n->quota > 0)
                        return true;
        return false;
}

static bool is_below(const PolicyNode *n, const PolicyNode *above) {
        for (; n; n = n->parent)
                if (n == above)
                        return true;
        return false;
}

static uint32_t places_of(const PolicyNode *n) {
        bool any[NAIVE_TIERS] = {};
        uint32_t places = 0;

        FOR_EACH(n->p, e)
                if (is_below(e->node, n))
                        any[e->tier] = true;
        for (int t = 0; t < NAIVE_TIERS; t++)
                places += any[t] ? naive_places(n, t) : 0;
        return places;
}

size_t naive_n_chosen(const PolicyNode *n) {
        size_t k = 0;

        FOR_EACH(n->p, e)
                k += e->chosen && is_below(e->node, n);
        return k;
}

static int64_t turn_of(const PolicyNode *n) {
        uint64_t t = n->settings.period_ns / 100 * n->settings.min;

        return (int64_t) MIN(t, n->p->config.timeslice_ns);
}

void naive_add_credit(PolicyNode *n, int64_t credit) {
        int64_t least = MIN(n->credit, -100 * turn_of(n));

        n->credit = CLAMP(n->credit + credit, least, 300 * turn_of(n));
}

void naive_list_due(PolicyNode *n, bool again) {
        bool listed = n->settings.min > 0 && n->wanting && naive_n_chosen(n) == 0;
        int64_t missing = 100 * turn_of(n) - n->credit;

        if (listed == n->due_listed && !again)
                return;
        n->due_listed = listed;
        if (listed)
                n->due = n->p->now + (missing > 0 ? (uint64_t) ((missing + n->settings.min - 1) / n->settings.min) : 0);
}

/* A node's member of a tier: its place in the parent's queue follows from what is below it. */
static void fit(PolicyNode *n, int tier) {
        Member *m = &n->in[tier];
        bool apart = n->p->guaranteed == n && n->p->turn == tier;
        uint32_t places = n->stopped || apart ? 0 : naive_places(n, tier);

        if (places > 0 && !m->here)
                naive_join(n->parent, tier, m, places);
        else if (places == 0 && m->here)
                naive_leave(n->parent, tier, m);
        else if (places != m->places && m->here) {
                m->places = places;
                m->used = MIN(m->used, places);
                if (m->used > 0)
                        m->run_order = n->p->order++;
        }
}

static void note_wanting(Policy *p) {
        FOR_EACH_NODE(p, n) {
                uint32_t places = places_of(n);
                bool refilling = n->stopped && places > 0, wanting = !n->stopped && places > 0;

                if (refilling && n->refill == NSEC_INFINITY) {
                        roll(n, p->now);
                        n->refill = n->begin + n->used / n->quota * n->period;
                } else if (!refilling)
                        n->refill = NSEC_INFINITY;
                n->wanting = wanting;
                naive_list_due(n, false);
        }
}

/* Fits the members from n up to the root after a change at n. */
void naive_fit_up(PolicyNode *n, int tier) {
        for (PolicyNode *x = n; x->parent; x = x->parent)
                fit(x, tier);
        note_wanting(n->p);
}

static void fit_all_up(PolicyNode *n) {
        for (int t = 0; t < NAIVE_TIERS; t++) {
                bool any = false;

                FOR_EACH(n->p, e)
                        any = any || e->tier == t;
                if (any)
                        naive_fit_up(n, t);
        }
        note_wanting(n->p);
}

void naive_set_stopped(PolicyNode *n, bool stopped) {
        n->stopped = stopped;
        fit_all_up(n);
}

/* Forgets members without entities below them, but for debts of nodes that can come back. */
void naive_forget_unused(Policy *p) {
        FOR_EACH_NODE(p, n)
        for (int t = 0; t < NAIVE_TIERS; t++) {
                bool any = false;

                if (!n->in[t].remembered)
                        continue;
                FOR_EACH(p, e)
                        any = any || (e->tier == t && is_below(e->node, n));
                if (!any && (n->in[t].lag >= 0 || (n->gone && !n->name))) {
                        n->in[t].remembered = false;
                        n->in[t].lag = 0;
                }
        }
}

/* --- those that are gone --- */

static bool owes(PolicyNode *n) {
        Policy *p = n->p;

        FOR_EACH(p, e)
                if (e->node == n)
                        return true;
        FOR_EACH_NODE(p, x)
        if (x->parent == n)
                return true;
        for (int t = 0; t < NAIVE_TIERS; t++)
                if (n->in[t].remembered)
                        return true;
        return n->name && n->quota > 0 && (roll(n, p->now), n->used > 0);
}

void naive_free_node(PolicyNode *n) {
        free(n->name);
        free(n);
}

/* This has no effect on results, whenever it happens. */
void naive_bury(Policy *p) {
        for (size_t i = p->n_nodes; i-- > 0;) {
                PolicyNode *n = p->nodes[i];

                if (!n->gone || owes(n))
                        continue;
                p->nodes[i] = p->nodes[--p->n_nodes];
                naive_free_node(n);
        }
}

static PolicyNode *come_back(PolicyNode *parent, const char *name) {
        Policy *p = parent->p;

        FOR_EACH_NODE(p, n) {
                if (!n->gone || n->parent != parent || !name || !n->name || !streq(n->name, name))
                        continue;
                n->gone = false;
                n->id = p->order++;
                if (n->quota > 0 && (roll(n, p->now), n->used == 0))
                        n->quota = 0;
                return n;
        }
        return NULL;
}

int naive_highest_of(const PolicyNode *n) {
        int best = -1;

        FOR_EACH(n->p, e)
                if (is_below(e->node, n) && e->tier > best && naive_places(n, e->tier) > 0)
                        best = e->tier;
        return best;
}

/* --- turns --- */

static void set_turn(Policy *p, PolicyNode *n, int tier) {
        PolicyNode *before = p->guaranteed;
        int tier_before = p->turn;

        if (before == n && tier_before == tier)
                return;
        p->guaranteed = n;
        p->turn = tier;
        if (before)
                naive_fit_up(before, tier_before);
        if (n)
                naive_fit_up(n, tier);
}

static bool turn_is_needed(const Policy *p) {
        int top = naive_highest_of(&p->root);

        return p->turn < p->outside || top > p->turn ||
                        (top == p->turn && naive_places(&p->root, top) >= p->config.concurrency);
}

void naive_continue_turn(Policy *p) {
        if (!p->guaranteed)
                return;
        int tier = naive_highest_of(p->guaranteed);
        if (p->now >= p->turn_until || naive_is_stopped(p->guaranteed) || tier < 0)
                set_turn(p, NULL, -1);
        else
                set_turn(p, p->guaranteed, tier);
        if (p->guaranteed && !turn_is_needed(p))
                set_turn(p, NULL, -1);
}

PolicyNode *naive_first_due(const Policy *p) {
        PolicyNode *best = NULL;

        FOR_EACH_NODE(p, n)
        if (n->due_listed && (!best || n->due < best->due || (n->due == best->due && n->id < best->id)))
                best = n;
        return best;
}

bool naive_begin_turn(Policy *p) {
        PolicyNode *n;

        if (p->guaranteed || p->lingering)
                return false;
        while ((n = naive_first_due(p)) && n->due <= p->now) {
                if (!naive_is_stopped(n)) {
                        p->turn_until = p->now + (uint64_t) turn_of(n);
                        set_turn(p, n, naive_highest_of(n));
                        return true;
                }
                n->credit = 0;
                naive_list_due(n, true);
        }
        return false;
}

bool naive_has_turn(const PolicyEntity *e) {
        const Policy *p = e->p;

        return p->guaranteed && e->tier == p->turn && is_below(e->node, p->guaranteed);
}

/* --- budgets --- */

void naive_charge_above(PolicyEntity *e, uint64_t from, uint64_t ns, bool ran, bool chosen) {
        for (PolicyNode *n = e->node; n->parent; n = n->parent) {
                if (ran && n->quota > 0) {
                        uint64_t first;

                        roll(n, from);
                        first = MIN(ns, n->begin + n->period - from);
                        n->used += first;
                        if (ns > first)
                                roll(n, n->begin + n->period);
                        n->used += ns - first;
                }
                int64_t charge = (int64_t) MIN(ns, UINT64_C(1) << 48) * 100;
                if (chosen && n->settings.min > 0 && e->by_turn)
                        n->credit = MAX(n->credit - charge, -(INT64_C(1) << 60));
                else if (chosen && n->settings.min > 0)
                        naive_add_credit(n, -charge);
        }
}

void naive_check_quotas(PolicyEntity *e) {
        for (PolicyNode *n = e->node; n->parent; n = n->parent)
                if (n->quota > 0 && !n->stopped && naive_is_spent(n))
                        naive_set_stopped(n, true);
}

void naive_set_node(PolicyNode *n, const PolicyNodeSettings *s) {
        Policy *p = n->p;
        uint64_t quota, period;
        bool was = n->settings.min > 0;

        n->settings = *s;
        n->settings.weight = CLAMP(s->weight, POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX);
        n->settings.period_ns = CLAMP(s->period_ns, POLICY_PERIOD_MIN, POLICY_PERIOD_MAX);
        for (int t = 0; t < NAIVE_TIERS; t++)
                if (n->in[t].weight != naive_node_weight(p, s))
                        naive_reweight(n->parent, t, &n->in[t], naive_node_weight(p, s));

        if (n->stopped)
                naive_set_stopped(n, false);
        quota = n->settings.period_ns / 100 * n->settings.max;
        period = n->settings.period_ns;
        if (quota != n->quota || period != n->period) {
                if (n->quota > 0)
                        roll(n, p->now);
                else {
                        n->used = 0;
                        n->begin = p->now;
                }
                n->quota = quota;
                n->period = period;
        }
        if (n->quota > 0 && naive_is_spent(n))
                naive_set_stopped(n, true);

        if (!was && n->settings.min == 0)
                return;
        naive_add_credit(n, 0);
        naive_list_due(n, true);
        if (p->guaranteed == n && n->settings.min == 0)
                set_turn(p, NULL, -1);
}

uint64_t naive_quota_left(const Policy *p) {
        uint64_t left = NSEC_INFINITY;

        FOR_EACH(p, e) {
                if ((!e->chosen && e != p->owed) || e->blocked || e->kept)
                        continue;
                for (PolicyNode *n = e->node; n->parent; n = n->parent) {
                        size_t runners = naive_n_chosen(n) + (p->owed ? 1 : 0);

                        if (n->quota == 0 || naive_is_spent(n) || runners == 0)
                                continue;
                        uint64_t t = (n->quota - n->used + runners - 1) / runners;
                        left = MIN(left, t);
                }
        }
        return left;
}

static PolicyNode *new_node(PolicyNode *parent, const char *name) {
        Policy *p = parent->p;
        PolicyNode *n = calloc(1, sizeof(*n)), **nodes = reallocarray(p->nodes, p->n_nodes + 1, sizeof(*nodes));

        if (!n || !nodes)
                abort();
        p->nodes = nodes;
        n->p = p;
        n->parent = parent;
        n->name = name ? strdup(name) : NULL;
        n->id = p->order++;
        n->refill = NSEC_INFINITY;
        for (int t = 0; t < NAIVE_TIERS; t++)
                n->in[t] = (Member){.node = n, .weight = POLICY_WEIGHT_DEFAULT};
        p->nodes[p->n_nodes++] = n;
        return n;
}

PolicyNode *naive_make_node(PolicyNode *parent, const PolicyNodeSettings *s) {
        PolicyNode *n = come_back(parent, s->name) ?: new_node(parent, s->name);

        naive_set_node(n, s);
        return n;
}

/* --- periods --- */

void naive_refill(Policy *p) {
        for (;;) {
                PolicyNode *best = NULL;

                FOR_EACH_NODE(p, n)
                if (n->refill <= p->now &&
                                (!best || n->refill < best->refill || (n->refill == best->refill && n->id < best->id)))
                        best = n;
                if (!best)
                        return;
                if (naive_is_spent(best))
                        best->refill = best->begin + best->used / best->quota * best->period;
                else
                        naive_set_stopped(best, false);
        }
}

/* --- where an entity is --- */

void naive_change(PolicyEntity *e, PolicyNode *node, int tier) {
        Policy *p = e->p;
        bool ready = e->ready;

        e->stands = false;
        if (e->kept)
                naive_keep_drop(e);
        e->chosen = false;
        FOR_EACH_NODE(p, n)
        naive_list_due(n, false);
        if (ready) {
                naive_leave(e->node, e->tier, &e->m);
                naive_fit_up(e->node, e->tier);
        }
        bool remembered = e->m.remembered && !naive_is_ranked(p, tier);
        e->m.remembered = false;
        if (naive_is_ranked(p, tier))
                e->m.lag = 0;
        if (node != e->node && ready && e->grant.verdict == VERDICT_HOLD) {
                e->held_order = p->order++;
                e->held_since = p->now;
        }
        e->node = node;
        e->tier = tier;
        naive_floor_note(e);
        if (remembered)
                naive_remember(node, tier, &e->m);
        if (ready) {
                naive_join(node, tier, &e->m, 1);
                naive_fit_up(node, tier);
        } else
                e->idle_order = p->order++;
        naive_forget_unused(p);
}
