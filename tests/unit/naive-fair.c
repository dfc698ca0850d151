/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The oracle's fair queues; see naive-fair.h.
 */

#include <assert.h>

#include "naive-fair.h"

#define SCALE    10000
#define MEMORY   16 /* slices */
#define REMEMBER 64 /* members */

__extension__ typedef __int128 wide_t;

Below naive_below(const PolicyNode *n, int tier) {
        Below b = {};

        FOR_EACH(n->p, e)
                if (e->node == n && e->tier == tier)
                        b.m[b.n++] = &e->m;
        FOR_EACH_NODE(n->p, x)
        if (x->parent == n)
                b.m[b.n++] = &x->in[tier];
        assert(b.n <= NAIVE_BELOW);
        return b;
}

uint32_t naive_places(const PolicyNode *n, int tier) {
        Below b = naive_below(n, tier);
        uint32_t places = 0;

        for (size_t i = 0; i < b.n; i++)
                if (b.m[i]->here)
                        places += b.m[i]->places;
        return places;
}

static uint64_t weight_of(const Below *b) {
        uint64_t w = 0;

        for (size_t i = 0; i < b->n; i++)
                w += b->m[i]->here ? b->m[i]->weight : 0;
        return w;
}

static int64_t floor_div(wide_t a, wide_t b) {
        assert(b > 0);
        return (int64_t) (a >= 0 ? a / b : -((-a + b - 1) / b));
}

/* The weighted mean over the present members, such that all lags add up to zero, those of remembered members too. */
static uint64_t v_of(PolicyNode *n, int tier) {
        Below b = naive_below(n, tier);
        const Member *first = NULL;
        wide_t sum = 0;

        for (size_t i = 0; i < b.n; i++) {
                const Member *m = b.m[i];

                if (m->here) {
                        first = first ?: m;
                        sum += (wide_t) m->weight * (int64_t) (m->v - first->v);
                }
                if (m->remembered)
                        sum -= (wide_t) m->weight * m->lag;
        }
        if (first)
                n->v_left[tier] = first->v + (uint64_t) floor_div(sum, (wide_t) weight_of(&b));
        return n->v_left[tier];
}

static uint64_t as_v(uint64_t ns, uint64_t weight, uint64_t times) {
        return (uint64_t) ((wide_t) ns * SCALE * times / weight);
}

static int64_t most_lag(const PolicyNode *n, int tier, const Member *m) {
        return (int64_t) as_v(naive_slice(n->p, tier), m->weight, 2);
}

static int64_t most_debt(const PolicyNode *n, int tier, const Member *m) {
        int64_t lag = most_lag(n, tier, m), debt = (int64_t) as_v(NSEC_PER_SEC, m->weight, 1);

        return MAX(lag, debt);
}

int64_t naive_lag(PolicyNode *n, int tier, const Member *m) {
        return (int64_t) ((wide_t) (int64_t) (v_of(n, tier) - m->v) * m->weight / SCALE);
}

bool naive_is_even(const PolicyNode *n, int tier) {
        Below b = naive_below(n, tier);
        uint32_t weight = 0;

        for (size_t i = 0; i < b.n; i++) {
                if (!b.m[i]->here)
                        continue;
                if (weight != 0 && b.m[i]->weight != weight)
                        return false;
                weight = b.m[i]->weight;
        }
        return true;
}

/* Whether the entity uses a place in the queues above; an entity with a turn of its own does not. */
static bool uses_place(const PolicyEntity *e, const Member *m) {
        const Policy *p = e->p;

        if (m->e)
                return m->e == e;
        for (const PolicyNode *n = e->node; n; n = n->parent) {
                if (n == p->guaranteed && e->tier == p->turn)
                        return false;
                if (n == m->node)
                        return true;
        }
        return false;
}

uint32_t naive_n_blocked(const Member *m, int tier) {
        const Policy *p = m->e ? m->e->p : m->node->p;
        uint32_t n = 0;

        FOR_EACH(p, e)
                n += e->blocked && e->chosen && e->tier == tier && uses_place(e, m);
        return n;
}

static bool wants(const Member *m) {
        return m->here && m->used < m->places;
}

static uint64_t deadline_of(const PolicyNode *n, int tier, const Member *m) {
        return m->v + as_v(m->left ?: naive_slice(n->p, tier), m->weight, 1);
}

static bool is_before(uint64_t a, uint64_t a_order, uint64_t b, uint64_t b_order) {
        int64_t d = (int64_t) (a - b);

        return d < 0 || (d == 0 && a_order < b_order);
}

