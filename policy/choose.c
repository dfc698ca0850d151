/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The decisions of every policy
 *
 * A tier is all entities of one level. Its tree of queues (node.h) holds those that are ready and not stopped by a
 * maximum, and says which of them would run, whether the tier has the device or not: a tier that was interrupted goes
 * on where it was, and so does the inside of a node. What an ordering says (order.h) is in the queues: they are fair
 * ones (fair.h), or those of ranks (rank.h).
 *
 * Each dispatch decides in this order, and every decision is a function of struct Policy:
 *
 *   refill    Nodes whose period has ended go on.
 *   tick      The ordering is asked of those whose slices are used up, or whose alarms have come: ordering.h.
 *   choose    Of the tiers with somebody who could run the highest is active, and its tree's runners are the chosen
 *             ones; unless the device is kept (below), or another device has somebody of a higher level (outside()):
 *             then nobody is. Hence never two tiers, at most `concurrency`,
 *             and work-conserving: a fair queue leaves no slot empty while somebody waits.
 *   guarantee A node below which nobody was chosen, and which is due (guarantee.h), gets a turn: one of the places is
 *             taken from the active tier, and goes to the highest tier of the node, by its own tree. Meanwhile that
 *             branch is in no queue above, but is charged there for what it runs, as far as a queue can remember: a
 *             guaranteed share is part of what weight gives, and comes on top only where it is more. A turn ends early
 *             as soon as the node would run without it. One at a time: all minima together are worth at most one place.
 *   linger    An entity that goes idle after it ran may be back in no time; how long it is worth keeping the device
 *             for it its own gaps tell (gaps.h), and never more than linger_ns. It keeps the device from lower tiers
 *             only. There is one such candidate, of the highest tier and of those the last to give up, since a wait for
 *             it covers a wait for the others. Nothing renews the wait but running again.
 *   keep      Among equals a place is kept for who has just become idle, by leaving him in his queue: keep.h. Who loses
 *             it so leaves, and is decided again.
 *   owe       Who has been held for starve_ns, and is stopped by no maximum, is starved. One of the starved, which one
 *             is said in floor.h, is granted beside the chosen ones for starve_run_ns, or until it is idle. The next
 *             turn is not before starve_ns after this one began. So all turns together cost starve_run_ns/starve_ns of
 *             the device, and what a party gets of them does not depend on how many entities others have. Turns count
 *             against a maximum, but are not charged otherwise: they are no part of a share, and an entity that has
 *             lived on them must not find itself in debt when its tier comes up.
 *   advance   The idle entities of the highest tier registered, the POLICY_ADVANCE_MAX most recent ones: each tier
 *             lists its idle entities in that order. One event adds one of them and so displaces at most one, however
 *             big the tier is; a new highest tier displaces them all, once, and so does the first of several equals
 *             that contend. Without the bound a tier of n idle entities would cost n grants whenever it becomes or
 *             ceases to be the highest. Of those looked at the ones that a maximum stops, and those that have tails,
 *             are left out. Of a large crowd whose members come in turns none of these is the next: so nobody is
 *             granted in advance when the last POLICY_ADVANCE_MISSES that came were not of them. One that would have
 *             been ends that.
 *   stand     Others of that tier that are idle keep what they have, while nobody has a claim: standing.h.
 *   await     An entity that was chosen, and would share the device with what an equal has in flight, is granted
 *             later: drain.h.
 *   report    The granted entities are in one list, whose length is that of the reasons to be in it: concurrency + one
 *             turn of each kind + POLICY_ADVANCE_MAX + the last runner + the lingered-for one, and what is new. Those
 *             whose grants stand are in another list, which is looked at when they end.
 *             Everybody in it without a reason is held, then everybody with a reason is granted; entities that are held
 *             and stay held, idle ones of lower tiers above all, are not looked at. A grant goes out only if it differs
 *             from the last one.
 *
 * Thresholds follow claims: those of a higher tier (one needs to be registered only: its first launch counts), those of
 * equals that were more than could run at once within CORE_RECENT_NS, those of a minimum of somebody else, and those of
 * a maximum. The time of equals ends without a wake-up, at whatever dispatch comes next.
 *
 * Asked again: at the end of the wait or of a turn, when the longest held is starved and a turn may begin, when a fair
 * queue in use says that somebody's slice counts, when a quota may be used up, when a period ends that somebody waits
 * for, and when a node is due. If all that are ready are chosen and below no maximum, none of these is there, and the
 * answer is never.
 *
 * Time. Usage is accounted in full, and charged to fair time, maxima and minima, also when we are asked later than we
 * wanted: the entity that was granted, or drained, ran on, and owes that to the others. But from POLICY_LATE_MAX on,
 * lateness is the absence of our caller (a stopped service), in which no verdict meant anything, and it would be unfair
 * to charge more of it than a slice to the entity that was granted when it began. What is blocked by a tail (drain.h)
 * is charged nothing until that is over.
 *
 * Cost of an event: the walks of the fair queues on the path to the root, at most POLICY_DEPTH_MAX times O(log n); the
 * paths of the runners, O(concurrency * depth); the lists, O(1) an entity touched; the tiers, a look through a bit set
 * of eight words. A node that stops or goes on costs a walk for each of its branches, once in a period at most.
 */

#include <utlist.h>

#include "charge.h"
#include "choose.h"
#include "drain.h"
#include "floor.h"
#include "keep.h"
#include "node.h"
#include "ordering.h"
#include "place.h"
#include "rank.h"
#include "standing.h"
#include "tier.h"
#include "turn.h"
#include "usage.h"

static PolicyEntity *entity_of(FairNode *n) {
        return container_of(n, PolicyEntity, fair);
}

/* --- choose --- */

/* Recurses as deep as the tree: POLICY_DEPTH_MAX. */
static void fair_choose_tree(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        FairNode *n;

        fair_queue_choose(q, slots, slice_ns);
        DL_FOREACH(q->running, n)
                if (n->below)
                        fair_choose_tree(n->below, n->used, slice_ns);
                else
                        entity_choose(entity_of(n));
}

static void core_choose_ranked(Branch *b, uint32_t slots) {
        FairNode *n = NULL;

        b->fair.used = 0;
        while (b->fair.used < slots && (n = rank_queue_next(&b->fair, n))) {
                entity_choose(entity_of(n));
                b->fair.used++;
        }
}

static void branch_choose(Branch *b, uint32_t slots) {
        if (b->tier->ranked)
                core_choose_ranked(b, slots);
        else
                fair_choose_tree(&b->fair, slots, tier_slice(b->tier));
}

/* Keeps the device for an entity that may be back, but from lower tiers only. */
static void core_choose(Policy *p) {
        Tier *top = core_highest(p, &p->with_places);

        while (p->chosen)
                entity_unchoose(p->chosen);
        if (p->linger && (p->now_ns >= p->linger_until_ns || node_is_stopped(p->linger->node)))
                core_linger_end(p, false);
        p->lingering = top && p->linger && p->linger->branch->tier > top &&
                        !core_is_outranked(p, p->linger->branch->tier);
        p->slots = p->config.concurrency - (p->turn ? 1 : 0);
        p->active = !top || p->lingering || p->slots == 0 || core_is_outranked(p, top) ? NULL : top;
        if (p->active)
                branch_choose(&p->active->root, p->slots);
        if (p->turn)
                branch_choose(p->turn, 1);
}

static void core_note_contention(Policy *p) {
        Tier *top = core_highest(p, &p->with_places);
        uint32_t places = 0;

        if (top)
                places = top->root.fair.places + (p->turn && p->turn->tier == top ? p->turn->fair.places : 0);
        bool contends = top && places > p->config.concurrency;
        if (contends)
                top->contended_until_ns = ns_add(p->now_ns, CORE_RECENT_NS);
        core_note_crowd(p, top, contends);
}

/* --- owe --- */