/* The eligible member with the earliest deadline that could use a place. If there is none and `any` is set: the member
 * that becomes eligible first. */
static Member *first_waiting(PolicyNode *n, int tier, bool any) {
        Below b = naive_below(n, tier);
        uint64_t v = v_of(n, tier);
        Member *best = NULL;

        for (size_t i = 0; i < b.n; i++) {
                Member *m = b.m[i];

                if (!wants(m) || (int64_t) (m->v - v) > 0)
                        continue;
                if (m->used > 0)
                        m->deadline = deadline_of(n, tier, m);
                if (!best || is_before(m->deadline, m->wait_order, best->deadline, best->wait_order))
                        best = m;
        }
        for (size_t i = 0; !best && any && i < b.n; i++) {
                Member *m = b.m[i];

                for (size_t k = 0; wants(m) && k < b.n; k++)
                        if (wants(b.m[k]) && is_before(b.m[k]->v, b.m[k]->wait_order, m->v, m->wait_order))
                                m = b.m[k];
                best = wants(m) ? m : NULL;
        }
        return best;
}

/* Is a listed behind b? */
static bool runs_after(const Member *a, const Member *b) {
        uint64_t x = (uint64_t) a->weight * b->places, y = (uint64_t) b->weight * a->places;

        return x < y || (x == y && a->run_order > b->run_order);
}

Below naive_runners(const PolicyNode *n, int tier) {
        Below b = naive_below(n, tier), r = {};

        for (size_t i = 0; i < b.n; i++) {
                size_t k;

                if (!b.m[i]->here || b.m[i]->used == 0)
                        continue;
                for (k = r.n++; k > 0 && runs_after(r.m[k - 1], b.m[i]); k--)
                        r.m[k] = r.m[k - 1];
                r.m[k] = b.m[i];
        }
        return r;
}

static uint32_t n_used(const PolicyNode *n, int tier) {
        Below r = naive_runners(n, tier);
        uint32_t used = 0;

        for (size_t i = 0; i < r.n; i++)
                used += r.m[i]->used;
        return used;
}

/* The heaviest runners, whose weights are worth more than all their places, and the weight and places of the rest. */
typedef struct Full {
        bool full[NAIVE_BELOW];
        uint64_t slots, weight, used;
} Full;

static Full find_full(const PolicyNode *n, int tier, uint32_t slots) {
        Below b = naive_below(n, tier), r = naive_runners(n, tier);
        Full f = {.slots = slots, .weight = weight_of(&b), .used = n_used(n, tier)};

        for (size_t i = 0; i < r.n; i++) {
                const Member *m = r.m[i];

                if (f.slots <= m->places || m->weight * f.slots <= f.weight * m->places)
                        break;
                f.full[i] = !wants(m);
                if (!f.full[i])
                        continue;
                f.slots -= m->places;
                f.used -= m->used;
                f.weight -= m->weight;
        }
        return f;
}

static void place(const PolicyNode *n, int tier, Member *m) {
        m->deadline = deadline_of(n, tier, m);
}

static void start(PolicyNode *n, Member *m) {
        m->wait_order = n->p->order++;
        if (m->used++ == 0)
                m->run_order = n->p->order++;
}

static void stop(PolicyNode *n, int tier, Member *m) {
        m->left = m->left ?: naive_slice(n->p, tier);
        m->used--;
        m->wait_order = n->p->order++;
        place(n, tier, m);
}

void naive_join(PolicyNode *n, int tier, Member *m, uint32_t places) {
        if (m->e)
                naive_order_joins(m->e);
        if (naive_is_ranked(n->p, tier)) {
                m->here = true;
                m->places = places;
                return;
        }
        m->v = v_of(n, tier) - (uint64_t) m->lag;
        m->remembered = false;
        m->here = true;
        m->places = places;
        m->used = 0;
        m->left = naive_slice(n->p, tier);
        m->wait_order = n->p->order++;
        place(n, tier, m);
}

void naive_remember(PolicyNode *n, int tier, Member *m) {
        Below b = naive_below(n, tier);
        Member *oldest = NULL;
        size_t k = 0;

        for (size_t i = 0; i < b.n; i++)
                if (b.m[i]->remembered) {
                        k++;
                        if (!oldest || b.m[i]->left_order < oldest->left_order)
                                oldest = b.m[i];
                }
        if (k >= REMEMBER) {
                oldest->remembered = false;
                oldest->lag = 0;
        }
        m->remembered = true;
        m->left_at = n->clock[tier];
        m->left_order = n->p->order++;
}

void naive_leave(PolicyNode *n, int tier, Member *m) {
        if (naive_is_ranked(n->p, tier)) {
                m->here = false;
                return;
        }
        int64_t most = most_lag(n, tier, m), lag = (int64_t) (v_of(n, tier) - m->v);

        m->lag = CLAMP(lag, -most_debt(n, tier, m), most);
        m->here = false;
        m->used = 0;
        naive_remember(n, tier, m);
}

void naive_reweight(PolicyNode *n, int tier, Member *m, uint32_t weight) {
        if (naive_is_ranked(n->p, tier)) {
                m->weight = weight;
                return;
        }
        if (m->here) {
                uint64_t v = v_of(n, tier);

                m->v = v + (uint64_t) ((wide_t) (int64_t) (m->v - v) * m->weight / weight);
        } else
                m->lag = (int64_t) ((wide_t) m->lag * m->weight / weight);
        m->weight = weight;
        if (m->here && m->used > 0)
                m->run_order = n->p->order++;
        else if (m->here)
                place(n, tier, m);
}

void naive_charge(PolicyNode *n, int tier, Member *m, uint64_t ns) {
        int64_t cost = (int64_t) as_v(ns, m->weight, 1), most = most_lag(n, tier, m);

        if (m->here) {
                int64_t room = most - (int64_t) (m->v - v_of(n, tier));

                m->v += (uint64_t) CLAMP(room, (int64_t) 0, cost);
                if (m->used > 0)
                        m->run_order = n->p->order++;
                else
                        place(n, tier, m);
        } else if (m->remembered && m->lag > -most) {
                m->lag = MAX(m->lag - cost, -most);
        }
}

void naive_charge_tail(PolicyNode *n, int tier, Member *m, uint64_t ns) {
        if (naive_is_ranked(n->p, tier))
                return;
        int64_t cost = (int64_t) as_v(ns, m->weight, 1), most = most_debt(n, tier, m);

        if (m->here) {
                m->v += (uint64_t) cost;
                if (m->used > 0)
                        m->run_order = n->p->order++;
                else
                        place(n, tier, m);
                return;
        }
        m->remembered = false;
        naive_remember(n, tier, m);
        if (m->lag > -most)
                m->lag = MAX(m->lag - cost, -most);
}

void naive_advance(PolicyNode *n, int tier, uint32_t slots, uint64_t ns) {
        Below r = naive_runners(n, tier);
        Full f = find_full(n, tier, slots);
        bool contended = n_used(n, tier) < naive_places(n, tier);

        n->clock[tier] += ns;
        for (size_t i = 0; i < r.n; i++) {
                Member *m = r.m[i];
                uint32_t used = m->used - naive_n_blocked(m, tier);

                if (used == 0)
                        continue;
                m->left = ns_sub(m->left, ns * used);
                if (contended)
                        m->v += f.full[i] ? as_v(ns, f.weight, f.slots) : as_v(ns, m->weight, used);
                if (m->node)
                        naive_advance(m->node, tier, m->used, ns);
        }
}

static bool due(PolicyNode *n, int tier, const Member *m, const Member *next) {
        int64_t later = (int64_t) (deadline_of(n, tier, m) - next->deadline);

        if (m->left > 0)
                return later > 0;
        return later >= 0 || (int64_t) (m->v - v_of(n, tier)) > 0;
}

static Member *latest(PolicyNode *n, int tier, uint32_t slots, const Member *next) {
        Below r = naive_runners(n, tier);
        Full f = find_full(n, tier, slots);
        Member *best = NULL;

        for (size_t i = 0; i < r.n; i++)
                if (!next || (r.m[i] != next && !f.full[i] && due(n, tier, r.m[i], next)))
                        if (!best || (int64_t) (deadline_of(n, tier, r.m[i]) - deadline_of(n, tier, best)) > 0)
                                best = r.m[i];
        return best;
}