/* An entity that is about to be released is not starved. */
static PolicyEntity *core_find_starved(Policy *p) {
        PolicyEntity *e;

        if (p->now_ns < p->config.starve_ns || floor_longest(p) > p->now_ns - p->config.starve_ns)
                return NULL;
        DL_FOREACH2(p->chosen, e, chosen_next)
                if (entity_is_starved(e))
                        entity_hold_end(e);
        return floor_next(p, p->now_ns - p->config.starve_ns);
}

/* At most one owed turn per starve period. */
static void core_owe(Policy *p) {
        if (p->owed && (p->now_ns >= p->owed_until_ns || p->owed->chosen || node_is_stopped(p->owed->node)))
                p->owed = NULL;
        if (p->owed || !core_has_floor(p) || p->now_ns < p->owed_next_ns)
                return;

        p->owed = core_find_starved(p);
        if (p->owed) {
                p->owed_until_ns = ns_add(p->now_ns, p->config.starve_run_ns);
                p->owed_next_ns = ns_add(p->now_ns, p->config.starve_ns);
                floor_take_turn(p->owed);
        }
}

/* --- advance --- */

/* Entities with the places of their tier must not find others' launches in their turns. */
static bool tier_is_taken(const Policy *p, const Tier *t) {
        return p->active == t && t->root.fair.used >= p->slots && p->now_ns < t->contended_until_ns;
}

/* The idle entities of the highest tier, the most recent ones where there are many. */
static void core_choose_advance(Policy *p) {
        const Tier *highest = core_highest(p, &p->registered);
        PolicyEntity *e;
        size_t n = 0;

        while (p->n_advanced > 0)
                p->advanced[--p->n_advanced]->advanced = false;
        if (!highest || tier_is_taken(p, highest) || core_is_outranked(p, highest) ||
                        highest->n_missed >= POLICY_ADVANCE_MISSES)
                return;
        DL_FOREACH2(highest->idle, e, idle_next) {
                if (n++ >= POLICY_ADVANCE_MAX)
                        break;
                if (node_is_stopped(e->node) || e->draining)
                        continue;
                entity_stand_end(e);
                e->advanced = true;
                p->advanced[p->n_advanced++] = e;
        }
}

/* --- report --- */

static bool entity_is_last(const PolicyEntity *e) {
        const Policy *p = e->policy;

        return e == p->last && p->n_ready == 0 && !node_is_stopped(e->node) && !core_is_outranked(p, e->branch->tier);
}

static bool entity_may_run(const PolicyEntity *e) {
        const Policy *p = e->policy;

        if (e->ready)
                return e->chosen || e == p->owed;
        return e->kept || e->advanced || entity_is_last(e) || (e == p->linger && p->lingering);
}

/* Entities of higher tiers have a claim against it, and minima and maxima always. */
static bool entity_is_claimed_by_others(const PolicyEntity *e) {
        const Policy *p = e->policy;
        const Tier *t = e->branch->tier;

        return t != core_highest(p, &p->registered) || core_is_outranked(p, t) ||
                        (p->guarantees && p->n_entities > 1) || (p->n_limited > 0 && node_is_limited(e->node));
}

/* Its equals have a claim while they contend. */
static bool entity_is_claimed(const PolicyEntity *e) {
        const Tier *t = e->branch->tier;

        return (t->n_entities > 1 && e->policy->now_ns < t->contended_until_ns) || entity_is_claimed_by_others(e);
}

static uint32_t entity_threshold(const PolicyEntity *e) {
        uint32_t usual = e->policy->config.threshold, own = e->settings.threshold;

        if (own == 0 || (e->settings.threshold_lowers && usual != 0 && usual < own))
                return usual;
        return own;
}