static void choose_here(PolicyNode *n, int tier, uint32_t slots) {
        Below b = naive_below(n, tier);
        Member *next, *last;

        for (size_t i = 0; i < b.n; i++)
                if (b.m[i]->remembered && n->clock[tier] - b.m[i]->left_at > MEMORY * naive_slice(n->p, tier)) {
                        b.m[i]->remembered = false;
                        b.m[i]->lag = 0;
                }
        while (n_used(n, tier) > slots)
                stop(n, tier, latest(n, tier, slots, NULL));
        while (n_used(n, tier) < slots && (next = first_waiting(n, tier, true)))
                start(n, next);
        while ((next = first_waiting(n, tier, false)) && (last = latest(n, tier, slots, next))) {
                start(n, next);
                stop(n, tier, last);
        }
        Below r = naive_runners(n, tier);
        for (size_t i = 0; next && i < r.n; i++)
                r.m[i]->left = r.m[i]->left ?: naive_slice(n->p, tier);
}

void naive_choose(PolicyNode *n, int tier, uint32_t slots) {
        if (naive_is_ranked(n->p, tier)) {
                naive_order_choose(n, tier, slots);
                return;
        }
        choose_here(n, tier, slots);

        Below r = naive_runners(n, tier);
        for (size_t i = 0; i < r.n; i++)
                if (r.m[i]->node)
                        naive_choose(r.m[i]->node, tier, r.m[i]->used);
                else {
                        r.m[i]->e->chosen = true;
                        r.m[i]->e->chosen_order = n->p->order++;
                }
}

/* Time until V reaches m: the distance divided by the difference of V's speed and m's own. */
static uint64_t until(PolicyNode *n, int tier, const Full *f, const Member *m) {
        Below b = naive_below(n, tier);
        wide_t w = weight_of(&b), left = f->weight, sum = 0, rate;

        for (size_t i = 0; i < b.n; i++)
                if (b.m[i]->here)
                        sum += (wide_t) b.m[i]->weight * (int64_t) (m->v - b.m[i]->v);
                else if (b.m[i]->remembered)
                        sum += (wide_t) b.m[i]->weight * b.m[i]->lag;
        rate = SCALE * (f->used * left + (w - left) * f->slots);
        if (m->used == 0)
                return (uint64_t) ((sum * left + rate - 1) / rate);
        rate = rate * m->weight - (wide_t) SCALE * m->used * w * left;
        if (rate <= 0)
                return NSEC_INFINITY;
        sum = (sum * left * m->weight + rate - 1) / rate;
        return (uint64_t) MIN(sum, (wide_t) 1 << 48);
}

static uint64_t left_here(PolicyNode *n, int tier, uint32_t slots) {
        Below b = naive_below(n, tier), r = naive_runners(n, tier);
        Full f = find_full(n, tier, slots);
        uint64_t left = NSEC_INFINITY, reach = NSEC_INFINITY;
        const Member *least = NULL;
        bool moves = false;
        size_t n_here = 0;

        for (size_t i = 0; i < b.n; i++)
                n_here += b.m[i]->here;
        if (n_here == 1 || n_used(n, tier) == naive_places(n, tier))
                return NSEC_INFINITY;
        for (size_t i = 0; i < r.n; i++) {
                uint64_t used = r.m[i]->used - naive_n_blocked(r.m[i], tier);

                moves = moves || used > 0;
                if (!f.full[i] && used > 0) {
                        uint64_t t = (r.m[i]->left + used - 1) / used;

                        left = MIN(left, t);
                }
        }
        if (!moves)
                return NSEC_INFINITY;
        if (first_waiting(n, tier, false))
                return left;
        for (size_t i = 0; i < b.n; i++) {
                const Member *m = b.m[i];

                if (!wants(m))
                        continue;
                if (m->used > 0) {
                        uint64_t t = until(n, tier, &f, m);

                        reach = MIN(reach, t);
                } else if (!least || is_before(m->v, m->wait_order, least->v, least->wait_order))
                        least = m;
        }
        if (least) {
                uint64_t t = until(n, tier, &f, least);

                reach = MIN(reach, t);
        }
        reach = MAX(reach, (uint64_t) 1);
        return MAX(left, reach);
}

uint64_t naive_left(PolicyNode *n, int tier, uint32_t slots) {
        Below r = naive_runners(n, tier);
        uint64_t left = left_here(n, tier, slots);

        for (size_t i = 0; i < r.n; i++)
                if (r.m[i]->node) {
                        uint64_t t = naive_left(r.m[i]->node, tier, r.m[i]->used);

                        left = MIN(left, t);
                }
        return left;
}

bool naive_entity_wait(const PolicyEntity *e, PolicyWait *ret) {
        if (!e->ready || e->grant.verdict != VERDICT_HOLD)
                return false;
        *ret = (PolicyWait){.since_ns = e->held_since};
        return true;
}