static void entity_report(PolicyEntity *e, PolicyGrant g) {
        Policy *p = e->policy;

        if (e->grant.verdict == g.verdict && e->grant.threshold == g.threshold)
                return;

        entity_account(e);
        if (e->grant.verdict != g.verdict) {
                if (g.verdict == VERDICT_RUN) {
                        if (e->draining)
                                entity_drain_end(e);
                        e->grant_seq = ++p->grant_seq;
                        DL_PREPEND2(p->granted, e, granted_prev, granted_next);
                        entity_hold_end(e);
                } else {
                        DL_DELETE2(p->granted, e, granted_prev, granted_next);
                        if (e->ready) {
                                entity_hold_begin(e);
                                entity_drain_begin(e);
                                e->usage.n_preempted++;
                        }
                }
        }
        e->grant = g;
        if (unlikely(p->tap))
                tap_grant(p, e->id, &g);
        p->callbacks.grant(e->owner, &e->grant, p->callbacks.userdata);
}

static void entity_run(PolicyEntity *e) {
        e->by_floor = e == e->policy->owed && !e->chosen;
        e->by_turn = e->policy->turn && entity_has_turn(e);
        entity_report(e,
                        (PolicyGrant){
                                        .verdict = VERDICT_RUN,
                                        .threshold = entity_is_claimed(e) ? entity_threshold(e) : 0,
                        });
}

/* A hold means that another entity has a claim. The bound counts when a launch passes because a lease has expired. */
static void entity_hold(PolicyEntity *e) {
        entity_report(e, (PolicyGrant){.verdict = VERDICT_HOLD, .threshold = entity_threshold(e)});
}

static bool entity_may_stand(const PolicyEntity *e) {
        return !e->ready && !e->draining && tier_lets_stand(e->branch->tier) && !entity_is_claimed_by_others(e);
}

/* While the device may be kept for it, its time is accounted as that of the granted ones. */
static void entity_run_on(PolicyEntity *e) {
        Policy *p = e->policy;

        entity_run(e);
        if (e == p->linger)
                return;
        if (p->n_standing == POLICY_STANDING_MAX) {
                PolicyEntity *longest = core_longest_standing(p);

                entity_stand_end(longest);
                entity_hold(longest);
        }
        entity_stand(e);
}

/* Reports holds first, so that two tiers are never granted at once, not even between two callbacks. What is granted
 * already is reported by then. */
static void core_report(Policy *p) {
        PolicyEntity *e, *next;

        if (p->standing && !entity_may_stand(p->standing))
                core_standing_end(p);
        DL_FOREACH_SAFE2(p->granted, e, next, granted_next)
                if (entity_may_run(e))
                        entity_run(e);
                else if (entity_may_stand(e))
                        entity_run_on(e);
                else
                        entity_hold(e);

        if (p->draining)
                core_await_tails(p);
        DL_FOREACH2(p->chosen, e, chosen_next)
                if (e->grant.verdict != VERDICT_RUN && !e->awaits_tail)
                        entity_run(e);
        if (p->owed && p->owed->grant.verdict != VERDICT_RUN)
                entity_run(p->owed);
        if (p->lingering && p->linger->grant.verdict != VERDICT_RUN)
                entity_run(p->linger);
        if (p->last && p->last->grant.verdict != VERDICT_RUN && entity_is_last(p->last))
                entity_run(p->last);
        for (size_t i = 0; i < p->n_advanced; i++)
                if (p->advanced[i]->grant.verdict != VERDICT_RUN)
                        entity_run(p->advanced[i]);
}

/* --- when to be asked again --- */

static uint64_t fair_left_tree(FairQueue *q, uint32_t slots, uint64_t slice_ns) {
        uint64_t left = fair_queue_left(q, slots, slice_ns);
        FairNode *n;

        DL_FOREACH(q->running, n)
                if (n->below) {
                        uint64_t below = fair_left_tree(n->below, n->used, slice_ns);

                        left = MIN(left, below);
                }
        return left;
}

static uint64_t fair_left(Policy *p) {
        uint64_t left = NSEC_INFINITY, t;

        if (p->active && !p->active->ranked)
                left = fair_left_tree(&p->active->root.fair, p->slots, tier_slice(p->active));
        if (p->turn && !p->turn->tier->ranked) {
                t = fair_left_tree(&p->turn->fair, 1, tier_slice(p->turn->tier));
                left = MIN(left, t);
        }
        return left;
}

/* The time until a running entity may use up a quota. */
static uint64_t core_quota_left(const Policy *p) {
        const PolicyEntity *e;
        uint32_t extra = p->owed ? 1 : 0;
        uint64_t left = p->owed && !p->owed->blocked ? node_quota_left(p->owed->node, extra) : NSEC_INFINITY;

        DL_FOREACH2(p->chosen, e, chosen_next) {
                if (e->blocked || e->kept)
                        continue;

                uint64_t t = node_quota_left(e->node, extra);

                left = MIN(left, t);
        }
        return left;
}

static uint64_t core_next_turn(const Policy *p) {
        const PolicyNode *due = core_first_due(p);

        if (p->guaranteed)
                return p->turn_until_ns;
        return due && due->due_ns > p->now_ns ? due->due_ns : NSEC_INFINITY;
}

static uint64_t core_next_owed(const Policy *p) {
        uint64_t held_ns = floor_longest(p), next = p->owed ? p->owed_until_ns : NSEC_INFINITY;

        if (held_ns != NSEC_INFINITY && core_has_floor(p)) {
                uint64_t starved = ns_add(held_ns, p->config.starve_ns);

                starved = MAX(starved, p->owed_next_ns);
                next = MIN(next, starved);
        }
        return next;
}

/* When time that runs now may be used up: of quotas, slices and budgets. */
static uint64_t core_next_used_up(Policy *p) {
        uint64_t left = NSEC_INFINITY, next = NSEC_INFINITY, t;
        bool tails = core_has_tails(p);

        if (tails)
                core_block(p);
        if (p->n_limited > 0)
                left = core_quota_left(p);
        t = fair_left(p);
        left = MIN(left, t);
        if (p->ordering->tick)
                next = core_next_tick(p);
        if (tails)
                core_unblock(p);
        t = ns_add(p->now_ns, left);
        return MIN(next, t);
}

static uint64_t core_next(Policy *p) {
        uint64_t next = core_next_used_up(p), t;

        if (p->kept) {
                t = core_next_keep_end(p);
                next = MIN(next, t);
        }
        if (p->draining && core_n_blocked(p) > 0)
                next = MIN(next, p->draining->drain_until_ns);
        if (p->n_awaiting > 0) {
                t = core_next_await_end(p);
                next = MIN(next, t);
        }
        if (p->guarantees) {
                t = core_next_turn(p);
                next = MIN(next, t);
        }
        if (p->refills.n > 0) {
                t = core_next_refill(p);
                next = MIN(next, t);
        }
        t = core_next_owed(p);
        p->latest_ns = MIN(next, t);
        if (!p->lingering)
                return p->latest_ns;
        next = MIN(p->latest_ns, p->linger_until_ns);
        t = ns_add(p->linger_until_ns, p->linger->trust_ns / POLICY_TRUST_PART);
        p->latest_ns = MIN(p->latest_ns, t);
        return next;
}

/* An entity that loses the place that was kept for it leaves, and then others may compete differently. The loop ends,
 * because each turn has one entity less. */
static void core_decide(Policy *p) {
        if (p->kept)
                (void) core_review_kept(p);
        do {
                if (p->guaranteed)
                        core_continue_turn(p);
                core_choose(p);
                if (p->guarantees && core_begin_turn(p))
                        core_choose(p);
        } while (p->kept && (core_drop_kept(p) || core_review_kept(p)));
}

uint64_t core_dispatch(Policy *p, uint64_t now_ns) {
        core_advance(p, now_ns);
        if (p->refills.n > 0)
                core_refill(p);
        if (p->ordering->tick)
                (void) core_tick(p);
        do
                core_decide(p);
        while (p->ordering->tick && core_tick(p));
        core_note_contention(p);
        core_owe(p);
        core_choose_advance(p);
        core_report(p);
        p->wake_ns = core_next(p);
        return p->wake_ns;
}
